//! The result of an experiment as plain values. The fields are those of `result.json`, in its
//! order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::aim::Aim;
use super::comparison::Comparison;
use super::path::CriticalPath;
use super::statistics::{Staleness, StepSeconds};
use super::swept::Swept;
use super::tuned::Tuned;
use crate::cluster::TaskName;
use crate::units::Time;

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this form: [`Report::FORMAT`].
    pub format: u32,
    /// The version of trainyard.
    pub trainyard: &'static str,
    /// The command that made it, by its words; empty for a program that is no command.
    pub command: Vec<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// The world that it ran in.
    pub world: World,
    /// The scenario, as changed by the command.
    pub settings: serde_json::Value,
    /// Whether all its runs are there. Not while they go on, nor if the command was stopped or a
    /// run has failed.
    pub complete: bool,
    /// The only task that the samples, gradients, waits and bytes are of, in a cluster whose tasks
    /// were started one by one: each knows its own. None if they are of all tasks.
    pub of_task: Option<String>,
    /// The model of the built-in trainer that all its runs train; none if they differ in that, or a
    /// program of one's own trains another.
    pub model: Option<String>,
    /// The accuracy that all its runs are to reach; none if they differ in that, or have none.
    pub target: Option<f64>,
    /// The learning rates that were tried, of runs that were tuned.
    pub tuned: Vec<Tuned>,
    /// What each of its runs trains; empty if all train the same.
    #[serde(skip)]
    pub aims: Vec<Aim>,
    /// One result a run, in the scenario's order.
    pub runs: Vec<Run>,
}

impl Report {
    /// The version of the form of `result.json`. Keys are added without a change of it.
    pub const FORMAT: u32 = 2;

    /// Adds the next run of `total`.
    pub(crate) fn add(&mut self, run: Run, total: usize) {
        self.runs.push(run);
        self.complete = self.runs.len() == total && !self.runs.iter().any(Run::is_unfinished);
    }

    /// The runs that were predicted, too: their names, and predicted beside measured.
    pub fn comparisons(&self) -> impl Iterator<Item = (&str, &Comparison)> {
        self.runs.iter().filter_map(|run| Some((&*run.name, run.comparison.as_ref()?)))
    }

    /// The result of the run called `name`.
    ///
    /// # Errors
    /// If there is none; the error lists the names that there are.
    pub fn run(&self, name: &str) -> Result<&Run, NoSuchRun> {
        let names = || self.runs.iter().map(|run| run.name.clone()).collect();
        let found = self.runs.iter().find(|run| run.name == name);
        found.ok_or_else(|| NoSuchRun { name: name.to_owned(), runs: names() })
    }
}

/// The error of a report that has no run of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the report has no run `{name}`; it has `{}`", .runs.join("`, `"))]
pub struct NoSuchRun {
    /// The name that was asked for.
    pub name: String,
    /// The names of its runs.
    pub runs: Vec<String>,
}

/// The world that an experiment ran in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum World {
    /// In one process, in virtual time.
    Simulation,
    /// One process a task, in real time.
    Deployment,
}

