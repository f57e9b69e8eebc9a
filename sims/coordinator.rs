//! A coordinator, TensorFlow 2's way of training on parameter servers: the chief hands out steps,
//! and the executors, which have no program of their own, take the next one as soon as they are
//! free. So a slow one takes fewer, and nobody waits for it.
//!
//! ```text
//! cargo run --release --example coordinator -- sim sims/coordinator.toml
//! ```

use trainyard::prelude::*;
use trainyard::training::ClusterCoordinator;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// The program of every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() != "chief" {
        return task.join().await;
    }
    let builder = ClusterCoordinator::builder(&task, "executor", |g| Model::build(g, &task))?;
    let (model, test) = (builder.model(), task.dataset()?.test.whole());
    let evaluator = InMemoryEvaluator::new(&model.loss, &model.accuracy)
        .feed(&model.x, test.features)
        .feed(&model.y, test.labels)
        .every_steps(50)
        .stop_at_accuracy(0.95);
    let last_step = task.settings().stop.steps.unwrap_or(2000);
    let coordinator = builder.hook(evaluator).last_step(last_step).open().await?;
    let mut trained = Ok(());
    while trained.is_ok() && !coordinator.should_stop() {
        let batch = task.next_batch()?;
        let scheduled = coordinator.schedule(move |model, run| {
            run.feed(&model.x, batch.features.clone())
                .feed(&model.y, batch.labels.clone())
                .target(&model.train_op)
                .fetch(&model.loss)
        });
        trained = scheduled.await.map(drop);
    }
    coordinator.close_after(trained).await
}

/// A copy of the model: one for each executor, and one for the chief, which evaluates.
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
        let train_op = task.minimize(Adagrad::new(0.05), &loss)?;
        Ok(Self { accuracy: accuracy(&logits, &y)?, x, y, loss, train_op })
    }
}
