//! A recurrent network that reads the digits row by row: 8 rows of 8 pixels, in a loop.
//!
//! ```text
//! cargo run --release --example rnn -- sim sims/rnn.toml
//! cargo run --release --example rnn -- launch sims/rnn.toml
//! ```

use trainyard::prelude::*;

/// The rows of an image, and the pixels of a row.
const ROWS: usize = 8;
const PIXELS: usize = 8;
/// The width of the state.
const STATE: usize = 64;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    trainyard::main(trainer)
}

/// The program of every task of the cluster.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, loss, accuracy, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(ROWS * PIXELS)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let logits = dense(&last_state(g, &x)?, 10)?;
        let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
        let optimizer = Adam::new(0.003).clip(ClipGradients::ByGlobalNorm(1.0));
        let train_op = task.minimize(optimizer, &loss)?;
        let accuracy = accuracy(&logits, &y)?;
        Ok((x, y, loss, accuracy, train_op))
    })?;
    let test = task.dataset()?.test.whole();
    let evaluator = InMemoryEvaluator::new(&loss, &accuracy)
        .feed(&x, test.features)
        .feed(&y, test.labels)
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
        let step = session.run().feed(&x, batch.features).feed(&y, batch.labels);
        trained = step.target(&train_op).fetch(&loss).await.map(drop);
    }
    session.close_after(trained).await
}

/// The state of an Elman network after the last row: `h = tanh([row, h]·w + b)`, from 0
/// (TensorFlow: `tf.nn.dynamic_rnn` of a `BasicRNNCell`).
fn last_state(g: &Graph, x: &Output) -> Result<Output, GraphError> {
    let w = g.variable("cell/w", &g.glorot_uniform("cell/w", [PIXELS + STATE, STATE]))?.read();
    let b = g.variable("cell/b", &g.zeros([STATE]))?.read();
    let rows = x.reshape([None, Some(ROWS), Some(PIXELS)])?.transpose(&[1, 0, 2])?;
    let first = x.slice(&[0, 0], &[None, Some(1)])?.mul(&g.zeros([1, STATE]))?;
    let end = g.while_loop(
        &[&g.constant(0i32), &first],
        &[&rows, &w, &b],
        |v| v[0].less(&v[0].graph().constant(ROWS as i32)),
        |v| {
            let [row, state, rows, w, b] = v else { panic!("what the loop is given") };
            let seen = concat(&[&rows.gather(row, 0)?, state], 1)?;
            let next = seen.matmul(w)?.add(b)?.tanh();
            Ok(vec![row.add(&row.graph().constant(1i32))?, next])
        },
        None,
    )?;
    Ok(end[1].clone())
}
