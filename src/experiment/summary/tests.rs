//! What a run did, as its report says it, of recordings made by hand.

use super::*;
use crate::experiment::Experiment;
use crate::training::{Fact, Formed, Restore, SharedRecording, train};

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
    let steps = [step(0, 0, 301, 100), stopped(step(1, 0, 301, 200)), late(step(1, 1, 301, 300))];
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

#[test]
fn one_worker_that_straggles_is_not_told_to_take_backups() {
    let text = "[cluster]\nps = 1\nworker = 1\n[program]\nmodel = 'softmax'\n\
                [compute]\nstraggler = { law = 'pareto', scale = 0.3, shape = 1.5 }\n\
                rate = '1MFLOP/s'\n\
                [stop]\nsteps = 60\n[[run]]\nmode = 'sync'\n";
    let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
    let limit = report.runs[0].limit().unwrap();
    let expected = "limited by the workers' kernels and stragglers together";
    assert!(limit.starts_with(expected) && !limit.contains("backup"), "{limit}");
}