/// The result of one run. A number that is not finite is written as `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The run's name in the scenario with the swept values; no other run of the report has it.
    pub name: String,
    /// The run's name in the scenario.
    pub run: String,
    /// The seed of all its randomness.
    pub seed: u64,
    /// The number of this launch among those with the same settings and seed, from 1.
    pub repeat: u32,
    /// The swept values.
    pub settings: Swept,
    /// How it ended.
    pub end: End,
    /// The mode and compression of the run, in words.
    pub mode: String,
    /// The number of trainable values of the model; none if the run ended before it was known.
    pub parameters: Option<u64>,
    /// The number of updates of the variables.
    pub global_steps: u64,
    /// The global step that this training went on from: of a checkpoint, or of the variables that
    /// its chief found. None if it began anew.
    pub resumed_from: Option<u64>,
    /// The number of samples whose gradients were applied, by [`Gradients::applied`].
    pub samples: u64,
    /// The steps that were taken without a task that was lost, has left or never trained: the other
    /// towers of an all-reduce shared the batch meanwhile, and the rounds of a synchronous mode
    /// without backups lack the worker's gradient. A worker's last step before it is killed may be
    /// among them.
    #[serde(serialize_with = "by_task")]
    pub steps_without: BTreeMap<TaskName, u64>,
    /// The duration of the run, in seconds: virtual in a simulation, wall clock in a deployment.
    pub seconds: f64,
    /// The duration of the run on the wall clock, in seconds.
    pub wall_seconds: f64,
    /// The time until the first training step began, in seconds: variables get their values, and
    /// workers find each other.
    pub start_seconds: f64,
    /// Global steps per second: the sum over the workers, of each from the end of its first step to
    /// the end of its last applied one or, if that is later, to the beginning of the last applied
    /// step of all.
    pub steps_per_second: f64,
    /// Samples of applied gradients per second, over the same spans of time.
    pub samples_per_second: f64,
    /// The duration of a worker step, in seconds; none if there was no step. Steps that began after
    /// the last gradient was applied don't count.
    pub step_seconds: Option<StepSeconds>,
    /// The last loss on the test split. None if none was computed; not finite if the training
    /// diverged: then it is the loss of a step, where none is computed on the test split.
    pub final_loss: Option<f64>,
    /// The global step from which on the loss was not finite, of a run that diverged, as far as it
    /// is known.
    #[serde(skip)]
    pub diverged_at: Option<u64>,
    /// The share of the test split that the final model gets right; none if it was not evaluated.
    pub test_accuracy: Option<f64>,
    /// The global step of that look at the test split.
    #[serde(skip)]
    pub last_look_at: Option<u64>,
    /// The global step of the first look that reached the target accuracy; none if none did.
    #[serde(skip)]
    pub target_reached_at: Option<u64>,
    /// The time of the first evaluation that reached the target accuracy, in seconds since the run
    /// began, so that `start_seconds` is in it; none if it was not reached, or there is no target.
    pub seconds_to_target: Option<f64>,
    /// The time between that evaluation and the one before it, or the run's beginning, in seconds:
    /// the target may have been reached so much earlier. None if it was not reached.
    pub seconds_to_target_resolution: Option<f64>,
    /// The time of the last look at the test split, in seconds since the run began, so that
    /// `start_seconds` is in it. A run without `seconds_to_target` had not reached the target by
    /// then. None if it was not looked at.
    pub last_look_seconds: Option<f64>,
    /// The global steps by which the gradients were out of date when they arrived; none if no
    /// gradient arrived.
    pub staleness: Option<Staleness>,
    /// The numbers of computed, applied and dropped gradients.
    pub gradients: Gradients,
    /// Bytes that each task sent to others.
    #[serde(serialize_with = "by_task")]
    pub bytes_sent: BTreeMap<TaskName, u64>,
    /// The part of them that the training's steps sent: without evaluations, checkpoints and the
    /// setting up of sessions.
    #[serde(serialize_with = "by_task")]
    pub step_bytes_sent: BTreeMap<TaskName, u64>,
    /// The time that each worker waited in its steps, in seconds: for its parameters before and
    /// between its kernels, and for coordination after them.
    #[serde(serialize_with = "by_task")]
    pub waiting_seconds: BTreeMap<TaskName, BTreeMap<String, f64>>,
    /// What the run's time was spent on; none if no gradient was applied.
    pub critical_path: Option<CriticalPath>,
    /// What each task was busy with: shares of the run's time. None in a deployment.
    #[serde(serialize_with = "by_task")]
    pub usage: BTreeMap<TaskName, TaskUsage>,
    /// The number of events of the simulation; none in a deployment.
    pub events: Option<u64>,
    /// The audit digest of all events, 16 hex digits; none in a deployment.
    pub digest: Option<String>,
    /// The digest of the final variables, 16 hex digits; none if only shapes were computed.
    pub weights_digest: Option<String>,
    /// The global step of its last checkpoint: one that was written, or that it went on from.
    #[serde(skip)]
    pub last_saved: Option<u64>,
    /// The place of the checkpoints; none if the run keeps none beyond its end.
    #[serde(skip)]
    pub checkpoint_place: Option<String>,
    /// The checkpoints that could not be written: the global step of each, and why.
    pub failed_checkpoints: Vec<(u64, String)>,
    /// The faults of the scenario that happened: how many, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The faults of the scenario that did not happen.
    pub skipped_faults: Vec<SkippedFaultText>,
    /// The predicted figures beside the measured ones; none if they were not asked for.
    pub comparison: Option<Comparison>,
}

