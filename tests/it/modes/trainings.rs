//! Several trainings on the same servers, and several training operations in one.

use std::rc::Rc;
use std::time::Duration;

use trainyard::cluster::TaskName;
use trainyard::experiment::Experiment;
use trainyard::graph::{GraphError, Replica};
use trainyard::optimizer::{LocalSgd, LocalTrainOp};
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::{Recording, StepStats};
use trainyard::units::Time;

use crate::support::deployed::{deployed_as, roles_by_flags};
use crate::support::fixture::assert_error;
use crate::support::simulated::{Simulated, Trained};

const MODES: [Mode; 12] = [
    Mode::Async,
    Mode::Sync { backups: 0, cancel: false },
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
    Mode::KAsync { k: 2 },
    Mode::KBatchSync { k: 4, cancel: false },
    Mode::KBatchAsync { k: 4 },
    Mode::StalenessAware,
    Mode::DelayCompensated { lambda: 0.04 },
    Mode::LocalSgd { every: 2, backups: 0 },
    Mode::ElasticAveraging { every: 2, alpha: 0.5 },
    Mode::DiLoCo { every: 2, backups: 1, outer_learning_rate: 0.7, outer_momentum: 0.9 },
];

/// The operation of a step.
enum Step {
    Shared(TrainOp),
    Local(LocalTrainOp),
}

/// A variable on each of two parameter servers, and the step that trains them as `task` does.
fn build(task: &Task) -> Result<(Graph, Step)> {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let Replica { worker, workers, mode } = task.replica().expect("a worker has one");
    let variables = |g: &Graph| -> Result<[Variable; 2], GraphError> {
        Ok([g.variable("v", &g.constant(1f32))?, g.variable("u", &g.constant(1f32))?])
    };
    let step = g.with_device_fn(setter, |g| {
        let step = g.global_step()?;
        let is_local = mode.copies().is_some();
        let own = if is_local { g.with_local_variables(variables)? } else { variables(g)? };
        let pairs = own.map(|v| (v.clone(), v.read().negate()));
        let (inner, outer) = (GradientDescent::new(0.1), GradientDescent::new(1.0));
        if is_local {
            let outer = outer.coordinated(mode, worker, workers);
            let local = LocalSgd::new(inner, outer, 2).apply_gradients(&pairs, &step)?;
            return Ok(Step::Local(local));
        }
        let inner = inner.coordinated(mode, worker, workers);
        Ok(Step::Shared(inner.apply_gradients(&pairs, &step)?))
    })?;
    Ok((g, step))
}

/// Trains until the global step is `last`, which the chief says.
async fn train_to(task: &Task, last: u64) -> Result<()> {
    let (g, step) = build(task)?;
    let mut session = MonitoredSession::builder(task, g).open().await?;
    let mut number = 0;
    while !session.should_stop() {
        let run = session.run();
        match &step {
            Step::Shared(step) => run.target(step).await?,
            Step::Local(step) => run.target(step.at(number)).await?,
        };
        number += 1;
        if task.is_chief() && session.global_step() >= last {
            task.finish_training();
            session.request_stop();
        }
    }
    session.close().await
}

/// Trains until the global step is `last`, which each worker sees for itself. The chief may also
/// say so: the others may be in the next training by then.
async fn train_by_hook(task: &Task, last: u64, is_announced: bool) -> Result<()> {
    let (g, step) = build(task)?;
    let stop = StopAtStep::last_step(last);
    let mut session = MonitoredSession::builder(task, g).hook(stop).open().await?;
    let (mut number, mut trained) = (0, Ok(()));
    while trained.is_ok() && !session.should_stop() {
        let run = session.run();
        trained = match &step {
            Step::Shared(step) => run.target(step).await.map(drop),
            Step::Local(step) => run.target(step.at(number)).await.map(drop),
        };
        number += 1;
    }
    if is_announced && task.is_chief() {
        task.finish_training();
    }
    session.close_after(trained).await
}

/// The global steps at which two trainings end, one after the other.
const ENDS: [u64; 2] = [20, 60];

