//! The entry of a run in the report: sums up its training's record and its world's observations.

mod absences;
mod divergence;
mod rates;
mod resumption;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::Trial;
use super::critical_path::{self, Extent};
use super::observed::Observed;
use crate::cluster::TaskName;
use crate::report::{
    CriticalPath, End, EvaluationRow, Gradients, Pauses, Run, SkippedFaultText, Staleness,
    StepSeconds,
};
use crate::runtime::Traffic;
use crate::scenario::{Checkpoint, fault_name, written_fault};
use crate::simulation::SkippedFault;
use crate::training::{Evaluation, FailedCheckpoint, Recording, Settings, StepStats};
use crate::units::Time;
use absences::steps_without;
use divergence::final_loss;
use rates::Rates;
use resumption::{has_its_own_time, resumed_from, was_over};

impl Trial {
    /// The run's entry in the report, from a training's record and its world's observations; it
    /// took `wall` of real time.
    pub(super) fn summarise(
        &self,
        recording: &Recording,
        observed: &Observed,
        wall: Duration,
    ) -> Run {
        let (steps, settings) = (recording.steps(), &self.settings);
        let resumed_from = resumed_from(recording);
        let global_steps = recording.global_step();
        let updates = resumed_from.unwrap_or(0).min(global_steps)..global_steps;
        let ended = recording.ended().unwrap_or(observed.ended);
        let counted = steps.clone().filter(|step| step.applied).count() as u64;
        let applied = counted - self.mode.left_over(counted, updates.end - updates.start);
        let batch = settings.batch as u64;
        let rates = Rates::of(known(recording, updates.start), updates.clone(), applied);
        let start = rates.start.unwrap_or(ended).as_secs_f64();
        let seconds = ended.as_secs_f64();
        let by_task = |bytes: fn(&Traffic) -> u64| {
            observed.sent.iter().map(|(task, sent)| (task.clone(), bytes(sent))).collect()
        };
        let last = recording.evaluations.last();
        let weights_digest = recording.ending.and_then(|ending| ending.weights_digest);
        let (final_loss, reached) = (final_loss(recording), reached(settings, recording));
        let misses_target = settings.stop.accuracy.is_some() && reached.is_none();
        let target_reached_at = reached.map(|reached| reached.global_step);
        let was_over = was_over(resumed_from, target_reached_at, applied);
        let reached = reached.filter(|_| !was_over && has_its_own_time(recording, resumed_from));
        Run {
            name: self.name.clone(),
            run: self.run_name().to_owned(),
            seed: self.cluster.seed,
            repeat: self.repeat,
            settings: self.swept(),
            end: end(recording, final_loss, misses_target),
            mode: self.how.clone(),
            parameters: recording.beginning.as_ref().map(|beginning| beginning.parameters),
            global_steps,
            resumed_from,
            samples: applied * batch - left_out(recording, batch),
            steps_without: steps_without(self, recording),
            seconds,
            wall_seconds: wall.as_secs_f64(),
            start_seconds: start,
            steps_per_second: rates.steps,
            samples_per_second: rates.gradients * batch as f64,
            step_seconds: StepSeconds::of(&lengths(steps.clone(), rates.end)),
            final_loss,
            diverged_at: divergence::since(recording),
            test_accuracy: last.map(|evaluation| evaluation.accuracy),
            last_look_at: last.map(|evaluation| evaluation.global_step),
            target_reached_at,
            seconds_to_target: reached.map(|reached| reached.at),
            seconds_to_target_resolution: reached.map(|reached| reached.at - reached.before),
            last_look_seconds: last.map(|evaluation| evaluation.at.as_secs_f64()),
            staleness: Staleness::of(&staleness(steps.clone(), counted - applied)),
            // Workers may have begun steps before they heard that the training was over.
            gradients: match was_over {
                true => Gradients::default(),
                false => gradients(recording, applied),
            },
            bytes_sent: by_task(|sent| sent.total),
            step_bytes_sent: by_task(|sent| sent.steps),
            waiting_seconds: waiting(steps.clone()),
            critical_path: self.critical_path(observed, recording, (start, seconds)),
            usage: observed.usage_until(ended),
            events: observed.events,
            digest: observed.digest.clone(),
            weights_digest: weights_digest.map(|digest| format!("{digest:016x}")),
            last_saved: recording.last_saved(),
            checkpoint_place: self.checkpoint_place(),
            failed_checkpoints: recording.failed_checkpoints.iter().map(failed).collect(),
            faults: self.met_faults(observed),
            skipped_faults: told(&observed.skipped_faults),
            comparison: None,
        }
    }