impl Run {
    /// The time from the first step to the target accuracy \[s\]; none if it was not reached. The
    /// start is left out: no mode decides how long it takes, and no simulation predicts how long
    /// the processes of a launch take to begin.
    pub(crate) fn training_seconds_to_target(&self) -> Option<f64> {
        self.seconds_to_target.map(|seconds| (seconds - self.start_seconds).max(0.0))
    }

    /// The time from the first step to the last look at the test split \[s\]; none without a look.
    /// Steps that end later than it say nothing of the model.
    pub(super) fn training_seconds_to_last_look(&self) -> Option<f64> {
        self.last_look_seconds.map(|seconds| (seconds - self.start_seconds).max(0.0))
    }

    /// Whether a checkpoint has its last step.
    pub(crate) fn is_end_saved(&self) -> bool {
        self.last_saved.is_some_and(|saved| saved >= self.global_steps)
    }

    /// Whether the training diverged: its last loss is not finite, so that the run has no result
    /// which others can be compared with.
    pub fn has_diverged(&self) -> bool {
        self.end == End::Diverged
    }

    /// Whether the run was stopped, or failed, before its training's end.
    pub fn is_unfinished(&self) -> bool {
        self.end == End::Unfinished
    }

    /// Whether the run was of a training that had ended before, so that it trained nothing.
    pub fn had_nothing_to_do(&self) -> bool {
        self.resumed_from.is_some() && self.gradients.computed == 0
    }

    /// Whether the run, if it has a target, reached it at a time that its last process can't know.
    pub(crate) fn has_unknown_time(&self) -> bool {
        let has_time = self.seconds_to_target.is_some();
        self.resumed_from.is_some() && self.end == End::Done && !has_time
    }

    /// The bytes that all tasks together sent in the training's steps.
    pub(crate) fn step_bytes(&self) -> u64 {
        self.step_bytes_sent.values().sum()
    }
}

/// The parts of a task, each with the share of the run's time in which it was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskUsage {
    /// Its devices ran kernels.
    pub compute: f64,
    /// Its message thread sent, received, or ran operations; 0 where that costs nothing.
    pub messages: f64,
    /// The network card of its host sent.
    pub card_out: f64,
    /// The network card of its host received.
    pub card_in: f64,
}

/// How a run ended that has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// As the scenario says.
    Done,
    /// Before it had reached the target accuracy.
    TargetNotReached,
    /// Its last loss is not finite.
    Diverged,
    /// Its last checkpoint could not be written.
    Unsaved,
    /// It was stopped, or a task that reports for itself failed, before the training's end.
    Unfinished,
}

/// A fault of the scenario that did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkippedFaultText {
    /// The fault, as a scenario has it.
    pub fault: String,
    /// Why it did not happen.
    pub why: String,
}

impl SkippedFaultText {
    /// The `fault` that did not happen, with the reason.
    pub fn new(fault: impl Into<String>, why: impl Into<String>) -> Self {
        Self { fault: fault.into(), why: why.into() }
    }
}

/// The numbers of gradients of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gradients {
    /// Computed by workers.
    pub computed: u64,
    /// Part of an update, as far as a worker has heard: the last gradient of one that is killed may
    /// be part of one, and is in none of these numbers.
    pub applied: u64,
    /// Not part of an update: they came too late, were stopped, or are of a round that the end of
    /// the training left unfinished.
    pub dropped: u64,
    /// The part of the dropped ones that was never computed: a worker was stopped in its step, as
    /// its round had closed.
    pub stopped: u64,
}

/// One evaluation on the test split: one row of `evaluations.csv`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EvaluationRow {
    /// The seed of the run.
    pub seed: u64,
    /// The global step at which it was made.
    pub global_step: u64,
    /// The number of samples that the workers had computed gradients of by then, dropped ones
    /// included.
    pub samples: u64,
    /// The time when it was done.
    pub at: Time,
    /// The mean loss on the test split.
    pub loss: f32,
    /// The share of the test split that was classified correctly.
    pub accuracy: f64,
}

/// `{"worker:0": value, ...}`, ordered by job, then index.
fn by_task<T: Serialize, S: Serializer>(
    tasks: &BTreeMap<TaskName, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tasks.iter().map(|(task, value)| (task.to_string(), value)))
}
