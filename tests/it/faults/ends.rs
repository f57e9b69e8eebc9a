//! Tasks whose program returns while others go on: their process ends in both worlds, and the
//! others hear so.

use std::collections::BTreeSet;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::runtime::Patience;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::train;
use trainyard::units::Time;

use crate::support::deployed::{ends_as, roles_by_flags, roles_of};
use crate::support::fixture::assert_error;
use crate::support::simulated::{Simulated, Trained};

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
const MODES: [Mode; 3] = [Mode::Async, SYNC, Mode::Sync { backups: 1, cancel: false }];
const SECOND: Duration = Duration::from_secs(1);

/// A training of a tenth of a second a step, simulated.
fn slow(ps: u32, workers: u32, mode: Mode) -> Simulated {
    Simulated::new(ps, workers, mode).step_time(Law::Constant { value: 0.1 })
}

fn crash_of_the_second_worker(after: Duration, restart_after: Duration) -> (Trigger, FaultKind) {
    let (task, restart_after) = (TaskName::new("worker", 1), Some(restart_after));
    (Trigger::Time(Time::ZERO.after(after)), FaultKind::Crash { task, restart_after })
}

/// The tasks whose programs have returned.
#[track_caller]
fn returned(trained: &Trained) -> BTreeSet<String> {
    let returned = trained.outcome.result.as_ref().expect("the run reaches its end");
    returned.keys().map(TaskName::to_string).collect()
}

/// The first parameter server forgets to join, and returns after a while.
async fn forgets_to_join(task: Task) -> Result<()> {
    match task.name().to_string().as_str() {
        "ps:0" => {
            task.sleep(SECOND).await;
            Ok(())
        }
        _ => train(task).await,
    }
}

#[test]
fn a_parameter_server_that_forgets_to_join_ends_and_a_simulation_says_why_nobody_goes_on() {
    let stalled = slow(2, 2, Mode::Async).run_program(forgets_to_join);
    let expected = [
        "waits for ps:0",
        "ps:0 has ended: its program has returned; that of a parameter server waits for the \
         workers by `task.join()`",
    ];
    assert_error(stalled.outcome.result, Code::Stalled, &expected);
    let at_once = slow(1, 2, SYNC).run_program(|task| async move {
        if task.job() == "ps" { Ok(()) } else { train(task).await }
    });
    assert_error(at_once.outcome.result, Code::Stalled, &["waits for ps:0", expected[1]]);
}

