//! The entry of a run in the report: sums up its training's record and its world's observations.

mod absences;
mod divergence;
mod rates;
mod resumption;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::Trial;
use super::critical_path::{self, Extent};
use super::observed::Observed;
use super::scenario::Checkpoint;
use crate::cluster::TaskName;
use crate::report::{
    CriticalPath, End, EvaluationRow, Gradients, Pauses, Run, Staleness, StepSeconds,
};
use crate::runtime::Traffic;
use crate::sync::Mode;
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
        let evaluated = recording.evaluations.iter().map(|evaluation| evaluation.at);
        let ends = steps.clone().map(|step| step.ended).chain(evaluated);
        let ended = ends.max().unwrap_or(observed.ended);
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
        let failed = |failed: &FailedCheckpoint| (failed.global_step, failed.why.clone());
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
            staleness: Staleness::of(&staleness(steps.clone(), counted - applied)),
            // Workers may have begun steps before they heard that the training was over.
            gradients: match was_over {
                true => Gradients::default(),
                false => gradients(recording, applied),
            },
            bytes_sent: by_task(|sent| sent.total),
            step_bytes_sent: by_task(|sent| sent.steps),
            waiting_seconds: waiting(steps.clone()),
            critical_path: self.critical_path(observed, steps, (start, seconds)),
            usage: observed.usage_until(ended),
            events: observed.events,
            digest: observed.digest.clone(),
            weights_digest: weights_digest.map(|digest| format!("{digest:016x}")),
            checkpoint_place: self.checkpoint_place(),
            failed_checkpoints: recording.failed_checkpoints.iter().map(failed).collect(),
            skipped_faults: observed.skipped_faults.clone(),
            comparison: None,
        }
    }

    /// What the time of `steps` was spent on, in a run that began its first step at `start` and
    /// ended after `seconds`, both in seconds.
    fn critical_path(
        &self,
        observed: &Observed,
        steps: impl Iterator<Item = StepStats> + Clone,
        (start, seconds): (f64, f64),
    ) -> Option<CriticalPath> {
        let workers_are_free = self.leaves_workers_free();
        let run = Extent { start, seconds, workers_are_free };
        let path = match &observed.path {
            Some(path) => critical_path::simulated(path, &self.cluster, steps, run),
            None => critical_path::deployed(steps, run),
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
            faults: self.cluster.faults.list.len() > observed.skipped_faults.len(),
            takes_backups: takes_backups(self.mode) && settings.all_reduce.is_none(),
        }
    }

    /// Whether a slow worker costs the others no time. Tokens hold workers back in any mode.
    pub(super) fn leaves_workers_free(&self) -> bool {
        self.mode.leaves_workers_free() && self.settings.sync_replicas.is_none()
    }
}

