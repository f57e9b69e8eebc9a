//! Tasks that die, stand still, are cut off or come back: the training goes on, or ends and says
//! which task it was.

use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::StepStats;
use trainyard::units::Time;

use crate::support::simulated::{Simulated, Trained};

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
const BACKUP: Mode = Mode::Sync { backups: 1, cancel: false };
const MODES: [Mode; 4] = [Mode::Async, SYNC, BACKUP, Mode::BoundedStaleness { slack: 1 }];
/// A training takes `STEPS` steps of 0.1 s.
const STEPS: u64 = 60;

fn training(mode: Mode) -> Simulated {
    Simulated::new(2, 3, mode).step_time(Law::Constant { value: 0.1 }).steps(STEPS)
}

fn task(job: &str, index: u32) -> TaskName {
    TaskName::new(job, index)
}

fn at(seconds: f64) -> Trigger {
    Trigger::Time(Time::ZERO.after(Duration::from_secs_f64(seconds)))
}

fn crash(job: &str, index: u32, restart_after: Option<f64>) -> FaultKind {
    FaultKind::Crash {
        task: task(job, index),
        restart_after: restart_after.map(Duration::from_secs_f64),
    }
}

fn freeze(job: &str, index: u32, seconds: f64) -> FaultKind {
    FaultKind::Freeze { task: task(job, index), lasts: Duration::from_secs_f64(seconds) }
}

/// Runs `training` to its end, whatever that is.
fn run(training: &Simulated) -> Trained {
    training.run_program(trainyard::training::train)
}

/// The last global step, and how many of the steps of each worker counted.
fn reached(trained: &Trained) -> (u64, [usize; 3]) {
    let last = trained.steps.iter().map(|step| step.global_step).max().unwrap_or(0);
    let of = |worker| {
        let own = |step: &&StepStats| step.worker == task("worker", worker) && step.applied;
        trained.steps.iter().filter(own).count()
    };
    (last, [of(0), of(1), of(2)])
}

#[test]
fn a_worker_that_dies_does_not_stop_the_others_in_any_mode() {
    for mode in MODES {
        let trained = run(&training(mode).fault(at(1.05), crash("worker", 2, None)));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let (last, [chief, other, dead]) = reached(&trained);
        assert!(last >= STEPS, "{mode}: {last}");
        assert!(dead <= 11 && chief > 15 && other > 15, "{mode}: {chief} {other} {dead}");
    }
}

#[test]
fn a_worker_that_dies_and_comes_back_takes_part_again() {
    for mode in MODES {
        let trained = run(&training(mode).fault(at(1.05), crash("worker", 2, Some(0.5))));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let is_back = |step: &&StepStats| {
            step.worker == task("worker", 2) && step.started.as_secs_f64() > 1.5
        };
        let back: Vec<&StepStats> = trained.steps.iter().filter(is_back).collect();
        assert!(back.len() > 5 && back[0].local_step == 0, "{mode}: {back:?}");
        // Of steps that all take the same time, it is always the same one that is left out.
        assert!(mode == BACKUP || back.iter().all(|step| step.applied), "{mode}");
        assert!(reached(&trained).0 >= STEPS, "{mode}");
    }
}

#[test]
fn a_chief_that_dies_and_comes_back_goes_on_from_where_the_training_is() {
    for mode in MODES {
        let trained = run(&training(mode).fault(at(1.05), crash("worker", 0, Some(0.5))));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let steps: Vec<u64> = trained
            .steps
            .iter()
            .filter(|step| step.worker == task("worker", 0))
            .map(|step| step.global_step)
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] <= pair[1]), "{mode}: {steps:?}");
        assert!(reached(&trained).0 >= STEPS, "{mode}");
    }
}

