//! An end that is announced while others are inside their steps: it leaves whole steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::{StepStats, train};
use trainyard::units::Time;

use crate::support::simulated::{Simulated, Trained};
use crate::support::thorough::spread;

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };
const WORKERS: u32 = 6;

/// A training that ends by its time, while its workers are at different places of their steps. The
/// fault is harmless: it is there so that the judge has one.
const BY_TIME: &str = r#"
    name = "by_time"
    [cluster]
    ps = 4
    worker = 6
    [network]
    latency = "500us"
    [compute]
    step_time = { law = "exponential", mean = "300us" }
    [program]
    model = "count"
    [checkpoint]
    every_steps = 100000
    [stop]
    time = "20ms"
    [[fault]]
    at = "1ms"
    slow_task = "worker:1"
    factor = 1.5
    for = "1ms"
    [[run]]
    mode = "sync"
    [[run]]
    mode = { sync = { backups = 1 } }
    [[run]]
    mode = "async"
    [[run]]
    mode = { bounded_staleness = { slack = 2 } }
    [[run]]
    mode = { k_async = { k = 2 } }
    [[run]]
    mode = { k_batch_sync = { k = 3 } }
    [[run]]
    mode = { k_batch_async = { k = 3 } }
"#;

/// Asserts that all that is promised holds of [`BY_TIME`] with these `changes`, for each seed.
#[track_caller]
fn assert_whole(changes: &[&str]) {
    let change = |experiment: Experiment, change: &&str| experiment.set(change).unwrap();
    for seed in spread(1..=8, 3) {
        let experiment = Experiment::parse(BY_TIME).unwrap().seed(seed);
        let experiment = changes.iter().fold(experiment, change);
        let report = experiment.chaos(train, 0, |_, _| {}).unwrap();
        assert!(report.is_clean(), "seed {seed}, {changes:?}: {:?}", report.runs);
    }
}

#[test]
fn the_last_checkpoint_of_a_training_that_ends_by_its_time_holds_whole_steps() {
    assert_whole(&[]);
}

#[test]
fn where_parameter_servers_hear_of_the_end_at_different_times_the_last_checkpoint_is_whole_too() {
    for time in ["3ms", "3200us", "3400us"] {
        let time = format!("stop.time={time:?}");
        assert_whole(&["network.tasks.ps.latency=\"120us\"", &time]);
    }
}

/// The steps of a training in `mode` that ends by its time.
fn ended_by_time(mode: Mode) -> Vec<StepStats> {
    let training = Simulated::new(2, WORKERS, mode)
        .step_time(Law::Exponential { mean: 0.003 })
        .latency(Duration::from_micros(500))
        .until(Duration::from_millis(100));
    training.run().steps
}

/// The number of gradients that are told as applied, and the last global step.
fn applied(steps: &[StepStats]) -> (u64, u64) {
    let applied = steps.iter().filter(|step| step.applied).count() as u64;
    (applied, steps.iter().map(|step| step.global_step).max().unwrap_or(0))
}

#[test]
fn as_many_gradients_are_told_as_applied_as_the_last_global_step_is_made_of() {
    let all = u64::from(WORKERS);
    for (mode, of_a_step) in [
        (Mode::Async, 1),
        (Mode::BoundedStaleness { slack: 2 }, 1),
        (Mode::KAsync { k: 2 }, 2),
        (Mode::Sync { backups: 1, cancel: false }, all - 1),
        (SYNC, all),
    ] {
        let (applied, last) = applied(&ended_by_time(mode));
        assert!(last > 0);
        assert_eq!(applied, last * of_a_step, "{mode}");
    }
}

#[test]
fn of_the_steps_that_an_announced_end_meets_none_is_dropped_that_waits_for_no_round() {
    for mode in [Mode::Async, Mode::BoundedStaleness { slack: 2 }] {
        let dropped = ended_by_time(mode).into_iter().filter(|step| !step.applied).count();
        assert_eq!(dropped, 0, "{mode}");
    }
}