/// Whether rounds or exchanges of `mode` can do without the slowest workers.
fn takes_backups(mode: Mode) -> bool {
    matches!(mode, Mode::Sync { .. } | Mode::LocalSgd { .. } | Mode::DiLoCo { .. })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::training::{Fact, Formed, Restore, SharedRecording};

    /// A worker's step; times in ms.
    pub(super) fn step(worker: u32, local_step: u64, global_step: u64, ended: u64) -> StepStats {
        let times = (Time(ended * 1_000_000 - 900_000), Time(ended * 1_000_000));
        StepStats::applied(worker, (local_step, global_step), times)
    }

    #[test]
    fn the_staleness_of_local_steps_and_of_gradients_in_an_unfinished_round_does_not_count() {
        let stale = |ended, staleness| StepStats { staleness, ..step(0, 0, 1, ended) };
        let late = StepStats { applied: false, ..stale(9, 7) };
        let local = StepStats { is_local: true, ..stale(4, 0) };
        let steps = [stale(3, 0), stale(8, 4), stale(1, 0), stale(6, 2), late, stale(2, 2), local];
        let counts = |left_over| staleness(steps.iter().cloned(), left_over);
        assert_eq!(counts(0), BTreeMap::from([(0, 2), (2, 2), (4, 1)]));
        assert_eq!(counts(2), BTreeMap::from([(0, 2), (2, 1)]));
    }

    /// A run of `k_batch_async` by five gradients that went on from the 300th global step.
    pub(super) fn resumed(steps: impl Iterator<Item = StepStats>) -> Run {
        let scenario = "[cluster]\nps = 1\nworker = 2\n\
                        [[run]]\nmode = { k_batch_async = { k = 5 } }\n";
        let trial = Experiment::parse(scenario).unwrap().trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        shared.record(Fact::Restored(Restore { global_step: 300, at: Time(1) }));
        steps.for_each(|step| shared.record(Fact::Step(step)));
        let observed = Observed::deployed(Time(6_000_000_000), BTreeMap::new());
        trial.summarise(&shared.finish(), &observed, Duration::from_secs(6))
    }

    #[test]
    fn the_gradients_of_a_resumed_runs_unfinished_round_are_not_applied() {
        let global_step = |n: u64| 301 + (n / 5).min(9);
        let steps = (0..51).map(|n| step(n as u32 % 2, n / 2, global_step(n), 100 * (n + 1)));
        let run = resumed(steps);
        assert_eq!((run.resumed_from, run.global_steps), (Some(300), 310));
        assert_eq!((run.gradients.applied, run.gradients.dropped), (50, 1));
        assert_eq!(run.samples, 1_600);
    }

    #[test]
    fn rates_and_lengths_of_steps_are_of_those_before_the_last_applied_gradient() {
        let applied = || (0..20).map(|n| step(n as u32 % 2, n / 2, 301 + n / 5, 100 * (n + 1)));
        let late = |n: u64| StepStats {
            applied: false,
            started: Time(2_000_000_000 + n),
            ..step(n as u32 % 2, 10 + n, 304, 4_000)
        };
        let (alone, with_late) = (resumed(applied()), resumed(applied().chain((0..9).map(late))));
        assert_eq!(with_late.gradients.dropped, 9);
        assert_eq!(with_late.step_seconds, alone.step_seconds);
        assert_eq!(with_late.samples_per_second, alone.samples_per_second);
        assert_eq!(with_late.steps_per_second, alone.steps_per_second);
    }

    #[test]
    fn steps_without_a_lost_task_count_the_samples_that_the_other_towers_share() {
        let scenario = "[cluster]\nworker = 4\n[program]\nbatch = 8\nall_reduce = \"ring\"\n\
                        [[run]]\nmode = \"sync\"\n";
        let trial = Experiment::parse(scenario).unwrap().trials().unwrap().remove(0);
        let lost = TaskName::new("worker", 1);
        let shared = SharedRecording::default();
        let formed = |at, without, samples| Fact::Formed(Formed { at: Time(at), without, samples });
        shared.record(formed(0, Vec::new(), 32));
        (1..4).for_each(|n| shared.record(Fact::Step(step(0, n, n, 10 * n))));
        shared.record(formed(35_000_000, vec![lost.clone()], 30));
        (4..6).for_each(|n| shared.record(Fact::Step(step(0, n, n, 10 * n))));
        shared.record(formed(55_000_000, Vec::new(), 32));
        shared.record(Fact::Step(step(0, 6, 6, 60)));
        let observed = Observed::deployed(Time(6_000_000_000), BTreeMap::new());
        let run = trial.summarise(&shared.finish(), &observed, Duration::from_secs(6));
        assert_eq!(run.steps_without, BTreeMap::from([(lost, 2)]));
        assert_eq!(run.samples, 4 * 32 + 2 * 30);
    }

    #[test]
    fn a_run_that_went_back_further_than_its_first_steps_has_the_rate_of_what_it_did_since() {
        let trial = Experiment::parse("[cluster]\nps = 1\nworker = 4\n").unwrap();
        let trial = trial.trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        shared.record(Fact::Restored(Restore { global_step: 300, at: Time(1) }));
        (0..4).for_each(|n| shared.record(Fact::Step(step(n, 0, 301 + u64::from(n), 1_000))));
        shared.record(Fact::Restored(Restore { global_step: 280, at: Time(1_500_000_000) }));
        (0..2).for_each(|n| shared.record(Fact::Step(step(n, 1, 281 + u64::from(n), 2_000))));
        let observed = Observed::deployed(Time(6_000_000_000), BTreeMap::new());
        let run = trial.summarise(&shared.finish(), &observed, Duration::from_secs(6));
        assert_eq!((run.global_steps, run.gradients.applied), (282, 2));
        assert!(run.steps_per_second < 10.0 && run.samples_per_second > 0.0);
    }

    #[test]
    fn a_step_that_was_stopped_is_dropped_and_not_computed() {
        let stopped = |step| StepStats { applied: false, is_stopped: true, ..step };
        let late = |step| StepStats { applied: false, ..step };
        let steps =
            [step(0, 0, 301, 100), stopped(step(1, 0, 301, 200)), late(step(1, 1, 301, 300))];
        let run = resumed(steps.into_iter());
        let Gradients { computed, dropped, stopped, .. } = run.gradients;
        assert_eq!((computed, dropped, stopped), (2, 2, 1));
    }

    #[test]
    fn an_evaluation_has_no_samples_of_steps_that_were_stopped() {
        let trial = Experiment::parse("[cluster]\nps = 1\nworker = 2\n").unwrap();
        let trial = trial.trials().unwrap().remove(0);
        let shared = SharedRecording::default();
        shared.record(Fact::Step(step(0, 0, 1, 100)));
        let stopped = StepStats { applied: false, is_stopped: true, ..step(1, 0, 1, 100) };
        shared.record(Fact::Step(stopped));
        let at = Time(200_000_000);
        let evaluation = Evaluation { global_step: 1, at, loss: 1.0, accuracy: 0.5 };
        shared.record(Fact::Evaluated(evaluation));
        assert_eq!(evaluations(&trial, &shared.finish())[0].samples, 32);
    }

    #[test]
    fn the_time_to_the_target_is_as_exact_as_the_look_before_is_near() {
        let trial = Experiment::parse("[stop]\nsteps = 9\naccuracy = 0.5\n").unwrap();
        let trial = trial.trials().unwrap().remove(0);
        let reached_at = |accuracies: &[f64]| {
            let shared = SharedRecording::default();
            for (accuracy, at) in accuracies.iter().zip(1..) {
                let (at, accuracy) = (Time(at * 1_000_000_000), *accuracy);
                let evaluation = Evaluation { global_step: 9, at, loss: 1.0, accuracy };
                shared.record(Fact::Evaluated(evaluation));
            }
            let observed = Observed::deployed(Time(9_000_000_000), BTreeMap::new());
            let run = trial.summarise(&shared.finish(), &observed, Duration::from_secs(9));
            (run.seconds_to_target, run.seconds_to_target_resolution)
        };
        assert_eq!(reached_at(&[0.1, 0.2, 0.6, 0.7]), (Some(3.0), Some(1.0)));
        assert_eq!(reached_at(&[0.6, 0.2]), (Some(1.0), Some(1.0)), "since the run's beginning");
        assert_eq!(reached_at(&[0.1]), (None, None));
    }

    #[test]
    fn a_training_that_had_reached_its_target_before_has_no_time_to_it_and_is_done() {
        let trial = Experiment::parse("[stop]\nsteps = 9\naccuracy = 0.5\n").unwrap();
        let trial = trial.trials().unwrap().remove(0);
        let summary = |steps: &[StepStats], accuracies: &[(u64, f64)]| {
            let shared = SharedRecording::default();
            shared.record(Fact::Restored(Restore { global_step: 9, at: Time(1) }));
            steps.iter().for_each(|step| shared.record(Fact::Step(step.clone())));
            for (global_step, accuracy) in accuracies {
                let (global_step, at) = (*global_step, Time(348_000_000));
                let accuracy = *accuracy;
                shared.record(Fact::Evaluated(Evaluation { global_step, at, loss: 1.0, accuracy }));
            }
            let observed = Observed::deployed(Time(400_000_000), BTreeMap::new());
            trial.summarise(&shared.finish(), &observed, Duration::from_millis(400))
        };
        let vain = StepStats { applied: false, ..step(0, 0, 9, 100) };
        for steps in [&[][..], std::slice::from_ref(&vain)] {
            let run = summary(steps, &[(9, 0.9)]);
            assert!(run.had_nothing_to_do());
            assert_eq!((run.end, run.seconds_to_target), (End::Done, None));
            assert_eq!(run.gradients, Gradients::default(), "of steps begun after the end");
        }
        let missed = summary(&[vain], &[(9, 0.4)]);
        assert!(!missed.had_nothing_to_do() && missed.gradients.dropped == 1);
        let more = summary(&[step(0, 0, 10, 100)], &[(9, 0.4), (10, 0.9)]);
        assert!(!more.had_nothing_to_do() && more.seconds_to_target.is_some());
        assert_eq!((more.target_reached_at, more.last_look_at), (Some(10), Some(10)));
    }

    #[test]
    fn the_step_rate_of_a_resumed_run_is_of_its_own_steps() {
        // Too few steps for the first of each worker to be left out.
        let run = resumed((0..2).map(|n| step(n, 0, 301, 1_000)));
        assert!((run.steps_per_second - 1.0 / 0.000_9).abs() < 1e-6, "{}", run.steps_per_second);
    }
}
