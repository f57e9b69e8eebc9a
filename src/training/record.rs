//! The facts that the tasks of a training record: steps, evaluations, checkpoints, its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::units::Time;

/// A fact of a training, which one of its tasks records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fact {
    /// The chief is about to begin its training.
    Began(Beginning),
    /// A worker has taken a step.
    Step(StepStats),
    /// The chief has restored a checkpoint, or given the variables first values: all later updates
    /// are undone.
    Restored(Restore),
    /// The chief has begun with variables that it found at this global step. Other than 0, an
    /// earlier life of it has led the training there.
    TakenOver(u64),
    /// The chief's session is to end at this global step.
    EndsAt(u64),
    /// A worker's own values began anew: no checkpoint of the step has them, or it was started
    /// again while the others went on.
    BegunAnew(BegunAnew),
    /// The towers of an all-reduce have formed.
    Formed(Formed),
    /// The model was measured on the test split.
    Evaluated(Evaluation),
    /// The model was looked at, where only shapes are computed, and this is when.
    Looked(Time),
    /// The checkpoint of `global_step` is the last that is saved.
    Saved {
        /// The global step.
        global_step: u64,
        /// When it was saved or, if the training went on from it, restored.
        at: Time,
    },
    /// A checkpoint could not be written; the training goes on.
    NotSaved(FailedCheckpoint),
    /// The task was started when the training had ended already; an earlier process of the chief
    /// has reported it.
    NothingToDo,
    /// The task's tape could not be written to its end: which one, and why. The training went on.
    TapeCut(String),
    /// The chief has ended its training.
    Ended(Ending),
}

impl Fact {
    /// The fact, with its times on a clock that shows `ns` more.
    pub(crate) fn later(self, ns: i64) -> Self {
        match self {
            Self::Step(step) => Self::Step(step.later(ns)),
            Self::Restored(it) => Self::Restored(Restore { at: later(it.at, ns), ..it }),
            Self::Formed(it) => Self::Formed(Formed { at: later(it.at, ns), ..it }),
            Self::Evaluated(it) => Self::Evaluated(Evaluation { at: later(it.at, ns), ..it }),
            Self::Looked(at) => Self::Looked(later(at, ns)),
            Self::Saved { global_step, at } => Self::Saved { global_step, at: later(at, ns) },
            Self::Began(_)
            | Self::TakenOver(_)
            | Self::EndsAt(_)
            | Self::BegunAnew(_)
            | Self::NotSaved(_)
            | Self::NothingToDo
            | Self::TapeCut(_)
            | Self::Ended(_) => self,
        }
    }
}

fn later(time: Time, ns: i64) -> Time {
    Time(time.0.saturating_add_signed(ns))
}

/// One training step of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepStats {
    /// The worker that took the step, or its coordinator's executor.
    pub worker: TaskName,
    /// The step's number on its worker, from 0.
    pub local_step: u64,
    /// The global step after this step.
    pub global_step: u64,
    /// The time when the worker asked for it.
    pub started: Time,
    /// The time when it was done.
    pub ended: Time,
    /// The time of its kernels on the worker, if any ran: it ends with the last of them, and is as
    /// long as all of them took together. Updates of variables that the worker itself holds are
    /// among them, unless they wait for others' gradients. Of several devices of the worker, each
    /// with such a time, it is from the earliest beginning to the latest end.
    pub computed: Option<(Time, Time)>,
    /// The loss: of what the step fetched, the value that an optimizer minimizes, else one that was
    /// differentiated by variables, else the first f32 scalar. None if it fetched no f32 scalar, or
    /// if only shapes are computed.
    pub loss: Option<f32>,
    /// The number of updates that were applied between the step's reading of the variables and the
    /// application of its gradient.
    pub staleness: u64,
    /// Whether the gradient was applied; if not, it came too late and was dropped, or the step was
    /// stopped.
    pub applied: bool,
    /// Whether the step was stopped before its gradient was computed, because that would have come
    /// too late.
    pub is_stopped: bool,
    /// Whether it changed only the worker's own copy, which a later step exchanges.
    pub is_local: bool,
}