/// Trains to [`ENDS`] by [`train_by_hook`] or, as a parameter server, waits for each end.
async fn two_trainings(task: Task, is_announced: bool) -> Result<()> {
    for last in ENDS {
        match task.job() {
            "ps" => task.join().await?,
            _ => train_by_hook(&task, last, is_announced).await?,
        }
    }
    Ok(())
}

/// Three workers on so many parameter servers, on a network that is felt.
fn three_workers(ps: u32, mode: Mode) -> Simulated {
    Simulated::new(ps, 3, mode)
        .step_time(Law::Uniform { low: 0.005, high: 0.02 })
        .latency(Duration::from_millis(1))
}

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };

/// Runs both trainings, which come to their ends; in `sync`, each round is of all workers.
#[track_caller]
fn run_both(training: &Simulated, is_announced: bool) -> Trained {
    let mode = training.mode();
    let trained = training.run_program(move |task| two_trainings(task, is_announced));
    assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    let last = trained.steps.iter().map(|step| step.global_step).max();
    assert!(last >= Some(ENDS[1]), "{mode}: {last:?}");
    if mode == SYNC {
        let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
        assert_eq!(applied, 3 * ENDS[1]);
    }
    trained
}

/// Three workers that train to the global steps `ends`, one training after the other, with `pause`
/// between them.
fn trainings(mode: Mode, ends: [u64; 3], pause: Duration) -> Trained {
    let training = Simulated::new(2, 3, mode).step_time(Law::Exponential { mean: 0.1 });
    let trained = training.run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            let end = Time::ZERO.after(Duration::from_secs(1_000_000));
            server.clock().sleep_until(end).await;
            return Ok(());
        }
        for last in ends {
            train_to(&task, last).await?;
            let clock = Rc::clone(server.clock());
            clock.sleep_until(clock.now().after(pause)).await;
        }
        Ok(())
    });
    assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
    trained
}

#[track_caller]
fn assert_all_take_part(mode: Mode, trained: &Trained, ends: &[u64]) {
    let mut before = 0;
    for last in ends.iter().copied() {
        for worker in 0..3 {
            let task = TaskName::new("worker", worker);
            let takes_part = trained.steps.iter().any(|step| {
                step.worker == task && step.global_step > before && step.global_step <= last + 3
            });
            assert!(takes_part, "{mode}: worker {worker} takes no step to {last}");
        }
        let reached = trained.steps.iter().map(|step| step.global_step).max();
        assert!(reached >= Some(last), "{mode}: {reached:?}, not {last}");
        before = last + 3;
    }
}

#[test]
fn trainings_on_the_same_servers_follow_each_other_in_every_mode() {
    let ends = [20, 45, 70];
    for mode in MODES {
        let trained = trainings(mode, ends, Duration::from_secs(10));
        assert_all_take_part(mode, &trained, &ends);
    }
}

#[test]
fn a_worker_that_is_early_for_the_next_training_waits_until_the_others_have_left_the_last() {
    let ends = [20, 45, 70];
    for mode in MODES {
        let trained = trainings(mode, ends, Duration::ZERO);
        assert_all_take_part(mode, &trained, &ends);
    }
}

#[test]
fn two_sessions_of_a_program_follow_each_other_on_the_same_servers_in_every_mode() {
    for mode in MODES {
        for ps in 1..=3 {
            let trained = run_both(&three_workers(ps, mode), false);
            assert_all_take_part(mode, &trained, &ENDS);
        }
    }
}

#[test]
fn a_training_whose_end_is_announced_late_ends_on_no_worker_that_has_begun_the_next() {
    for mode in MODES {
        for ps in 1..=3 {
            let trained = run_both(&three_workers(ps, mode), true);
            assert_all_take_part(mode, &trained, &ENDS);
        }
    }
}