    /// What the time of the steps of `recording` was spent on, in a run that began its first step
    /// at `start` and ended after `seconds`, both in seconds.
    fn critical_path(
        &self,
        observed: &Observed,
        recording: &Recording,
        (start, seconds): (f64, f64),
    ) -> Option<CriticalPath> {
        let steps = recording.steps();
        let workers_are_free = self.leaves_workers_free();
        let run = Extent { start, seconds, workers_are_free };
        let path = match &observed.path {
            Some(path) => critical_path::simulated(path, &self.cluster, steps, run),
            None => {
                let restored = recording.restored.iter().map(|restore| restore.at);
                critical_path::deployed(steps, &restored.collect::<Vec<_>>(), run)
            }
        }?;
        Some(CriticalPath { workers_are_free, pauses: self.pauses(observed), ..path })
    }

    /// What the run, of which this was observed, has that holds its steps up.
    fn pauses(&self, observed: &Observed) -> Pauses {
        let settings = &self.settings;
        let key = |checkpoint: &Checkpoint| match checkpoint.every_steps {
            Some(_) => "checkpoint.every_steps",
            None => "checkpoint.every",
        };
        Pauses {
            looks: settings.stop.looks().is_some() && self.cluster.spec.evaluator().is_none(),
            checkpoints: self.checkpoint.as_ref().map(key),
            faults: !self.met_faults(observed).is_empty(),
            takes_backups: self.mode.takes_backups()
                && settings.all_reduce.is_none()
                && !self.has_one_worker(),
        }
    }

    /// The faults that the run, of which this was observed, has met: how many, by kind.
    fn met_faults(&self, observed: &Observed) -> BTreeMap<String, u64> {
        let mut met = BTreeMap::new();
        for fault in &self.cluster.faults.list {
            *met.entry(fault_name(&fault.kind).to_owned()).or_default() += 1;
        }
        for SkippedFault { fault, .. } in &observed.skipped_faults {
            *met.get_mut(fault_name(&fault.kind)).expect("what is skipped is listed") -= 1;
        }
        met.retain(|_, count| *count > 0);
        met
    }

    /// Whether a slow worker costs the others no time. Tokens hold workers back in any mode.
    pub(super) fn leaves_workers_free(&self) -> bool {
        let is_free = self.mode.leaves_workers_free() && self.settings.sync_replicas.is_none();
        is_free || self.has_one_worker()
    }

    fn has_one_worker(&self) -> bool {
        self.cluster.spec.workers().count() == 1
    }
}

fn failed(failed: &FailedCheckpoint) -> (u64, String) {
    (failed.global_step, failed.why.clone())
}

/// The faults that did not happen, as a report has them.
fn told(skipped: &[SkippedFault]) -> Vec<SkippedFaultText> {
    let mut missed: Vec<&SkippedFault> = Vec::new();
    for one in skipped.iter().filter(|one| !one.is_by_chance()) {
        // What a law draws has one entry.
        let is_again = missed.last().is_some_and(|last| one.repeats(last));
        missed.extend(Some(one).filter(|_| !is_again));
    }
    let text =
        |one: &&SkippedFault| SkippedFaultText::new(written_fault(&one.fault), one.why.to_string());
    missed.iter().map(text).collect()
}

/// The steps, where those that were undone are at the global step `begun`, from which it began.
fn known(recording: &Recording, begun: u64) -> impl Iterator<Item = StepStats> + Clone + '_ {
    recording.steps().map(move |step| match recording.has_undone(&step) {
        true => StepStats { global_step: begun, ..step },
        false => step,
    })
}

/// How long each of `steps` took \[s\] that began before the training was over, at `until`.
fn lengths(steps: impl Iterator<Item = StepStats>, until: Option<Time>) -> Vec<f64> {
    let until = until.unwrap_or_default();
    let counted = steps.filter(|step| step.started < until || step.ended <= until);
    counted.map(|step| step.ended.since(step.started).as_secs_f64()).collect()
}

