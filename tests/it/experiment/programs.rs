//! The programs in `sims/`, each in both worlds: simulated, and over QUIC in real time.

#[path = "../../../sims/in_graph.rs"]
mod in_graph;
#[path = "../../../sims/rnn.rs"]
mod rnn;

use std::future::Future;

use serde_json::{Value, json};
use trainyard::cluster::{RunConfig, TaskName};
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::simulation::Activity;

use super::evaluator::program as train_and_evaluate;
use crate::session::user_program::digits_trainer;
use crate::support::binary::{folder, free_address};
use crate::support::deployed::{deployed, deployed_as, roles_by_flags};
use crate::support::simulated::weights_of;

const IN_GRAPH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/in_graph.toml");
const RNN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/rnn.toml");

/// The synchronous run of `scenario`, of so many steps.
fn trial(scenario: &str, steps: u64) -> Trial {
    let experiment = Experiment::load(scenario).unwrap();
    experiment.set(&format!("stop.steps={steps}")).unwrap().trials().unwrap().remove(0)
}

/// Asserts that `program` learns the same weights in both worlds.
#[track_caller]
fn assert_alike<F>(trial: &Trial, program: impl Fn(Task) -> F + Sync)
where
    F: Future<Output = Result<()>> + 'static,
{
    let weights = weights_of(trial, &program);
    assert_eq!(deployed(trial, program).ending.unwrap().weights_digest, Some(weights));
}

/// Asserts that all runs of `scenario` reach their target in simulation.
#[track_caller]
fn assert_learns<F>(scenario: &str, program: impl Fn(Task) -> F + Sync)
where
    F: Future<Output = Result<()>> + 'static,
{
    let report = Experiment::load(scenario).unwrap().simulate(program).unwrap();
    for run in &report.runs {
        assert!(run.test_accuracy.unwrap() >= 0.95, "{}: {:?}", run.name, run.test_accuracy);
    }
}

/// TensorFlow's documentation: `trainer.py --ps_hosts=… --worker_hosts=… --job_name=…`, and the
/// index.
#[test]
fn the_distributed_trainer_is_told_by_its_flags_and_learns_the_same_as_in_simulation() {
    let text = "[cluster]\nps = 2\nworker = 2\n[stop]\nsteps = 20\n[[run]]\nmode = 'sync'\n";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let roles = roles_by_flags();
    let trained = deployed_as(&trial, "programs_by_flags", &roles, digits_trainer::trainer);
    let expected = weights_of(&trial, &digits_trainer::trainer);
    assert_eq!(trained.ending.unwrap().weights_digest, Some(expected));
}

/// The estimator's program, in what Kubernetes' training operator calls the cloud.
async fn in_the_cloud(task: Task) -> Result<()> {
    if let Some(config) = task.run_config() {
        assert_eq!(
            (config.is_chief(), task.is_chief()),
            (task.job() == "chief", config.is_chief())
        );
    }
    train_and_evaluate::trainer(task).await
}

/// A Kubernetes-like set-up: each task has `TF_CONFIG` alone, and the evaluator is in no cluster.
#[test]
fn an_estimator_finds_its_role_and_its_model_in_tf_config_and_learns_the_same_as_in_simulation() {
    let text = "[cluster]\nchief = 1\nps = 2\nworker = 1\n[stop]\nsteps = 20\n\
                [checkpoint]\nevery_steps = 100\n[[run]]\nmode = 'sync'\n";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let models = folder("programs_tf_config_models");
    let cluster = json!({
        "chief": [free_address()], "worker": [free_address()],
        "ps": [free_address(), free_address()],
    });
    let told = |(job, index): (&str, u32)| -> Value {
        json!({
            "cluster": cluster, "task": {"type": job, "index": index}, "environment": "cloud",
            "model_dir": models,
        })
    };
    let tasks = [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("evaluator", 0)];
    let roles = tasks.map(|task| RunConfig::from_tf_config(Some(&told(task).to_string())).unwrap());
    let trained = deployed_as(&trial, "programs_by_tf_config", &roles, in_the_cloud);
    let expected = weights_of(&trial, &in_the_cloud);
    assert_eq!(trained.ending.unwrap().weights_digest, Some(expected));
    let last = trained.evaluations.last().map(|measured| measured.global_step);
    assert_eq!(last, Some(20), "by the evaluator, in the model's folder");
}

#[test]
fn towers_on_the_tasks_of_a_job_learn_in_one_client_the_same_in_both_worlds() {
    assert_learns(IN_GRAPH, in_graph::trainer);
    assert_alike(&trial(IN_GRAPH, 20), in_graph::trainer);
}

#[test]
fn each_task_computes_its_own_tower() {
    let simulated = trial(IN_GRAPH, 3).simulate(&in_graph::trainer);
    for index in 0..4 {
        let usage = &simulated.outcome.usage[&TaskName::new("tower", index)];
        assert!(!usage.of(Activity::Kernels).is_zero(), "tower:{index} computes nothing");
    }
}

#[test]
fn a_recurrent_network_learns_the_digits_row_by_row() {
    assert_learns(RNN, rnn::trainer);
}

#[test]
fn a_recurrent_network_learns_the_same_over_quic_as_in_simulation() {
    assert_alike(&trial(RNN, 10), rnn::trainer);
}