#[test]
fn workers_whose_chief_should_have_ended_the_training_and_is_gone_end_it_and_name_the_chief() {
    let trained = run(&training(Mode::Async)
        .until(Duration::from_secs(3))
        .fault(at(1.05), crash("worker", 0, None)));
    let error = trained.outcome.result.expect_err("nobody ends the training");
    assert_eq!(
        (error.code, error.task.clone()),
        (Code::Unavailable, Some(task("worker", 0))),
        "{error}"
    );
    assert!(
        (63.0..64.0).contains(&trained.outcome.ended.as_secs_f64()),
        "{}",
        trained.outcome.ended
    );
    let back = run(&training(Mode::Async)
        .until(Duration::from_secs(3))
        .fault(at(1.05), crash("worker", 0, Some(0.5))));
    assert!(back.outcome.result.is_ok(), "{:?}", back.outcome.result);
}

#[test]
fn parameter_servers_whose_workers_are_all_lost_wait_a_minute_for_them_and_name_them() {
    let all_crash = |restart_after| {
        let crash = |training: Simulated, worker| {
            training.fault(at(1.05), crash("worker", worker, restart_after))
        };
        run(&(0..3).fold(training(Mode::Async), crash))
    };
    let error = all_crash(None).outcome.result.expect_err("nobody trains");
    assert_eq!(error.code, Code::Unavailable, "{error}");
    assert!(error.message.contains("worker:0, worker:1, worker:2"), "{error}");
    let back = all_crash(Some(50.0));
    assert!(back.outcome.result.is_ok(), "{:?}", back.outcome.result);
    assert!(reached(&back).0 >= STEPS);
}

#[test]
fn a_parameter_server_that_dies_ends_the_training_and_is_named_whether_it_comes_back_or_not() {
    for mode in MODES {
        for restart_after in [None, Some(0.2), Some(3.0)] {
            let trained = run(&training(mode).fault(at(1.05), crash("ps", 1, restart_after)));
            let error = trained.outcome.result.expect_err("its variables are gone");
            let code =
                if restart_after.is_some() { Code::VariablesLost } else { Code::Unavailable };
            assert_eq!(error.code, code, "{mode} {restart_after:?}: {error}");
            assert!(error.message.contains("ps:1 was lost"), "{mode} {restart_after:?}: {error}");
            assert_eq!(error.task, Some(task("ps", 1)), "{error}");
            assert!(
                trained.outcome.ended.as_secs_f64() < 70.0,
                "{mode}: {}",
                trained.outcome.ended
            );
        }
    }
}

/// Has `check` look at trainings of `steps` global steps, in each of which a task stands still for
/// `seconds` from 1.05 s on.
fn each_beside_a_freeze(steps: u64, seconds: f64, check: impl Fn(Mode, &TaskName, &Trained)) {
    for mode in MODES {
        for (job, index) in [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 2)] {
            let training = training(mode).steps(steps);
            let trained = run(&training.fault(at(1.05), freeze(job, index, seconds)));
            assert!(
                trained.outcome.result.is_ok(),
                "{mode} {job}:{index}: {:?}",
                trained.outcome.result
            );
            assert!(reached(&trained).0 >= steps, "{mode} {job}:{index}");
            check(mode, &task(job, index), &trained);
        }
    }
}

#[test]
fn a_task_that_stands_still_for_less_than_silence_delays_the_training_and_loses_nothing() {
    each_beside_a_freeze(STEPS, 0.9, |mode, frozen, trained| {
        // Nobody waits for a worker that has a backup.
        if mode != BACKUP || frozen.job() == "ps" {
            let (plain, ended) = (run(&training(mode)).outcome.ended, trained.outcome.ended);
            assert!(ended > plain, "{mode} {frozen}: {ended}, {plain} without");
        }
        for worker in 0..3 {
            let own = |step: &&StepStats| step.worker == task("worker", worker);
            let own: Vec<&StepStats> = trained.steps.iter().filter(own).collect();
            // A step that is taken again has a row for each attempt.
            let are_taken_once = own.iter().map(|step| step.local_step).eq(0..own.len() as u64);
            assert!(are_taken_once, "{mode} {frozen}: {own:?}");
            let (_, before_the_end) = own.split_last().expect("each worker takes steps");
            let are_applied = before_the_end.iter().all(|step| step.applied);
            assert!(mode == BACKUP || are_applied, "{mode} {frozen}: {own:?}");
        }
    });
}