/// The samples of the applied steps' batches that the towers of an all-reduce left out, where they
/// could not share the batch equally.
fn left_out(recording: &Recording, batch: u64) -> u64 {
    let applied = recording.steps().filter(|step| step.applied);
    let formations = applied.filter_map(|step| recording.formation_of(&step));
    formations.map(|formed| batch - formed.samples).sum()
}

/// The numbers of gradients, `applied` of which are in updates.
fn gradients(recording: &Recording, applied: u64) -> Gradients {
    let begun = recording.log.len() as u64;
    let stopped = recording.steps().filter(|step| step.is_stopped).count() as u64;
    Gradients { computed: begun - stopped, applied, dropped: begun - applied, stopped }
}

/// How a run ended. A loss that is not finite is worse than anything else.
fn end(recording: &Recording, final_loss: Option<f64>, misses_target: bool) -> End {
    if final_loss.is_some_and(|loss| !loss.is_finite()) {
        End::Diverged
    } else if recording.is_unsaved() {
        End::Unsaved
    } else if misses_target {
        End::TargetNotReached
    } else {
        End::Done
    }
}

/// The rows of `evaluations.csv`, one for each evaluation in `recording`.
pub(super) fn evaluations(trial: &Trial, recording: &Recording) -> Vec<EvaluationRow> {
    let computed = recording.steps().filter(|step| !step.is_stopped);
    let mut ends: Vec<Time> = computed.map(|step| step.ended).collect();
    ends.sort_unstable();
    let steps_until = |at: Time| ends.partition_point(|end| *end <= at);
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

/// The first look at the test split that reached the target.
#[derive(Clone, Copy)]
struct Reached {
    global_step: u64,
    /// Its time \[s\].
    at: f64,
    /// The time of the look before it, or of the run's beginning \[s\].
    before: f64,
}

/// The first evaluation that reached the target.
fn reached(settings: &Settings, recording: &Recording) -> Option<Reached> {
    let (target, evaluations) = (settings.stop.accuracy?, &recording.evaluations);
    let first = evaluations.iter().position(|evaluation| evaluation.accuracy >= target)?;
    let before = evaluations[..first].last().map_or(0.0, |before| before.at.as_secs_f64());
    let Evaluation { global_step, at, .. } = evaluations[first];
    Some(Reached { global_step, at: at.as_secs_f64(), before })
}

/// The number of applied gradients for each staleness; of workers that train copies of their own,
/// of exchanges alone, since the steps between two read nothing that others change. The last
/// `left_over` of them are left out: the training ended before their round did.
fn staleness(steps: impl Iterator<Item = StepStats> + Clone, left_over: u64) -> BTreeMap<u64, u64> {
    let counted = steps.filter(|step| step.applied && !step.is_local);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for step in counted.clone() {
        *counts.entry(step.staleness).or_default() += 1;
    }
    for Reverse((_, staleness)) in latest(counted, left_over as usize) {
        counts.entry(staleness).and_modify(|count| *count -= 1);
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// The `count` of `steps` that ended last: when, and how stale their gradients were.
fn latest(
    steps: impl Iterator<Item = StepStats>,
    count: usize,
) -> BinaryHeap<Reverse<(Time, u64)>> {
    let mut latest = BinaryHeap::new();
    if count > 0 {
        for step in steps {
            latest.push(Reverse((step.ended, step.staleness)));
            if latest.len() > count {
                latest.pop(); // the one that ended first
            }
        }
    }
    latest
}

/// The time that each worker waited in its steps \[s\], by cause: for its parameters before and
/// between its kernels, and for coordination after them, until its gradient was applied and the
/// others had come as far as the mode demands.
fn waiting(steps: impl Iterator<Item = StepStats>) -> BTreeMap<TaskName, BTreeMap<String, f64>> {
    let mut waiting: BTreeMap<TaskName, BTreeMap<String, f64>> = BTreeMap::new();
    for step in steps {
        let [parameters, _, coordination] = step.phases().map(|phase| phase.as_secs_f64());
        let causes = waiting.entry(step.worker).or_default();
        *causes.entry("parameters".to_owned()).or_default() += parameters;
        *causes.entry("coordination".to_owned()).or_default() += coordination;
    }
    waiting
}