#[test]
fn who_loses_a_parameter_server_that_forgets_to_join_is_told_so_in_both_worlds() {
    let expected =
        ["ps:0 was lost, it has stopped", "have it wait for them by `task.join()`", "(on ps:0)"];
    let training = Simulated::new(1, 2, Mode::Async).steps(1_000_000);
    let mut trial = training.trial().clone();
    trial.settings.patience = Patience::new(SECOND);
    let roles = roles_of([("ps", 0), ("worker", 0), ("worker", 1)]);
    let (_, ends) = ends_as(&trial, "forgets-to-join", &roles, forgets_to_join);
    let [forgetful, workers @ ..] = &ends[..] else { panic!("{ends:?}") };
    assert!(forgetful.is_ok(), "{ends:?}");
    for worker in workers {
        let error = worker.as_ref().expect_err("its variables are gone").to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    }
    // With faults, tasks wait for a lost one no longer than the deployed ones.
    let (at, crash) = crash_of_the_second_worker(SECOND * 1000, SECOND);
    let lost = slow(1, 2, Mode::Async).fault(at, crash).run_program(forgets_to_join);
    let error = lost.outcome.result.expect_err("its variables are gone").to_string();
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn a_worker_that_comes_after_the_end_finds_nobody_in_both_worlds_and_the_result_is_there() {
    let training = Simulated::new(2, 2, Mode::Async);
    let mut trial = training.trial().clone();
    trial.settings.patience = Patience::new(SECOND / 2);
    let roles = roles_by_flags();
    let (recording, ends) = ends_as(&trial, "all-but-one", &roles[..3], train);
    assert!(ends.iter().all(Result::is_ok) && recording.ending.is_some(), "{ends:?}");
    let (_, late) = ends_as(&trial, "too-late", &roles[3..], train);
    let late = late.into_iter().next().unwrap().expect_err("nobody is there");
    assert!(matches!(late.code, Code::Unavailable | Code::DeadlineExceeded), "{late}");

    let (at, crash) = crash_of_the_second_worker(Duration::from_nanos(1), SECOND * 3600);
    let trained = slow(2, 2, Mode::Async).fault(at, crash).run_program(train);
    assert_eq!(returned(&trained), ["ps:0", "ps:1", "worker:0"].map(str::to_owned).into());
    assert!(trained.ending.is_some() && trained.outcome.ended.as_secs_f64() > 3600.0);
}

#[test]
fn a_parameter_server_stays_for_a_lost_worker_which_hears_there_that_the_training_is_over() {
    let back = |after: u32| {
        let (at, crash) = crash_of_the_second_worker(SECOND * 3, SECOND * after);
        let trained = slow(1, 2, Mode::Async).fault(at, crash).run_program(train);
        (returned(&trained).contains("worker:1"), trained.outcome.ended.as_secs_f64())
    };
    let (is_back, ended) = back(50);
    assert!(is_back && ended < 60.0, "the others have trained 10 s: {ended}");
    assert!(!back(100).0, "it has a minute to come back");
}

/// Trains; the second worker returns after three steps.
async fn leaves_early(task: Task) -> Result<()> {
    if task.name().to_string() != "worker:1" {
        return train(task).await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let train_op = g.with_device_fn(setter, |g| {
        g.global_step()?;
        let v = g.variable("v0", &g.constant(0f32))?;
        task.apply_gradients(GradientDescent::new(0.1), &[(v.clone(), v.read())])
    })?;
    let mut session = MonitoredSession::builder(&task, g).open().await?;
    let mut trained = Ok(());
    for _ in 0..3 {
        if trained.is_ok() && !session.should_stop() {
            trained = session.run().target(&train_op).await.map(drop);
        }
    }
    session.close_after(trained).await
}

#[test]
fn a_worker_that_returns_early_ends_and_the_others_train_on_in_both_worlds() {
    for mode in MODES {
        let training = slow(2, 2, mode).steps(30);
        let trained = training.run_program(leaves_early);
        assert_eq!(returned(&trained).len(), 4, "{mode}");
        let last = trained.steps.iter().map(|step| step.global_step).max();
        assert!(last >= Some(30), "{mode}: {last:?}");
        let (recording, ends) =
            ends_as(training.trial(), "leaves-early", &roles_by_flags(), leaves_early);
        assert!(ends.iter().all(Result::is_ok), "{mode}: {ends:?}");
        assert!(recording.steps().any(|step| step.global_step >= 30), "{mode}");
    }
}

#[test]
fn a_step_on_a_task_whose_program_has_returned_fails_and_says_that_the_task_has_stopped() {
    let trained = Simulated::new(0, 2, Mode::Async).run_program(|task| async move {
        if task.index() == 1 {
            task.sleep(SECOND).await;
            return Ok(());
        }
        let g = Graph::new();
        let there = g.with_device("/job:worker/task:1", |g| Ok(g.constant(7f32)))?;
        let session = Session::new(&task.target(), &g).await?;
        assert_eq!(session.run().fetch(&there).await?.scalar::<f32>(0)?, 7.0);
        task.sleep(SECOND * 2).await;
        let gone = session.run().fetch(&there).await.map(drop);
        assert_error(gone, Code::Unavailable, &["worker:1 was lost, it has stopped"]);
        Ok(())
    });
    assert_eq!(returned(&trained).len(), 2);
}
