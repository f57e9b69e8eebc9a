//! Trainings whose workers have variables of their own, which die and go on: what `top_k` has not
//! sent yet, and copies that workers train themselves, are in checkpoints.

use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::training::train;
use trainyard::units::Time;

use crate::support::checkers::check_slack;
use crate::support::simulated::Simulated;
use crate::support::thorough::spread;

const STEPS: u64 = 12;
const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
/// All workers vote, and each waits for the others.
const K_ASYNC: Mode = Mode::KAsync { k: 2 };
const LOCAL_SGD: Mode = Mode::LocalSgd { every: 3, backups: 0 };
const DILOCO: Mode =
    Mode::DiLoCo { every: 3, backups: 0, outer_learning_rate: 0.7, outer_momentum: 0.9 };

/// A training that keeps a checkpoint every third step. All workers take part in each round, and
/// each has variables of its own: residuals, or a copy and the moments of Adam.
fn training(mode: Mode, steps: u64, store: &Memory) -> Simulated {
    let training = Simulated::new(2, 2, mode).digits().steps(steps).checkpoints(store, 3);
    if [SYNC, K_ASYNC].contains(&mode) { training.top_k(0.05) } else { training.adam(0.01) }
}

fn crash(task: &TaskName, restart_after: Option<Duration>) -> FaultKind {
    FaultKind::Crash { task: task.clone(), restart_after }
}

#[test]
fn a_training_that_ends_and_is_begun_again_for_longer_ends_as_one_that_went_on() {
    for mode in [SYNC, K_ASYNC, LOCAL_SGD, DILOCO] {
        let expected = training(mode, STEPS, &Memory::default()).run().weights();
        let store = Memory::default();
        training(mode, STEPS / 2, &store).run();
        let resumed = training(mode, STEPS, &store).run();
        assert_eq!(resumed.weights(), expected, "{mode}");
        assert!(resumed.steps.iter().all(|step| step.global_step >= STEPS / 2), "{mode}");
    }
}

#[test]
fn a_training_killed_at_any_event_and_begun_again_ends_with_the_same_weights() {
    for mode in [SYNC, LOCAL_SGD, DILOCO] {
        let undisturbed = training(mode, STEPS, &Memory::default()).run();
        let (expected, mut resumed, mut killed_at) = (undisturbed.weights(), 0, 0);
        for event in (0..undisturbed.outcome.events).step_by(29) {
            let store = Memory::default();
            let mut killed = training(mode, STEPS, &store);
            for (job, index) in [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)] {
                killed =
                    killed.fault(Trigger::Event(event), crash(&TaskName::new(job, index), None));
            }
            killed.run_program(train);
            let again = training(mode, STEPS, &store).run();
            assert_eq!(again.weights(), expected, "{mode}, killed at event {event}");
            resumed += u32::from(again.steps.len() < undisturbed.steps.len());
            killed_at += 1;
        }
        assert!(resumed > killed_at / 2, "{mode}: {resumed} of {killed_at} went on");
    }
}

#[test]
fn a_parameter_server_that_comes_back_takes_the_workers_own_variables_back_with_its_own() {
    for mode in [SYNC, LOCAL_SGD, DILOCO] {
        let undisturbed = training(mode, STEPS, &Memory::default()).run();
        let expected = undisturbed.weights();
        let last = undisturbed.outcome.events * 9 / 10; // later, a worker may have left
        for event in spread((0..last).step_by(61), 3) {
            let ps = TaskName::new("ps", (event % 2) as u32);
            let fault = crash(&ps, Some(Duration::from_millis(5)));
            let store = Memory::default();
            let trained = training(mode, STEPS, &store)
                .fault(Trigger::Event(event), fault)
                .run_program(train);
            assert_eq!(trained.weights(), expected, "{mode}, {ps} crashed at event {event}");
        }
    }
}

#[test]
fn no_checkpoint_waits_for_a_step_that_can_not_end_before_the_chief_takes_its_next_one() {
    let backups = 1;
    let local_sgd = Mode::LocalSgd { every: 3, backups };
    let diloco = Mode::DiLoCo { every: 3, backups, outer_learning_rate: 0.7, outer_momentum: 0.9 };
    for (mode, workers) in [(K_ASYNC, 2), (local_sgd, 3), (diloco, 3)] {
        let training = Simulated::new(2, workers, mode).digits().steps(30);
        let training = training.checkpoints(&Memory::default(), 3);
        let mut training = if mode == K_ASYNC { training.top_k(0.05) } else { training.adam(0.01) };
        if workers == 3 {
            // From then on each round needs the chief's vote.
            let undisturbed = training.run_program(train);
            let second = undisturbed.steps.iter().find(|step| step.global_step == 2).unwrap();
            let dies = crash(&TaskName::new("worker", 2), None);
            training = training
                .checkpoints(&Memory::default(), 3)
                .fault(Trigger::Time(second.ended), dies);
        }
        let trained = training.run_program(train);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let ended = trained.steps.iter().map(|step| step.ended).max().unwrap();
        // To find out that a worker is dead takes 8 s; each of the ten checkpoints took 2 s more.
        assert!(ended < Time(16_000_000_000), "{mode}: {} s", ended.as_secs_f64());
    }
}

#[test]
fn no_checkpoint_waits_for_workers_that_wait_for_a_slow_chief_or_lacks_what_they_have_learnt() {
    const SLACK: u32 = 1;
    let store = Memory::default();
    let with = |store: &Memory| {
        let training = Simulated::new(2, 3, Mode::BoundedStaleness { slack: SLACK });
        let training = training.digits().steps(60).slow(0, 3.0);
        training.checkpoints(store, 6).keep_all_checkpoints()
    };
    let plain = with(&Memory::default()).run();
    let kept = with(&store).top_k(0.05).run();
    let resumed = with(&store).top_k(0.05).steps(120).run();
    for trained in [&plain, &kept, &resumed] {
        check_slack(trained, u64::from(SLACK) + 1); // after a checkpoint they may be one farther
    }
    let [plain, kept] = [plain, kept]
        .map(|trained| trained.steps.iter().map(|step| step.ended).max().unwrap().as_secs_f64());
    // Each of the ten checkpoints took 2 s more.
    assert!((kept - plain).abs() < 0.05, "{kept} s with values of their own, {plain} s without");

    let saver = Saver::new(Arc::new(store), Retention::default());
    let all = saver.checkpoints().unwrap();
    let mut learnt = 0;
    for step in all.iter().map(|listed| listed.global_step) {
        let saved = saver.restore(step).unwrap().variables;
        for worker in 0..3 {
            let own = format!("/worker_{worker}");
            let counted = saved[&format!("own_values{own}")].item::<i64>().unwrap();
            let has_own =
                saved.keys().any(|name| name.contains("/residual") && name.ends_with(&own));
            assert_eq!(has_own, counted > 0, "step {step}, worker {worker}: {:?}", saved.keys());
            learnt += u32::from(has_own);
        }
    }
    assert!(learnt >= 3 * 4, "{learnt} in {} checkpoints", all.len());
}

#[test]
fn asynchronous_trainings_with_own_variables_go_on_with_another_number_of_workers() {
    for mode in [Mode::Async, Mode::ElasticAveraging { every: 3, alpha: 0.3 }] {
        let store = Memory::default();
        let with = |workers, steps| {
            let training = Simulated::new(2, workers, mode).digits().steps(steps);
            training.checkpoints(&store, 3).top_k(0.05).run()
        };
        with(3, STEPS);
        let fewer = with(2, 2 * STEPS);
        let more = with(4, 3 * STEPS);
        for trained in [fewer, more] {
            assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        }
    }
}
