//! A coordinator that hands out steps: in both worlds, with closures that fail, and with executors,
//! parameter servers and chiefs that are lost.

#[path = "../../../sims/coordinator.rs"]
mod program;

use std::collections::BTreeMap;
use std::future::Future;

use trainyard::cluster::TaskName;
use trainyard::data::Batch;
use trainyard::experiment::{Experiment, Simulated, Trial};
use trainyard::prelude::*;
use trainyard::training::{
    ClusterCoordinator, CoordinatorBuilder, MonitoredRun, Recording, RemoteValue,
};

use crate::support::deployed::deployed;
use crate::support::fixture::assert_error;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/coordinator.toml");
/// The closures of a program here.
const STEPS: usize = 60;

/// A run with a chief, two parameter servers and three executors.
fn trial(faults: &str, more: &str) -> Trial {
    let text = format!(
        "seed = 7\nfault = [{faults}]\n[cluster]\nchief = 1\nps = 2\nexecutor = 3\n\
         [network]\nrecovery = '2s'\n[program]\nbatch = 8\n[compute]\nstep_time = \
         {{ law = 'constant', value = '1ms' }}\n{more}\n[[run]]\nname = 'a'\nmode = 'async'\n"
    );
    Experiment::parse(&text).unwrap().trials().unwrap().remove(0)
}

struct Model {
    x: Output,
    y: Output,
    loss: Output,
    train_op: TrainOp,
}

impl Model {
    fn build(g: &Graph, task: &Task) -> Result<Self, GraphError> {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
        Ok(Self { train_op: task.minimize(Adagrad::new(0.05), &loss)?, x, y, loss })
    }
}

fn builder(task: &Task) -> Result<CoordinatorBuilder<Model>> {
    ClusterCoordinator::builder(task, "executor", |g| Model::build(g, task))
}

fn step(batch: Batch) -> impl for<'a> Fn(&Model, MonitoredRun<'a>) -> MonitoredRun<'a> + 'static {
    move |model, run| {
        run.feed(&model.x, batch.features.clone())
            .feed(&model.y, batch.labels.clone())
            .target(&model.train_op)
            .fetch(&model.loss)
    }
}

async fn schedule(
    task: &Task,
    coordinator: &ClusterCoordinator<Model>,
    steps: usize,
) -> Result<Vec<RemoteValue>> {
    let mut values = Vec::new();
    for _ in 0..steps {
        values.push(coordinator.schedule(step(task.next_batch()?)).await?);
    }
    Ok(values)
}

/// Schedules all closures, waits for them, and sees that each has run.
async fn join_all(task: Task) -> Result<()> {
    if task.job() != "chief" {
        return task.join().await;
    }
    let coordinator = builder(&task)?.open().await?;
    let values = schedule(&task, &coordinator, STEPS).await?;
    coordinator.join().await?;
    assert!(coordinator.done()?);
    for value in &values {
        let loss: f32 = coordinator.fetch(value).await?.scalar(0)?;
        assert!(loss.is_finite());
    }
    coordinator.close().await
}

/// Simulates `trial` twice, sees that both are the same, and that every task's program has ended
/// well.
#[track_caller]
fn simulate<F>(trial: &Trial, program: impl Fn(Task) -> F + Sync) -> Simulated
where
    F: Future<Output = Result<()>> + 'static,
{
    let [one, again] = [(); 2].map(|()| trial.simulate(&program));
    assert!(one.outcome.result.is_ok(), "{:?}", one.outcome.result);
    assert_eq!(one.outcome.digest, again.outcome.digest);
    one
}

/// The steps of each executor whose gradients were applied.
fn steps_of(recording: &Recording) -> BTreeMap<TaskName, usize> {
    let mut steps = BTreeMap::new();
    for step in recording.steps().filter(|step| step.applied) {
        assert_eq!(step.worker.job(), "executor");
        *steps.entry(step.worker).or_default() += 1;
    }
    steps
}

fn executor(index: u32) -> TaskName {
    TaskName::new("executor", index)
}

