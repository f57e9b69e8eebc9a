//! A user's own trainer: a perceptron for the digits, in the shape of a TensorFlow program.
//!
//! ```text
//! cargo run --release --example digits_trainer -- sim sims/sync_vs_async.toml
//! ```
//!
//! The scenario gives the cluster, the network, the mode and the batches. This program gives the
//! model and the optimizer; those of `[program]` are ignored. It trains until the accuracy on the
//! test split is 0.95, or for as many steps as the scenario says.

use trainyard::prelude::*;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// The program of every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await; // returns when the training is over
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let model = g.with_device_fn(setter, |g| Model::build(g, &task))?;
    let test = task.dataset()?.test.whole();
    let evaluator = InMemoryEvaluator::new(&model.loss, &model.accuracy)
        .feed(&model.x, test.features)
        .feed(&model.y, test.labels)
        .every_steps(50)
        .stop_at_accuracy(0.95);
    let mut session = MonitoredSession::builder(&task, g)
        .hook(evaluator)
        .hook(StopAtStep::last_step(task.settings().stop.steps.unwrap_or(1000)))
        .open()
        .await?;
    let mut trained = Ok(());
    while trained.is_ok() && !session.should_stop() {
        let batch = task.next_batch()?;
        let step = session.run().feed(&model.x, batch.features).feed(&model.y, batch.labels);
        trained = step.target(&model.train_op).fetch(&model.loss).await.map(drop);
    }
    session.close_after(trained).await // the end of the input is a clean end, too
}

/// The ends of a graph: the outputs and operations that a step feeds, fetches and runs.
struct Model {
    x: Output,
    y: Output,
    loss: Output,
    accuracy: Output,
    train_op: TrainOp,
}

impl Model {
    fn build(g: &Graph, task: &Task) -> Result<Self, GraphError> {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let logits = dense(&dense(&x, 64)?.relu(), 10)?;
        let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
        let accuracy = accuracy(&logits, &y)?;
        let train_op = task.minimize(Adagrad::new(0.05), &loss)?;
        Ok(Self { x, y, loss, accuracy, train_op })
    }
}
