//! A trainer in the shape of TensorFlow's estimators: a model, how it is trained, how it is
//! measured, and `train_and_evaluate`, which every task of the cluster calls.
//!
//! The job `evaluator` measures each checkpoint that it finds newest, while the workers train, and
//! ends the training once the accuracy is 0.95. The scenario gives the cluster, the network, how
//! often checkpoints are saved and how often the evaluator measures.

use trainyard::prelude::*;
use trainyard::training::{EstimatorSpec, EvalSpec, ModeKey, TrainSpec, train_and_evaluate};

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// The program of every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    let train = TrainSpec::new().max_steps(task.settings().stop.steps.unwrap_or(1000));
    let evaluate = EvalSpec::of(&task).stop_at_accuracy(0.95);
    train_and_evaluate(&task, |g, mode| model(g, mode, &task), train, evaluate).await
}

/// A perceptron for the digits (TensorFlow: the `model_fn` of an estimator).
pub(crate) fn model(g: &Graph, mode: ModeKey, task: &Task) -> Result<EstimatorSpec, GraphError> {
    let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let logits = dense(&dense(&x, 64)?.relu(), 10)?;
    let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
    let ends = EstimatorSpec::new(&x, &y, &loss).metric("accuracy", &accuracy(&logits, &y)?);
    Ok(match mode {
        ModeKey::Train => ends.train_op(&task.minimize(Adagrad::new(0.05), &loss)?),
        ModeKey::Evaluate => ends,
    })
}