#[test]
fn a_slow_executor_takes_fewer_steps_and_the_report_counts_those_of_all() {
    let report = Experiment::load(SCENARIO).unwrap().simulate(program::trainer).unwrap();
    let run = &report.runs[0];
    assert!(run.test_accuracy.unwrap() >= 0.95, "{:?}", run.test_accuracy);
    assert_eq!(run.samples, 32 * run.global_steps);
    assert!(run.steps_per_second > 0.0 && run.final_loss.unwrap() < 1.0);
    assert!(run.waiting_seconds.keys().eq((0..4).map(executor).collect::<Vec<_>>().iter()));
    assert!((0..4).all(|index| run.step_bytes_sent[&executor(index)] > 0));
    let trial = Experiment::load(SCENARIO).unwrap().trials().unwrap().remove(0);
    let steps = steps_of(&simulate(&trial, program::trainer).recording);
    let (slow, fast) = (steps[&executor(3)], steps[&executor(0)]);
    assert!(2 * slow < fast, "{steps:?}");
    assert_eq!(steps.values().sum::<usize>() as u64, run.global_steps);
}

#[test]
fn a_step_of_an_executor_has_the_time_of_its_kernels() {
    let simulated = simulate(&trial("", ""), join_all);
    for step in simulated.recording.steps() {
        let took = step.compute_time().unwrap();
        assert!(took.as_secs_f64() >= 1e-3 && took <= step.ended.since(step.started), "{step:?}");
    }
}

#[test]
fn a_closure_of_a_lost_executor_is_taken_by_another_one() {
    for faults in [
        "{ at = '5ms', crash = 'executor:1' }",
        "{ at = '5ms', crash = 'executor:1', restart_after = '3ms' }",
        "{ at = '5ms', crash = 'executor:1' }, { at = '7ms', crash = 'executor:0' }",
    ] {
        let simulated = simulate(&trial(faults, ""), join_all);
        let steps = steps_of(&simulated.recording);
        let all: usize = steps.values().sum();
        assert!(all >= STEPS && simulated.recording.global_step() >= STEPS as u64, "{steps:?}");
        let lost = simulated.recording.steps().filter(|step| !step.applied);
        assert!(lost.clone().count() >= 1, "{faults}");
        assert!(lost.map(|step| step.worker).all(|worker| worker != executor(2)));
    }
}

#[test]
fn an_executor_that_is_back_takes_closures_again() {
    let faults = "{ at = '5ms', crash = 'executor:1', restart_after = '3ms' }";
    let slow = "slow = { 'executor:0' = 100, 'executor:2' = 100 }";
    let simulated = simulate(&trial(faults, slow), join_all);
    let of_it = simulated.recording.steps().filter(|step| step.worker == executor(1));
    let late = of_it.filter(|step| step.started.as_secs_f64() > 0.01 && step.applied).count();
    assert!(late > STEPS / 2, "{late}");
}

#[test]
fn a_coordinator_without_executors_fails() {
    let faults: Vec<String> =
        (0..3).map(|index| format!("{{ at = '5ms', crash = 'executor:{index}' }}")).collect();
    let simulated = trial(&faults.join(","), "").simulate(&join_all);
    assert_error(simulated.outcome.result, Code::Unavailable, &["executor:"]);
}

/// Some of its closures feed no labels.
async fn one_fails(task: Task) -> Result<()> {
    if task.job() != "chief" {
        return task.join().await;
    }
    let coordinator = builder(&task)?.room(16).open().await?;
    let mut values = schedule(&task, &coordinator, 2).await?;
    values.push(coordinator.schedule(wrong).await?);
    values.extend(schedule(&task, &coordinator, 9).await?);
    assert_error(coordinator.join().await, Code::InvalidArgument, &["you must feed a value"]);
    coordinator.join().await?;
    assert!(coordinator.done()?, "it is told once");
    assert_error(values[2].fetch().await, Code::InvalidArgument, &["you must feed a value"]);
    assert!(values[0].fetch().await.is_ok());
    assert_error(values[11].fetch().await, Code::Cancelled, &["another one had failed"]);
    for value in schedule(&task, &coordinator, 4).await? {
        value.fetch().await?;
    }
    let untold = coordinator.schedule(wrong).await?;
    assert_error(untold.fetch().await, Code::InvalidArgument, &["you must feed a value"]);
    assert_error(coordinator.close().await, Code::InvalidArgument, &["you must feed a value"]);
    Ok(())
}

