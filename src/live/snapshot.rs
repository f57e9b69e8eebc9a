//! The numbers of one task so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::training::{Evaluation, StepStats};

/// The upper ends of the buckets of staleness \[updates\].
pub(super) const STALENESS: [f64; 11] =
    [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
/// The upper ends of the buckets of a step's time \[s\].
pub(super) const STEP_SECONDS: [f64; 16] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// The numbers of one task so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The number of steps that it took.
    pub(crate) steps: u64,
    /// The number of samples in the batches of those steps.
    pub(crate) examples: u64,
    /// The number of its gradients that were applied.
    pub(crate) applied: u64,
    /// The number of its gradients that came too late.
    pub(crate) dropped: u64,
    /// The global step after its last step.
    pub(crate) global_step: u64,
    /// The time of the end of its last step \[s\].
    pub(crate) now: f64,
    /// The bits of the loss of its last step: JSON has no NaN.
    pub(crate) loss_bits: Option<u32>,
    /// The sum of the losses of its steps that are finite, and their number.
    pub(crate) losses: f64,
    pub(crate) loss_count: u64,
    /// Its last measurement on the test split.
    pub(crate) evaluated: Option<Evaluated>,
    /// The staleness of the gradients that were applied.
    pub(crate) staleness: Counts,
    /// The times of its steps.
    pub(crate) step_seconds: Counts,
    /// The time of its kernels in its steps \[s\], and the number of steps that had any.
    pub(crate) compute_seconds: f64,
    pub(crate) computed: u64,
    /// The checkpoints that it saves as the chief.
    pub(crate) saves: Saves,
    /// Its network and its actors, as it last looked.
    pub(crate) activity: TaskActivity,
}

/// The checkpoints of a chief so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saves {
    /// The last that is saved, or that the training went on from: global step, time \[s\].
    pub(crate) last: Option<(u64, f64)>,
    /// The number of those that could not be saved.
    pub(crate) failed: u64,
    /// How often the training has gone back to one, or to first values.
    pub(crate) restores: u64,
}

/// A measurement on the test split: time \[s\], global step, accuracy.
pub(crate) type Evaluated = (f64, u64, f64);

/// `evaluation` as it is shown.
pub(super) fn evaluated(evaluation: &Evaluation) -> Evaluated {
    (evaluation.at.as_secs_f64(), evaluation.global_step, evaluation.accuracy)
}

/// What a task knows of its network and of its actors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskActivity {
    /// When it looked \[s\].
    pub(crate) now: f64,
    /// The data sent, by the receiver \[bytes\].
    pub(crate) sent: BTreeMap<String, u64>,
    /// The data received, by the sender \[bytes\].
    pub(crate) received: BTreeMap<String, u64>,
    /// The actors that wait, each with the thing it waits for.
    pub(crate) waiting: Vec<(String, String)>,
    /// The tasks that it has messages for but can't reach.
    pub(crate) unreached: Vec<String>,
    /// The number of sessions on it.
    pub(crate) sessions: u64,
    /// The number of steps of sessions that are under way on it.
    pub(crate) running_steps: u64,
    /// When its certificate ends, if it has one \[s since 1970\].
    pub(crate) certificate_end: Option<u64>,
}

/// A histogram: the number of values in each bucket, and their sum. The last bucket has no upper
/// end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) buckets: Vec<u64>,
    pub(crate) sum: f64,
}

impl Counts {
    /// Counts `value` in the bucket that it belongs to by the upper `ends`.
    fn add(&mut self, value: f64, ends: &[f64]) {
        self.buckets.resize(ends.len() + 1, 0);
        self.buckets[ends.partition_point(|end| *end < value)] += 1;
        self.sum += value;
    }
}

impl Snapshot {
    /// Counts a step on a batch of `batch` samples.
    pub(super) fn count(&mut self, step: &StepStats, batch: u64) {
        self.steps += 1;
        self.examples += if step.is_stopped { 0 } else { batch };
        if step.applied {
            self.applied += 1;
            if !step.is_local {
                self.staleness.add(step.staleness as f64, &STALENESS);
            }
        } else if !step.is_local {
            self.dropped += 1;
        }
        self.global_step = step.global_step;
        self.now = step.ended.as_secs_f64();
        self.loss_bits = step.loss.map(f32::to_bits).or(self.loss_bits);
        if let Some(loss) = step.loss.filter(|loss| loss.is_finite()) {
            self.losses += f64::from(loss);
            self.loss_count += 1;
        }
        if let Some((from, until)) = step.computed {
            self.compute_seconds += until.since(from).as_secs_f64();
            self.computed += 1;
        }
        self.step_seconds.add(step.ended.since(step.started).as_secs_f64(), &STEP_SECONDS);
    }

    /// The same on a clock that is so much \[s\] ahead.
    pub(crate) fn later(mut self, ahead: f64) -> Self {
        self.now += ahead;
        self.activity.now += ahead;
        if let Some((_, at)) = &mut self.saves.last {
            *at += ahead;
        }
        if let Some((at, ..)) = &mut self.evaluated {
            *at += ahead;
        }
        self
    }

    /// How long ago its last checkpoint was saved, when it last looked \[s\].
    pub(super) fn checkpoint_age(&self) -> Option<f64> {
        self.saves.last.map(|(_, at)| f64::max(self.activity.now - at, 0.0))
    }

    /// The loss of its last step.
    pub(crate) fn loss(&self) -> Option<f32> {
        self.loss_bits.map(f32::from_bits)
    }

    /// The number of its actors that wait, by the first task that each waits for.
    pub(super) fn waits_for(&self) -> BTreeMap<Option<TaskName>, u64> {
        let mut by_task = BTreeMap::new();
        for (_, what) in &self.activity.waiting {
            let mut words = what.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
            let first = words.find_map(|word| word.parse::<TaskName>().ok());
            *by_task.entry(first).or_default() += 1;
        }
        by_task
    }
}