#[test]
fn a_task_that_stands_still_until_it_is_lost_is_taken_back() {
    // Asynchronous workers take 50 steps while the third stands still.
    each_beside_a_freeze(3 * STEPS, 2.5, |mode, frozen, trained| {
        let is_back = |step: &StepStats| {
            let is_its = frozen.job() == "ps" || step.worker == *frozen;
            // Of steps that all take the same time, it may always be the same one that is dropped.
            is_its && step.started.as_secs_f64() > 3.6 && (step.applied || mode == BACKUP)
        };
        assert!(trained.steps.iter().any(is_back), "{mode} {frozen}");
    });
}

#[test]
fn a_partition_delays_or_is_survived() {
    for mode in MODES {
        for seconds in [0.5, 2.5] {
            let lasts = Duration::from_secs_f64(seconds);
            let apart =
                FaultKind::Partition { tasks: vec![task("ps", 0), task("worker", 1)], lasts };
            let trained = run(&training(mode).fault(at(1.05), apart));
            assert!(
                trained.outcome.result.is_ok(),
                "{mode} {seconds}: {:?}",
                trained.outcome.result
            );
            assert!(reached(&trained).0 >= STEPS, "{mode} {seconds}");
        }
    }
}

/// The two parameter servers can't reach each other for `seconds`; the workers reach both.
fn servers_apart(mode: Mode, seconds: u64) -> Trained {
    let tasks = vec![task("ps", 0), task("ps", 1)];
    let lasts = Duration::from_secs(seconds);
    run(&training(mode).fault(at(1.05), FaultKind::Partition { tasks, lasts }))
}

#[test]
fn parameter_servers_that_do_not_reach_each_other_in_time_end_the_training_which_names_both() {
    for mode in MODES {
        let trained = servers_apart(mode, 1000);
        let error = trained.outcome.result.expect_err("no step can end");
        assert_eq!(error.code, Code::DeadlineExceeded, "{mode}: {error}");
        for said in ["ps:0", "ps:1", " can't reach ps:", "given up after 60s", "mend the network"] {
            assert!(error.message.contains(said), "{mode}: {error}");
        }
        // Their loss is noticed after a second, and `network.recovery` is a minute.
        let ended = trained.outcome.ended.as_secs_f64();
        assert!((60.0..70.0).contains(&ended), "{mode}: {ended}");
    }
}

#[test]
fn parameter_servers_that_reach_each_other_again_in_time_let_the_training_go_on() {
    for mode in MODES {
        let trained = servers_apart(mode, 30);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        assert!(reached(&trained).0 >= STEPS, "{mode}");
        let ended = trained.outcome.ended.as_secs_f64();
        assert!((31.0..45.0).contains(&ended), "{mode}: {ended}");
    }
}

#[test]
fn slow_links_and_slow_tasks_take_their_factor_longer_for_their_time() {
    let plain = run(&training(SYNC)).outcome.ended.as_secs_f64();
    let lasts = Duration::from_secs(2);
    let slow = FaultKind::SlowTask { task: task("worker", 1), factor: 3.0, lasts };
    let slowed = run(&training(SYNC).fault(at(1.0), slow)).outcome.ended.as_secs_f64();
    assert!((1.2..1.6).contains(&(slowed - plain)), "{plain} {slowed}");
    let slow =
        FaultKind::SlowLink { tasks: vec![task("ps", 0), task("worker", 1)], factor: 1e7, lasts };
    let slowed = run(&training(SYNC).fault(at(1.0), slow)).outcome.ended.as_secs_f64();
    assert!(slowed > plain + 0.1, "{plain} {slowed}");
}

#[test]
fn one_seed_gives_one_run_with_faults_too() {
    for what in [crash("worker", 1, Some(0.3)), freeze("ps", 0, 2.0), crash("ps", 0, None)] {
        let faulty = training(SYNC).fault(at(1.05), what);
        let (once, again) = (run(&faulty), run(&faulty));
        assert_eq!(once.digests(), again.digests());
        assert_eq!(once.steps, again.steps);
        assert_ne!(once.digests(), run(&training(SYNC)).digests());
    }
}