fn wrong<'a>(model: &Model, run: MonitoredRun<'a>) -> MonitoredRun<'a> {
    run.feed(&model.x, Tensor::zeros(DType::F32, [2, 64])).target(&model.train_op)
}

#[test]
fn a_closure_that_fails_is_told_once_cancels_those_that_wait_and_the_others_go_on() {
    simulate(&trial("", ""), one_fails);
}

#[test]
fn a_lost_parameter_server_goes_back_to_the_checkpoint_and_all_closures_run() {
    let checkpoints = "[checkpoint]\nevery_steps = 10\n";
    for ps in 0..2 {
        let fault = format!("{{ at = '15ms', crash = 'ps:{ps}', restart_after = '3ms' }}");
        let trial = trial(&fault, checkpoints);
        let simulated = simulate(&trial, join_all);
        let restored: Vec<u64> =
            simulated.recording.restored.iter().map(|restore| restore.global_step).collect();
        assert!(restored.iter().any(|step| *step > 0), "{restored:?}");
        let run = trial.report(&simulated).unwrap();
        assert_eq!(run.last_saved, Some(run.global_steps));
    }
}

#[test]
fn a_lost_parameter_server_without_checkpoints_ends_the_coordinator() {
    let fault = "{ at = '15ms', crash = 'ps:1', restart_after = '3ms' }";
    let simulated = trial(fault, "").simulate(&join_all);
    assert_error(simulated.outcome.result, Code::VariablesLost, &["no checkpoint"]);
}

#[test]
fn a_chief_that_is_killed_leaves_nothing_behind_and_its_next_life_goes_on() {
    let fault = "{ at = '15ms', crash = 'chief:0', restart_after = '3ms' }";
    let simulated = simulate(&trial(fault, "[checkpoint]\nevery_steps = 10\n"), join_all);
    assert!(simulated.recording.global_step() > STEPS as u64);
    let killed_at = 0.015;
    let under_way = |at: f64| {
        simulated
            .recording
            .steps()
            .any(|step| step.started.as_secs_f64() < at && step.ended.as_secs_f64() > at)
    };
    assert!(!under_way(killed_at + 1e-3), "no step of the chief's first life ends after it");
}

#[test]
fn a_deployed_coordinator_hands_out_steps() {
    let trial = Experiment::load(SCENARIO).unwrap().set("stop.steps=40").unwrap();
    let recording = deployed(&trial.trials().unwrap().remove(0), program::trainer);
    assert!((40..44).contains(&recording.global_step()), "{}", recording.global_step());
    let steps = steps_of(&recording);
    assert_eq!(steps.values().sum::<usize>() as u64, recording.global_step());
    assert!(steps.len() > 1, "{steps:?}");
    assert!(recording.ending.unwrap().weights_digest.is_some());
}

#[test]
fn a_coordinator_refuses_what_it_can_not_lead() {
    let refused = |cluster: &str, mode: &str, says: &'static str| {
        let text = format!("[cluster]\n{cluster}\n[[run]]\nname = 'a'\nmode = '{mode}'\n");
        let trial = Experiment::parse(&text).unwrap().trials().unwrap().remove(0);
        let simulated = trial.simulate(&join_all);
        assert_error(simulated.outcome.result, Code::InvalidArgument, &[says]);
    };
    refused("chief = 1\nps = 1\nexecutor = 1", "sync", "mode `async`");
    refused("chief = 1\nworker = 1\nps = 1\nexecutor = 1", "async", "the only task that trains");
    refused("chief = 1\nexecutor = 1", "async", "parameter servers");
    refused("chief = 1\nps = 1", "async", "no job `executor`");
}
