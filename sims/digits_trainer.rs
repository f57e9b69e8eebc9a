//! A trainer of one's own: a perceptron for the digits, in the shape of a TensorFlow program.
//!
//! ```text
//! cargo run --example digits_trainer -- sim sims/sync_vs_async.toml
//! ```
//!
//! The cluster, the network, the mode and the batches are the scenario's; the model and the
//! optimizer are this program's, whatever `[program]` says of them. It never looks at the test
//! split, so that a target accuracy is not reached (exit code 3): it ends by `stop.steps`.

use trainyard::prelude::*;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// What runs as every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await; // returns when the training is over
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let model = g.with_device_fn(setter, |g| Model::build(g, &task))?;
    let mut session = MonitoredSession::builder(&task, g)
        .hook(StopAtStep::last_step(task.settings().stop.steps.unwrap_or(1000)))
        .open()
        .await?;
    while !session.should_stop() {
        let batch = task.next_batch()?;
        let step = session.run().feed(&model.x, batch.features).feed(&model.y, batch.labels);
        step.target(&model.train_op).fetch(&model.loss).await?;
    }
    session.close().await
}

/// A graph's ends, which a step feeds, fetches and runs.
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
        let hidden = dense(&x, 64)?.relu();
        let loss = sparse_softmax_cross_entropy(&dense(&hidden, 10)?, &y)?.mean();
        let train_op = task.minimize(Adagrad::new(0.05), &loss)?;
        Ok(Self { x, y, loss, train_op })
    }
}
