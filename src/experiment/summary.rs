//! Sums up a recording and its world's observations as one run of the report.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Trial;
use crate::cluster::TaskName;
use crate::report::{EvaluationRow, Gradients, Run, Staleness, StepRow, StepSeconds};
use crate::runtime::Traffic;
use crate::simulation::Outcome;
use crate::training::{Evaluation, Recording, Settings, StepStats};
use crate::units::Time;

/// The world's observations of a run, beside the run's own record.
pub(crate) struct Observed {
    /// The end of the run, on the run's own clock.
    pub(crate) ended: Time,
    /// The data that each task sent to others.
    pub(crate) sent: BTreeMap<TaskName, Traffic>,
    /// The number of events of a simulation.
    pub(crate) events: Option<u64>,
    /// The digest of a simulation.
    pub(crate) digest: Option<String>,
}

impl From<&Outcome<()>> for Observed {
    fn from(outcome: &Outcome<()>) -> Self {
        Self {
            ended: outcome.ended,
            sent: outcome.sent.clone(),
            events: Some(outcome.events),
            digest: Some(outcome.digest.to_string()),
        }
    }
}

/// Sums up a run that took `wall` of real time.
pub(super) fn of(trial: &Trial, recording: &Recording, observed: &Observed, wall: Duration) -> Run {
    let (steps, settings) = (&recording.steps, &trial.settings);
    let global_steps = steps.iter().map(|step| step.global_step).max().unwrap_or(0);
    let seconds = steps.iter().map(|step| step.ended).max().unwrap_or(observed.ended).as_secs_f64();
    let samples = (steps.len() * settings.batch) as u64;
    let counted = steps.iter().filter(|step| step.applied).count() as u64;
    let applied = counted - trial.mode.left_over(counted, global_steps);
    let durations: Vec<f64> =
        steps.iter().map(|step| step.ended.since(step.started).as_secs_f64()).collect();
    let by_task = |bytes: fn(&Traffic) -> u64| {
        observed.sent.iter().map(|(task, sent)| (task.clone(), bytes(sent))).collect()
    };
    let last = recording.evaluations.last();
    let weights_digest = recording.ending.and_then(|ending| ending.weights_digest);
    Run {
        name: trial.name.clone(),
        mode: trial.how.clone(),
        parameters: recording.beginning.map(|beginning| beginning.parameters),
        global_steps,
        samples,
        seconds,
        wall_seconds: wall.as_secs_f64(),
        steps_per_second: global_steps as f64 / seconds,
        samples_per_second: samples as f64 / seconds,
        step_seconds: StepSeconds::of(&durations),
        final_loss: last.map(|evaluation| f64::from(evaluation.loss)),
        test_accuracy: last.map(|evaluation| evaluation.accuracy),
        seconds_to_target: seconds_to_target(settings, recording),
        staleness: Staleness::of(&staleness(steps)),
        gradients: Gradients {
            computed: steps.len() as u64,
            applied,
            dropped: steps.len() as u64 - applied,
        },
        bytes_sent: by_task(|sent| sent.total),
        step_bytes_sent: by_task(|sent| sent.steps),
        waiting_seconds: waiting(steps),
        events: observed.events,
        digest: observed.digest.clone(),
        weights_digest: weights_digest.map(|digest| format!("{digest:016x}")),
        failed_checkpoints: recording
            .failed_checkpoints
            .iter()
            .map(|failed| (failed.global_step, failed.why.clone()))
            .collect(),
        is_unsaved: recording.is_unsaved(),
        comparison: None,
    }
}

/// The rows of `steps.csv`, one for each step of `recording`.
pub(super) fn rows(recording: &Recording) -> Vec<StepRow> {
    let row = |step: &StepStats| StepRow {
        worker: step.worker.clone(),
        local_step: step.local_step,
        global_step: step.global_step,
        start: step.started,
        end: step.ended,
        loss: step.loss,
        staleness: step.staleness,
        applied: step.applied,
    };
    recording.steps.iter().map(row).collect()
}

/// The rows of `evaluations.csv`, one for each evaluation in `recording`.
pub(super) fn evaluations(trial: &Trial, recording: &Recording) -> Vec<EvaluationRow> {
    let steps_until = |at: Time| recording.steps.iter().filter(|step| step.ended <= at).count();
    let row = |evaluation: &Evaluation| EvaluationRow {
        seed: trial.cluster.seed,
        global_step: evaluation.global_step,
        samples: (steps_until(evaluation.at) * trial.settings.batch) as u64,
        at: evaluation.at,
        loss: evaluation.loss,
        accuracy: evaluation.accuracy,
    };
    recording.evaluations.iter().map(row).collect()
}

fn seconds_to_target(settings: &Settings, recording: &Recording) -> Option<f64> {
    let target = settings.stop.accuracy?;
    let reached = recording.evaluations.iter().find(|evaluation| evaluation.accuracy >= target)?;
    Some(reached.at.as_secs_f64())
}

/// The number of applied gradients for each staleness.
fn staleness(steps: &[StepStats]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for step in steps.iter().filter(|step| step.applied) {
        *counts.entry(step.staleness).or_default() += 1;
    }
    counts
}

/// The time that each worker waited in its steps \[s\], by cause: for its parameters before its
/// kernels ran, and for coordination after them, until its gradient was applied and the others had
/// come as far as the mode demands.
fn waiting(steps: &[StepStats]) -> BTreeMap<TaskName, BTreeMap<String, f64>> {
    let mut waiting: BTreeMap<TaskName, BTreeMap<String, f64>> = BTreeMap::new();
    let seconds = |from: Time, until: Time| until.since(from).as_secs_f64();
    for step in steps {
        let (from, until) = step.computed.unwrap_or((step.started, step.started));
        let causes = waiting.entry(step.worker.clone()).or_default();
        *causes.entry("parameters".to_owned()).or_default() += seconds(step.started, from);
        *causes.entry("coordination".to_owned()).or_default() += seconds(until, step.ended);
    }
    waiting
}