/// Three workers, of which the others are slower than the chief, and the last one by `factor`.
fn unequal(factor: f64) -> String {
    format!("worker = 3\n[compute]\nslow = {{ 'worker:1' = 1.37, 'worker:2' = {factor:?} }}\n")
}

/// The last global step of a training of `workers` that counts its updates, and the digest of its
/// weights.
fn counted(mode: &str, workers: &str, steps: u64) -> (u64, Option<u64>) {
    let text = format!(
        "[cluster]\nps = 2\n{workers}[program]\nmodel = 'count'\n[stop]\nsteps = {steps}\n\
         [[run]]\nmode = {mode}\nset = {{ compute.step_time = {{ law = 'constant', \
         value = '10ms' }} }}\n"
    );
    let simulated = Experiment::parse(text).unwrap().trials().unwrap().remove(0).simulate(&train);
    let last = simulated.recording.steps().map(|step| step.global_step).max().unwrap();
    (last, simulated.recording.ending.unwrap().weights_digest)
}

/// The digest of the weights after `steps` updates, one after the other.
fn weights_after(steps: u64) -> Option<u64> {
    counted("'async'", "worker = 1\n", steps).1
}

#[test]
fn the_weights_have_the_updates_of_steps_that_others_end_after_the_chief() {
    for mode in ["'async'", "{ bounded_staleness = { slack = 4 } }"] {
        for factor in [2.71, 50.0] {
            let (last, weights) = counted(mode, &unequal(factor), 40);
            assert!(last > 40, "{mode}: others end steps after the chief");
            assert_eq!(weights, weights_after(last), "{mode}, {factor}");
        }
    }
}

#[test]
fn the_chief_does_not_wait_for_a_worker_that_is_lost_amid_its_last_step() {
    let lost = format!("{}[[fault]]\nat = '300ms'\ncrash = 'worker:2'\n", unequal(50.0));
    let (last, weights) = counted("'async'", &lost, 40);
    assert_eq!((last, weights), (41, weights_after(41)));
}

#[test]
fn no_worker_takes_a_second_step_in_vain_after_an_announced_end() {
    for mode in [SYNC, Mode::KAsync { k: 2 }] {
        let mut dropped: BTreeMap<TaskName, u32> = BTreeMap::new();
        for step in ended_by_time(mode).into_iter().filter(|step| !step.applied) {
            *dropped.entry(step.worker).or_default() += 1;
        }
        assert!(!dropped.is_empty(), "{mode}: the end meets no step");
        assert!(dropped.values().all(|count| *count == 1), "{mode}: {dropped:?}");
    }
}

/// A training that an evaluator ends when it has measured a checkpoint.
fn measured(mode: &str) -> Trial {
    let text = format!(
        "seed = 3\n[cluster]\nps = 2\nworker = 3\nevaluator = 1\n[network]\nlatency = '500us'\n\
         [compute]\nstep_time = {{ law = 'exponential', mean = '3ms' }}\n\
         [program]\nmodel = 'softmax'\nbatch = 8\n[checkpoint]\ndirectory = 'saved'\n\
         every_steps = 20\n[stop]\naccuracy = 0.3\nsteps = 2000\n[[run]]\nmode = {mode}\n"
    );
    Experiment::parse(text).unwrap().trials().unwrap().remove(0)
}

#[test]
fn an_end_by_an_evaluator_comes_between_two_steps_of_the_chief_and_leaves_whole_steps() {
    for (mode, of_a_step) in [("'sync'", 3), ("'async'", 1), ("{ k_async = { k = 2 } }", 2)] {
        let simulated = measured(mode).simulate(&train);
        assert!(simulated.outcome.result.is_ok(), "{mode}: {:?}", simulated.outcome.result);
        let steps: Vec<StepStats> = simulated.recording.steps().collect();
        let (applied, last) = applied(&steps);
        assert!((1..2000).contains(&last), "{mode}: the target ends it, at {last}");
        assert_eq!(applied, last * of_a_step, "{mode}");
    }
}

