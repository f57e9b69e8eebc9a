//! In-graph replication: one client builds a tower of the model on each of several tasks, and runs
//! them all in each step. The other tasks have no program of their own: they host what is placed on
//! them.
//!
//! ```text
//! cargo run --release --example in_graph -- sim sims/in_graph.toml
//! ```
//!
//! The cluster has a `worker`, which is the client, and a job `tower`, whose tasks are helpers.

use trainyard::graph::tower_gradients;
use trainyard::prelude::*;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// The program of every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() != "worker" {
        return task.join().await;
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let hosts = task.cluster().tasks().filter(|host| host.job() == "tower");
    let devices: Vec<String> =
        hosts.map(|host| format!("/job:tower/task:{}", host.index())).collect();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (towers, train_op) = g.with_device_fn(setter, |g| {
        let towers = g.towers(&devices, |g, _| Tower::build(g))?;
        let losses: Vec<Output> = towers.iter().map(|tower| tower.loss.clone()).collect();
        let train_op = task.apply_gradients(Adagrad::new(0.05), &tower_gradients(&losses)?)?;
        Ok((towers, train_op))
    })?;
    let test = task.dataset()?.test.whole();
    let evaluator = InMemoryEvaluator::new(&towers[0].loss, &towers[0].accuracy)
        .feed(&towers[0].x, test.features)
        .feed(&towers[0].y, test.labels)
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
        let mut step = session.run().target(&train_op).fetch(&towers[0].loss);
        for (tower, share) in towers.iter().zip(batch.shares(towers.len())?) {
            step = step.feed(&tower.x, share.features).feed(&tower.y, share.labels);
        }
        trained = step.await.map(drop);
    }
    session.close_after(trained).await
}

/// A copy of the model, with its share of each batch.
struct Tower {
    x: Output,
    y: Output,
    loss: Output,
    accuracy: Output,
}

impl Tower {
    fn build(g: &Graph) -> Result<Self, GraphError> {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let logits = dense(&dense(&x, 64)?.relu(), 10)?;
        let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
        let accuracy = accuracy(&logits, &y)?;
        Ok(Self { x, y, loss, accuracy })
    }
}
