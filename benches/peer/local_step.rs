//! Training steps in one process, one task, a step after the other.

use std::time::Instant;

use rand::RngExt;
use serde::Serialize;
use trainyard::prelude::*;
use trainyard::random;

use super::line::{Times, json, print};

/// The untimed steps at the beginning; the first one registers the partition.
const WARM_UP: usize = 5;

/// A network, and its training data.
struct Model {
    name: &'static str,
    /// The channels of the 5x5 convolutions before the dense layers, each followed by a pool; none
    /// in a perceptron.
    filters: &'static [usize],
    /// The widths of the input and of each dense layer.
    layers: &'static [usize],
    batch: usize,
    steps: usize,
}

const MODELS: &[Model] = &[
    Model { name: "softmax 64-10", filters: &[], layers: &[64, 10], batch: 32, steps: 500 },
    Model { name: "mlp 64-128-10", filters: &[], layers: &[64, 128, 10], batch: 32, steps: 500 },
    Model {
        name: "mlp 784-512-512-10",
        filters: &[],
        layers: &[784, 512, 512, 10],
        batch: 128,
        steps: 200,
    },
    Model {
        name: "convnet 28x28 5x5 32-64 fc1024",
        filters: &[32, 64],
        layers: &[784, 1024, 10],
        batch: 64,
        steps: 40,
    },
];

/// One result.
#[derive(Serialize)]
struct Line {
    case: &'static str,
    model: &'static str,
    batch: usize,
    #[serde(flatten)]
    times: Times,
}

/// Trains each model in a session of its own.
pub(crate) fn run() -> Result<()> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread().build().expect("a thread can have a runtime")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(async {
        for model in MODELS {
            let times = Times::of(step_times(model).await?);
            let Model { name, batch, .. } = *model;
            print(&json(&Line { case: "local-step", model: name, batch, times }));
        }
        Ok(())
    })
}

/// The duration of each step of training `model` \[ms\].
async fn step_times(model: &Model) -> Result<Vec<f64>> {
    let server = Server::create_local();
    let g = Graph::new();
    let (width, classes) = (model.layers[0], model.layers[model.layers.len() - 1]);
    let x = g.placeholder("x", DType::F32, [Some(model.batch), Some(width)])?;
    let y = g.placeholder("y", DType::I32, [Some(model.batch)])?;
    let mut logits = dense(&convolved(&x, model.filters)?, model.layers[1])?;
    for units in &model.layers[2..] {
        logits = dense(&logits.relu(), *units)?;
    }
    let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
    let train = Adagrad::new(0.01).minimize(&loss, &g.global_step()?)?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;

    let (images, labels) = batch(model.batch, width, classes);
    let mut losses = Vec::new();
    let mut times = Vec::new();
    for _ in 0..WARM_UP + model.steps {
        let begin = Instant::now();
        let run = session.run().feed(&x, images.clone()).feed(&y, labels.clone());
        let fetched = run.target(&train).fetch(&loss).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        losses.push(fetched.scalar::<f32>(0)?);
    }
    assert!(
        losses.last() < losses.first(),
        "{}: the steps that were timed trained nothing",
        model.name
    );
    times.drain(..WARM_UP);
    Ok(times)
}

/// The output of the convolutions over square images of one channel, as rows again.
fn convolved(x: &Output, filters: &[usize]) -> Result<Output> {
    if filters.is_empty() {
        return Ok(x.clone());
    }
    let mut images = x.reshape([None, Some(28), Some(28), Some(1)])?;
    for filters in filters {
        let features = conv2d(&images, *filters, [5, 5], Padding::Same)?.relu();
        images = max_pool2d(&features, [2, 2], [2, 2], Padding::Same)?;
    }
    Ok(flatten(&images)?)
}

/// Uniform images, `[rows, width]`, and labels.
pub(crate) fn batch(rows: usize, width: usize, classes: usize) -> (Tensor, Tensor) {
    let mut random = random::stream(1, &["batch"]);
    let images: Vec<f32> = (0..rows * width).map(|_| random.random()).collect();
    let labels: Vec<i32> = (0..rows).map(|_| random.random_range(0..classes as i32)).collect();
    let fits = "there is a value for each element";
    (Tensor::new([rows, width], &images).expect(fits), Tensor::new([rows], &labels).expect(fits))
}
