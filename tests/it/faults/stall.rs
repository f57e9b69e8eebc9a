//! Programs that can't go on: a run ends all the same, and says why.

use std::future::Ready;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::training::train;
use trainyard::units::Time;

use crate::support::simulated::Simulated;

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };

/// The error of the built-in trainer, but for what `instead` does as some of the tasks.
fn error_of(
    mode: Mode,
    instead: impl AsyncFn(&Task) -> Result<bool> + Copy + Sync + 'static,
) -> Error {
    let trained = Simulated::new(1, 3, mode).digits().run_program(move |task| async move {
        if instead(&task).await? { Ok(()) } else { train(task).await }
    });
    trained.outcome.result.expect_err("the run can't reach its end")
}

#[test]
fn a_synchronous_worker_that_returns_without_leaving_stalls_the_others_and_is_named() {
    let error = error_of(SYNC, async |task| Ok(task.job() == "worker" && task.index() == 2));
    assert_eq!(error.code, Code::Stalled);
    let message = &error.message;
    assert!(
        message.contains("parameter server of ps:0 waits for worker 2's gradient of `"),
        "{message}"
    );
    assert!(
        message.contains("master of worker:0, step") && message.contains("waits for ps:0"),
        "{message}"
    );
    assert!(
        message.contains("parameter server of ps:0 waits for 3 of 3 workers to leave"),
        "{message}"
    );
}

#[test]
fn a_stall_of_a_hundred_workers_waits_for_the_answers_of_all_of_them() {
    let trained = Simulated::new(1, 100, SYNC).run_program(|task| async move {
        if task.index() == 99 { Ok(()) } else { train(task).await }
    });
    let message = trained.outcome.result.expect_err("a worker is missing").message;
    let masters = message.lines().filter(|line| line.contains("master of worker:")).count();
    assert_eq!(masters, 99, "{message}");
}

#[test]
fn with_backups_and_with_bounded_staleness_the_worker_that_is_missing_is_named_too() {
    for mode in [Mode::Sync { backups: 1, cancel: false }, Mode::BoundedStaleness { slack: 1 }] {
        let error = error_of(mode, async |task| Ok(task.job() == "worker" && task.index() > 0));
        assert_eq!(error.code, Code::Stalled, "{error}");
        assert!(error.message.contains("the step of worker 1"), "{mode}: {error}");
    }
}

#[test]
fn a_parameter_server_that_stops_at_once_stalls_the_workers_and_is_named() {
    let trained = Simulated::new(1, 2, Mode::Async).run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            server.stop();
            return Ok(());
        }
        train(task).await
    });
    let error = trained.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert!(
        error.message.contains("master of worker:1, step 1 waits for ps:0 to make it ready"),
        "{error}"
    );
}

#[test]
fn a_program_that_waits_for_something_outside_of_the_simulation_is_told_so() {
    let error = error_of(SYNC, async |_| std::future::pending().await);
    assert_eq!(error.code, Code::Stalled);
    assert!(error.message.contains("something outside of the simulation"), "{error}");
}

#[test]
fn a_run_with_faults_in_which_nothing_more_can_happen_ends_as_well() {
    let (task, lasts) = (TaskName::new("worker", 1), Duration::from_millis(1));
    let slow = FaultKind::SlowTask { task, factor: 2.0, lasts };
    let waits_for_ever = Simulated::new(1, 2, SYNC)
        .fault(Trigger::Time(Time::ZERO.after(lasts)), slow)
        .run_program(|_| std::future::pending());
    let error = waits_for_ever.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::Stalled, "{error}");
    assert!(waits_for_ever.outcome.ended < Time::ZERO.after(Duration::from_secs(1)));
}

#[test]
fn the_error_of_one_task_ends_the_run_and_says_which_task_it_was() {
    let error = error_of(Mode::Async, async |task| match task.index() {
        1 => Err(Error::new(Code::Internal, "out of luck")),
        _ => Ok(false),
    });
    assert_eq!((error.code, error.message.as_str()), (Code::Internal, "out of luck"));
    assert_eq!(error.task.unwrap().to_string(), "worker:1");
}

#[test]
fn a_program_that_panics_ends_the_run_and_says_where() {
    let error = error_of(Mode::Async, async |task| {
        assert!(task.index() != 1, "worker {} is confused", task.index());
        Ok(false)
    });
    assert_eq!(error.code, Code::Internal);
    assert!(error.message.contains("worker 1 is confused"), "{error}");
    assert_eq!(error.task.unwrap().to_string(), "worker:1");
}

#[test]
fn a_panic_outside_of_all_tasks_is_the_error_of_its_run() {
    let trained = Simulated::new(1, 1, Mode::Async).run_program(|task| -> Ready<Result<()>> {
        panic!("there is no future for {}", task.name());
    });
    let error = trained.outcome.result.expect_err("no task has begun");
    assert_eq!(error.code, Code::Internal);
    assert!(error.message.contains("there is no future for ps:0"), "{error}");
}

#[test]
fn a_program_that_asks_for_more_memory_than_there_is_ends_the_run_and_is_told_of_the_limit() {
    let error = error_of(Mode::Async, async |task| {
        if task.index() == 1 {
            Graph::new().constant(Tensor::zeros(DType::F32, [1 << 20, 1 << 20, 1 << 8]));
        }
        Ok(false)
    });
    assert_eq!(error.code, Code::ResourceExhausted, "{error}");
    assert!(error.message.contains("raise the memory limit"), "{error}");
    assert_eq!(error.task.unwrap().to_string(), "worker:1");
}

#[test]
fn an_alarm_that_nobody_awaits_does_not_hold_up_the_rest() {
    let trained = Simulated::new(1, 1, Mode::Async).run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            return Ok(());
        }
        let at = |seconds| server.clock().now().after(Duration::from_secs(seconds));
        let (ignored, awaited) =
            (server.clock().sleep_until(at(1)), server.clock().sleep_until(at(2)));
        awaited.await;
        drop(ignored);
        Ok(())
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    assert_eq!(trained.outcome.ended.as_secs_f64(), 2.0);
}
