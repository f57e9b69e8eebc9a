//! The programs in `sims/`, each in both worlds: simulated, and over QUIC in real time.

#[path = "../../../sims/in_graph.rs"]
mod in_graph;
#[path = "../../../sims/rnn.rs"]
mod rnn;

use std::future::Future;

use trainyard::cluster::TaskName;
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::simulation::Activity;

use crate::session::user_program::digits_trainer;
use crate::support::deployed::deployed;

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
    let simulated = trial.simulate(&program);
    simulated.outcome.result.unwrap();
    let weights = simulated.recording.ending.unwrap().weights_digest;
    assert!(weights.is_some());
    assert_eq!(deployed(trial, program).ending.unwrap().weights_digest, weights);
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

#[test]
fn the_distributed_trainer_learns_the_same_over_quic_as_in_simulation() {
    let text = "[cluster]\nps = 2\nworker = 2\n[stop]\nsteps = 20\n[[run]]\nmode = 'sync'\n";
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    assert_alike(&trial, digits_trainer::trainer);
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
