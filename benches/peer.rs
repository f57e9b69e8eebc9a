//! The work that trainyard is compared with TensorFlow on: one JSON line a result, with the peer's own fields.
//!
//! `cargo bench --bench peer -- local-step` runs one case, no name runs all. A step is timed as a program
//! sees it: from asking a session for it to holding the loss that it fetched.

use std::process::ExitCode;
use std::time::Instant;

use rand::RngExt;
use serde::Serialize;
use trainyard::prelude::*;
use trainyard::random;

/// Steps that are not timed: the first registers the partition.
const WARM_UP: usize = 5;

/// A case by name.
type Case = (&'static str, fn() -> Result<()>);

const CASES: &[Case] = &[("local-step", local_step)];

/// A network and what it is trained on.
struct Model {
    name: &'static str,
    /// The channels of the 5x5 convolutions before the dense layers, each with a pool; none in a perceptron.
    filters: &'static [usize],
    /// The widths of the input and of each dense layer.
    layers: &'static [usize],
    batch: usize,
    steps: usize,
}

const MODELS: &[Model] = &[
    Model { name: "softmax 64-10", filters: &[], layers: &[64, 10], batch: 32, steps: 500 },
    Model { name: "mlp 64-128-10", filters: &[], layers: &[64, 128, 10], batch: 32, steps: 500 },
    Model { name: "mlp 784-512-512-10", filters: &[], layers: &[784, 512, 512, 10], batch: 128, steps: 200 },
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
    peer: &'static str,
    case: &'static str,
    model: &'static str,
    batch: usize,
    p10_ms: f64,
    median_ms: f64,
    p90_ms: f64,
}

fn main() -> ExitCode {
    // Cargo adds `--bench` to what it was given.
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let is_known = |name: &String| CASES.iter().any(|(known, _)| name == known);
    if let Some(unknown) = asked.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = CASES.iter().map(|(known, _)| *known).collect();
        eprintln!("there is no case `{unknown}`; the cases are: {}", known.join(", "));
        return ExitCode::from(2);
    }
    for (name, run) in CASES {
        if !asked.is_empty() && !asked.iter().any(|asked| asked == name) {
            continue;
        }
        if let Err(error) = run() {
            eprintln!("{name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One process, one task, a step after the other.
fn local_step() -> Result<()> {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().expect("a thread can have a runtime");
    actix_rt::System::with_tokio_rt(runtime).block_on(async {
        for model in MODELS {
            let times = step_times(model).await?;
            let Model { name, batch, .. } = *model;
            let [p10_ms, median_ms, p90_ms] = [10, 50, 90].map(|percent| percentile(&times, percent));
            let line = Line { peer: "trainyard", case: "local-step", model: name, batch, p10_ms, median_ms, p90_ms };
            println!("{}", serde_json::to_string(&line).expect("numbers and names are JSON"));
        }
        Ok(())
    })
}

/// How long each step of training `model` took, shortest first \[ms\].
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
    assert!(losses.last() < losses.first(), "{}: the steps that were timed trained nothing", model.name);
    times.drain(..WARM_UP);
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// What the convolutions make of square images of one channel: rows again.
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
fn batch(rows: usize, width: usize, classes: usize) -> (Tensor, Tensor) {
    let mut random = random::stream(1, &["batch"]);
    let images: Vec<f32> = (0..rows * width).map(|_| random.random()).collect();
    let labels: Vec<i32> = (0..rows).map(|_| random.random_range(0..classes as i32)).collect();
    let fits = "there is a value for each element";
    (Tensor::new([rows, width], &images).expect(fits), Tensor::new([rows], &labels).expect(fits))
}

/// The value that `percent` of `sorted` do not exceed, between two of them by their distance, to 0.1 us.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() - 1) as f64 * percent as f64 / 100.0;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    ((below + (above - below) * rank.fract()) * 1e4).round() / 1e4
}