/// A synchronous training that counts its updates, on each of two parameter servers. The chief is
/// cut off from both for five seconds, so that the others go on without it. It looks at a variable
/// once it is back, and ends the training at `announced`, before it is let in again.
fn ended_from_outside(store: &Memory, announced: Time) -> Trained {
    let (chief, ps) = (TaskName::new("worker", 0), |index| TaskName::new("ps", index));
    let mut training = Simulated::new(2, 3, SYNC)
        .step_time(Law::Constant { value: 0.05 })
        .latency(Duration::from_micros(500))
        .checkpoints(store, 100_000);
    for tasks in [[chief.clone(), ps(0)], [chief, ps(1)]] {
        let cut = FaultKind::Partition { tasks: tasks.into(), lasts: Duration::from_secs(5) };
        training = training.fault(Trigger::Time(at(1.5)), cut);
    }
    // A round is made there later than at the other parameter server.
    let tasks = vec![TaskName::new("worker", 1), ps(1)];
    let slow = FaultKind::SlowLink { tasks, factor: 40.0, lasts: Duration::from_secs(100) };
    training.fault(Trigger::Time(Time::ZERO), slow).run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        g.with_device("/job:ps/task:0", |g| g.global_step())?;
        let (mut pairs, mut reads) = (Vec::new(), Vec::new());
        for index in 0..2 {
            let (name, place) = (format!("v{index}"), format!("/job:ps/task:{index}"));
            let v = g.with_device(&place, |g| g.variable(&name, &g.constant(0f32)))?;
            reads.push(v.read());
            pairs.push((v.clone(), v.read().zeros_like() - g.constant(1f32)));
        }
        let train = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
        let checkpointing = task.checkpointing().expect("the training keeps checkpoints").clone();
        let builder = MonitoredSession::builder(&task, g).checkpointing(checkpointing);
        let mut session = builder.open().await?;
        for step in 0.. {
            if session.should_stop() {
                break;
            }
            if task.is_chief() && step == 3 {
                server.clock().sleep_until(at(BACK)).await;
                session.run().fetch(&reads[1]).await?;
                server.clock().sleep_until(announced).await;
                task.finish_training();
                break;
            }
            session.run().target(&train).await?;
        }
        session.close().await
    })
}

/// When the chief is back \[s\].
const BACK: f64 = 8.0;

fn at(seconds: f64) -> Time {
    Time::ZERO.after(Duration::from_secs_f64(seconds))
}

#[test]
fn an_end_that_is_announced_by_who_takes_no_part_in_rounds_cuts_off_none_of_them() {
    for phase in 0..12 {
        let (store, phase) = (Memory::default(), 10 * phase);
        let trained = ended_from_outside(&store, at(9.0 + f64::from(phase) * 1e-3));
        assert!(trained.outcome.result.is_ok(), "{phase} ms: {:?}", trained.outcome.result);
        let own = |worker| {
            let steps = trained.steps.iter().filter(move |step| step.worker.index() == worker);
            steps.map(|step| step.global_step).max().unwrap_or(0)
        };
        assert!(own(1) > own(0) + 10, "{phase} ms: the others go on without the chief");
        let since = trained.steps.iter().filter(|step| step.ended > at(BACK));
        assert!(since.clone().all(|step| step.applied), "{phase} ms: one is dropped");
        let told = since.map(|step| step.global_step).max().unwrap_or(0);
        let mut saver = Saver::new(Arc::new(store), Retention::default());
        let last = saver.latest().unwrap().checkpoint.unwrap();
        let value = |name: &str| last.variables[name].item::<f32>().unwrap() as u64;
        assert_eq!((last.global_step, value("v0"), value("v1")), (told, told, told), "{phase} ms");
    }
}
