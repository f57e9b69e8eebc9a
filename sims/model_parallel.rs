//! A client that is no task: it builds one model over two jobs, a layer on each of three tasks, and
//! trains it on servers without programs of their own.
//!
//! ```text
//! trainyard certs new certs && trainyard certs issue certs --task ps:0,ps:1,worker:0,client:0
//! export HOSTS="--ps-hosts 127.0.0.1:2222,127.0.0.1:2223 --worker-hosts 127.0.0.1:2224"
//! trainyard serve $HOSTS --task ps:0 --certs certs &
//! trainyard serve $HOSTS --task ps:1 --certs certs &
//! trainyard serve $HOSTS --task worker:0 --certs certs &
//! cargo run --release --example model_parallel -- quic://127.0.0.1:2222/job:ps/task:0 certs
//! ```
#![expect(clippy::disallowed_macros, reason = "a program of a user prints")]

use std::error::Error;
use std::sync::Arc;

use trainyard::data::{Batches, Dataset};
use trainyard::deployment::{Certificates, Client, run_client};
use trainyard::prelude::*;
use trainyard::runtime::ServerTarget;

#[allow(dead_code, reason = "a test has servers of its own")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, certificates] = &args[..] else {
        return Err("usage: model_parallel quic://HOST:PORT/job:JOB/task:N CERTIFICATES".into());
    };
    run_client(async {
        let client = Client::new(&Certificates::new(certificates, "trainyard")).await?;
        let losses = train(&client.target(server)?, 200).await?;
        println!("the loss of the first step was {}, of the last {}", losses[0], losses[199]);
        client.close().await;
        Ok(())
    })
}

/// The task of each layer.
const LAYERS: [&str; 3] = ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"];

/// Trains a perceptron for the digits, planned and led by the server at `target`. Returns the loss
/// of each step.
pub(crate) async fn train(target: &ServerTarget, steps: usize) -> Result<Vec<f32>> {
    let digits = Dataset::digits().expect("the library has them");
    let mut batches = Batches::new(Arc::new(digits.train), 7, 0, 1, 32).expect("there are many");
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
    let y = g.placeholder("y", DType::I32, [None])?;
    let hidden = g.with_device(LAYERS[0], |_| Ok(dense(&x, 64)?.relu()))?;
    let hidden = g.with_device(LAYERS[1], |_| Ok(dense(&hidden, 32)?.relu()))?;
    let loss = g.with_device(LAYERS[2], |_| {
        Ok(sparse_softmax_cross_entropy(&dense(&hidden, 10)?, &y)?.mean())
    })?;
    let train_op = Adagrad::new(0.05).minimize(&loss, &g.global_step()?)?;
    let session = Session::new(target, &g).await?;
    session.run().target(g.initializer()).await?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        let batch = batches.next_batch();
        let step = session.run().feed(&x, batch.features).feed(&y, batch.labels);
        losses.push(step.target(&train_op).fetch(&loss).await?.scalar(&loss)?);
    }
    Ok(losses)
}