#[test]
fn the_next_training_begins_at_all_servers_whichever_hears_last_of_the_end_of_the_one_before() {
    for mode in MODES {
        for ps in 0..2 {
            let tasks = vec![TaskName::new("worker", 2), TaskName::new("ps", ps)];
            let slow = FaultKind::SlowLink { tasks, factor: 40.0, lasts: Duration::from_secs(100) };
            run_both(&three_workers(2, mode).fault(Trigger::Time(Time::ZERO), slow), false);
        }
    }
}

#[test]
fn a_worker_that_dies_in_the_second_training_and_begins_its_program_anew_takes_part_in_it_again() {
    for mode in [SYNC, Mode::Async, Mode::KAsync { k: 2 }] {
        let whole = run_both(&three_workers(2, mode), false);
        let is_of_second = |step: &&StepStats| step.global_step > ENDS[0] + 3;
        let dies = whole.steps.iter().filter(is_of_second).map(|step| step.ended).min().unwrap();
        let (task, restart_after) = (TaskName::new("worker", 1), Some(Duration::from_millis(5)));
        let crash = FaultKind::Crash { task: task.clone(), restart_after };
        let training = three_workers(2, mode).fault(Trigger::Time(dies), crash);
        let trained = training.run_program(|task| two_trainings(task, false));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let is_back = |step: &StepStats| step.worker == task && step.started > dies;
        assert!(trained.steps.iter().any(is_back), "{mode}");
    }
}

/// Every task in a thread, which ends with its program as a process does.
#[test]
fn two_sessions_of_a_deployed_program_end_with_the_weights_of_the_simulation() {
    for (name, mode) in
        [("sync", "'sync'"), ("async", "'async'"), ("k_async", "{ k_async = { k = 1 } }")]
    {
        let text =
            format!("[cluster]\nps = 2\nworker = 2\n[stop]\nsteps = 100\n[[run]]\nmode = {mode}\n");
        let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        let program = |task| two_trainings(task, false);
        let deployed =
            deployed_as(&trial, &format!("two_trainings_{name}"), &roles_by_flags(), program);
        let simulated = trial.simulate(&program).recording;
        let weights = |recording: &Recording| recording.ending.unwrap().weights_digest.unwrap();
        if name == "sync" {
            assert_eq!(weights(&deployed), weights(&simulated));
        }
        let last = deployed.steps().map(|step| step.global_step).max();
        assert!(last >= Some(ENDS[1]), "{name}: {last:?}");
    }
}

#[test]
fn two_training_operations_in_one_step_are_both_applied() {
    let trained = Simulated::new(1, 1, Mode::Async).run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        let v = g.with_device("/job:ps/task:0", |g| {
            g.global_step()?;
            g.variable("v", &g.constant(0f32))
        })?;
        let step = |gradient: f32| {
            let pairs = [(v.clone(), g.constant(gradient))];
            task.apply_gradients(GradientDescent::new(1.0), &pairs)
        };
        let (one, other) = (step(1.0)?, step(10.0)?);
        let mut session = MonitoredSession::builder(&task, g).open().await?;
        for _ in 0..5 {
            session.run().target(&one).target(&other).await?;
        }
        let value = session.raw().run().fetch(&v.read()).await?.scalar::<f32>(0)?;
        assert_eq!(value, -55.0);
        session.close().await
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

#[test]
fn two_training_operations_of_one_variable_in_one_step_of_a_round_are_refused() {
    let trained = Simulated::new(1, 1, Mode::Sync { backups: 0, cancel: false }).run_program(
        |task| async move {
            if task.job() == "ps" {
                return task.join().await;
            }
            let g = Graph::new();
            let v = g.with_device("/job:ps/task:0", |g| {
                g.global_step()?;
                g.variable("v", &g.constant(0f32))
            })?;
            let pairs = [(v.clone(), v.read().negate())];
            let step = || task.apply_gradients(GradientDescent::new(1.0), &pairs);
            let (one, other) = (step()?, step()?);
            let mut session = MonitoredSession::builder(&task, g).open().await?;
            let refused = session.run().target(&one).target(&other).await;
            assert_error(refused, Code::InvalidArgument, &["worker 0", "two training operations"]);
            session.close().await
        },
    );
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}