impl StepStats {
    /// The length of [`StepStats::computed`]; none if no kernel ran, it was stopped, or its kernels
    /// took no time: a replay runs those at once whose end is on no tape, and measures none.
    pub fn compute_time(&self) -> Option<Duration> {
        let (from, until) = self.computed?;
        Some(until.since(from)).filter(|time| !time.is_zero())
    }

    /// The step, with its times on a clock that shows `ns` more.
    pub(crate) fn later(self, ns: i64) -> Self {
        Self {
            started: later(self.started, ns),
            ended: later(self.ended, ns),
            computed: self.computed.map(|(from, until)| (later(from, ns), later(until, ns))),
            ..self
        }
    }

    /// The durations of its wait for parameters, of its kernels, and of its wait for coordination
    /// after them.
    pub(crate) fn phases(&self) -> [Duration; 3] {
        let (from, until) = self.computed.unwrap_or((self.started, self.started));
        [from.since(self.started), until.since(from), self.ended.since(until)]
    }
}

#[cfg(test)]
impl StepStats {
    /// A step of the worker `index` whose gradient was applied.
    pub(crate) fn applied(
        index: u32,
        (local_step, global_step): (u64, u64),
        (started, ended): (Time, Time),
    ) -> Self {
        Self {
            worker: TaskName::new("worker", index),
            local_step,
            global_step,
            started,
            ended,
            computed: None,
            loss: None,
            staleness: 0,
            applied: true,
            is_stopped: false,
            is_local: false,
        }
    }
}

/// A measurement of the model on the test split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The global step at which it was made.
    pub global_step: u64,
    /// The time of the evaluation.
    pub at: Time,
    /// The mean loss on the test split.
    pub loss: f32,
    /// The share of the test split that is classified correctly.
    pub accuracy: f64,
}

/// The model that is trained, as its chief built it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The number of values in all trainable variables together.
    pub parameters: u64,
    /// The graph, as TensorBoard draws it: a binary GraphDef without large constants. Empty where
    /// nobody writes it to a file.
    pub graph: Vec<u8>,
}

/// A checkpoint that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailedCheckpoint {
    /// The global step that it would have held.
    pub global_step: u64,
    /// The reason.
    pub why: String,
    /// Whether it was to be the training's last, without which its end is in no checkpoint.
    pub is_last: bool,
}

/// A worker whose own values, of variables that it alone has, began anew in a training that had
/// begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BegunAnew {
    /// The worker.
    pub worker: TaskName,
    /// The number of its steps that had been counted.
    pub count: u64,
    /// Whether the training had gone back to a checkpoint; if not, the worker was started again.
    pub went_back: bool,
}

/// A return to a checkpoint, which undid all updates after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Restore {
    /// The global step of the checkpoint; 0 where the variables got first values.
    pub global_step: u64,
    /// A time after the last update that it undid, and before the first that it did not.
    pub at: Time,
}

impl Restore {
    /// Whether it undid `step`: also a local one that the next exchange was to bring to the others.
    pub(crate) fn undoes(&self, step: &StepStats) -> bool {
        step.ended <= self.at && step.global_step + u64::from(step.is_local) > self.global_step
    }

    /// Whether it undid the updates after which `evaluation` was made.
    pub(crate) fn undoes_evaluation(&self, evaluation: &Evaluation) -> bool {
        evaluation.at <= self.at && evaluation.global_step > self.global_step
    }
}

/// The towers of an all-reduce have formed, without the tasks that are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Formed {
    /// A time before the first step of the formation.
    pub at: Time,
    /// The tasks of the replica that it is without.
    pub without: Vec<TaskName>,
    /// The samples of each of its steps: its towers share the batch, and leave out what remains.
    pub samples: u64,
}

/// How a training ended, as its chief saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// A hash of the trainable variables, by name; equal for equal weights. None if only shapes are
    /// computed.
    pub weights_digest: Option<u64>,
}
