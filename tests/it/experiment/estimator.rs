//! `train_and_evaluate` on inputs of a program's own, and with a scaffold.

use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::data::{Batch, DataError, Pipeline, Sample};
use trainyard::experiment::{Experiment, Trial};
use trainyard::prelude::*;
use trainyard::training::{
    Checkpointing, EstimatorSpec, EvalSpec, ModeKey, Scaffold, TrainSpec, train_and_evaluate,
};

use super::evaluator::program::model;
use crate::support::fixture::assert_error;

/// A synchronous training with a checkpoint every 10 steps.
fn trial(workers: u32) -> Trial {
    let text = format!(
        "cluster = {{ ps = 1, worker = {workers} }}\ncheckpoint = {{ every_steps = 10 }}\n\
         run = [{{ name = 'only', mode = 'sync' }}]\n"
    );
    Experiment::parse(text).unwrap().trials().unwrap().remove(0)
}

/// Samples of which no two are alike.
fn samples(numbers: Pipeline<i32>) -> Pipeline<Batch> {
    let sample = |n: i32| Sample { features: vec![n as f32 / 100.0; 64], label: n % 10 };
    numbers.map(move |n| Ok(sample(n))).batch(4)
}

/// Measures whenever there is a checkpoint.
fn without_pauses() -> EvalSpec {
    EvalSpec::new().start_delay(Duration::ZERO).throttle(Duration::ZERO)
}

/// Trains on the worker's share of endless samples, until the global step `last`.
async fn endless(task: Task, last: u64) -> Result<()> {
    let mut train = TrainSpec::new().max_steps(last);
    if let Some(replica) = task.replica() {
        let own = Pipeline::from_elements(0..100).shard(2, replica.worker.into());
        let batches = samples(own.shuffle(20, 3).repeat()).prefetch(2);
        train = train.input_from(task.input("samples", batches));
    }
    train_and_evaluate(&task, |g, mode| model(g, mode, &task), train, EvalSpec::new()).await
}

#[test]
fn an_estimator_that_is_restored_goes_on_in_its_input_where_the_checkpoint_was() {
    let until = |last: u64, store: &Memory| {
        let mut trial = trial(2);
        trial.checkpointing = Some(Checkpointing::new(Arc::new(store.clone())));
        let simulated = trial.simulate(&|task: Task| endless(task, last));
        simulated.outcome.result.unwrap();
        simulated.recording.ending.unwrap().weights_digest.unwrap()
    };
    let store = Memory::default();
    until(17, &store);
    assert_eq!(until(40, &store), until(40, &Memory::default()));
}

/// Trains on 12 batches, and measures on those of `measured`.
async fn ending(task: Task, measured: Pipeline<Batch>) -> Result<()> {
    let batches = samples(Pipeline::from_elements(0..48));
    let train = TrainSpec::new().input_from(task.input("samples", batches));
    let evaluate = without_pauses().input_from(measured);
    train_and_evaluate(&task, |g, mode| model(g, mode, &task), train, evaluate).await
}

#[test]
fn an_estimator_ends_with_its_input_and_measures_each_checkpoint_on_the_whole_pipeline() {
    let measured = |batches: Pipeline<Batch>| -> Vec<(u64, f32)> {
        let simulated = trial(1).simulate(&|task: Task| ending(task, batches.clone()));
        simulated.outcome.result.unwrap();
        let looks = simulated.recording.evaluations;
        looks.iter().map(|look| (look.global_step, look.loss)).collect()
    };
    let whole = measured(samples(Pipeline::from_elements(0..20)));
    let steps: Vec<u64> = whole.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [0, 10, 12]);
    let part = measured(samples(Pipeline::from_elements(0..4)));
    assert!(whole.iter().zip(&part).all(|(whole, part)| whole.1 != part.1), "{whole:?} {part:?}");
}

#[test]
fn a_batch_that_cannot_be_read_ends_an_evaluation_with_its_error() {
    let broken = |n: i32| if n < 6 { Ok(n) } else { Err(DataError::program("the file is torn")) };
    let broken = samples(Pipeline::from_elements(0..20).map(broken));
    let simulated = trial(1).simulate(&|task: Task| ending(task, broken.clone()));
    let says = ["the input of the evaluation: the file is torn"];
    assert_error(simulated.outcome.result.map(drop), Code::Internal, &says);
}

/// A model with averages that never leave the first values. It is measured as `scaffold` says.
fn averaged(
    (g, mode): (&Graph, ModeKey),
    task: &Task,
    scaffold: fn(&Graph) -> Scaffold,
) -> Result<EstimatorSpec, GraphError> {
    let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let logits = dense(&x, 10)?;
    let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
    let ends = EstimatorSpec::new(&x, &y, &loss).metric("accuracy", &accuracy(&logits, &y)?);
    if mode == ModeKey::Evaluate {
        return Ok(ends.scaffold(scaffold(g)));
    }
    let train_op = task.minimize(Adagrad::new(0.1), &loss)?;
    let moved = averages().apply(&g.trainable_variables(), train_op.target())?;
    Ok(ends.train_op(&train_op).update(&moved))
}

fn averages() -> ExponentialMovingAverage {
    ExponentialMovingAverage::new(1.0)
}

/// The losses that are measured with `scaffold` at steps 0, 10 and 20.
fn losses(scaffold: fn(&Graph) -> Scaffold) -> Vec<f32> {
    let simulated = trial(1).simulate(&|task: Task| async move {
        let train = TrainSpec::new().max_steps(20);
        let model = |g: &Graph, mode| averaged((g, mode), &task, scaffold);
        train_and_evaluate(&task, model, train, without_pauses()).await
    });
    simulated.outcome.result.unwrap();
    simulated.recording.evaluations.iter().map(|look| look.loss).collect()
}

#[test]
fn an_estimator_is_measured_with_the_averages_of_its_variables() {
    let [first, _, last] = losses(|_| Scaffold::new())[..] else { panic!("three looks") };
    assert!(last < first, "it learns: {first}, then {last}");
    let averaged = losses(|g| Scaffold::new().saver(averages().variables_to_restore(g)));
    assert_eq!(averaged, [first; 3]);
}

#[test]
fn a_variable_that_the_scaffold_does_not_list_has_its_first_value_in_a_measurement() {
    let none = losses(|_| Scaffold::new().saver(Vec::<(String, Variable)>::new()));
    assert_eq!(none, [none[0]; 3]);
}
