//! The programs of the cluster's tasks: the peer's null step and its training, written as a user
//! would.

use std::time::Instant;

use serde::Serialize;
use trainyard::cluster::Role;
use trainyard::graph::AllReduce;
use trainyard::prelude::*;

use super::cluster::Order;
use super::line::{Times, json};
use super::local_step::batch;
use super::{Arguments, Case, Kind, Mode, Way};

/// The number of variables that a null step reads and updates.
const VARIABLES: usize = 16;
/// The number of batches of each worker.
const BATCHES: usize = 128;

/// A null step's times.
#[derive(Serialize)]
struct NullStep {
    case: &'static str,
    kind: Kind,
    megabytes: usize,
    ps: usize,
    workers: usize,
    worker: u32,
    #[serde(flatten)]
    times: Times,
}

/// A training's rate.
#[derive(Serialize)]
struct Train {
    case: &'static str,
    mode: Mode,
    ps: usize,
    workers: usize,
    layers: String,
    batch: usize,
    global_steps_per_s: f64,
}

/// An all-reduce's times.
#[derive(Serialize)]
struct AllReduced {
    case: &'static str,
    way: Way,
    megabytes: usize,
    workers: usize,
    #[serde(flatten)]
    times: Times,
}

/// The program of a task of the cluster.
pub(crate) async fn train(task: Task, order: Order) -> Result<()> {
    if matches!(task.role(), Role::ParameterServer | Role::Helper) {
        return task.join().await;
    }
    let line = match order.arguments.case {
        Case::NullStep => Some(null_step(&task, &order.arguments).await?),
        Case::AllReduce => Some(all_reduce(&task, &order.arguments).await?),
        _ => training(&task, &order.arguments).await?,
    };
    if let Some(line) = line {
        order.leave(task.index(), &line);
    }
    Ok(())
}

/// Reads variables from the parameter servers and applies an update of the same size to each.
async fn null_step(task: &Task, arguments: &Arguments) -> Result<String> {
    let Arguments { kind, megabytes, ps, workers, steps, .. } = *arguments;
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let train = g.with_device_fn(setter, |g| {
        let step = g.global_step()?;
        let zeros = match kind {
            Kind::Scalar => Tensor::scalar(0f32),
            Kind::Dense => Tensor::zeros(DType::F32, [megabytes * 1_000_000 / 4 / VARIABLES]),
        };
        let mut pairs = Vec::with_capacity(VARIABLES);
        for i in 0..VARIABLES {
            let variable = g.variable(&format!("v{i}"), &g.constant(zeros.clone()))?;
            let gradient = variable.read().identity();
            pairs.push((variable, gradient));
        }
        GradientDescent::new(0.0).apply_gradients(&pairs, &step)
    })?;
    let session = MonitoredSession::builder(task, g).open().await?;
    let warm_up = steps.min(20);
    let mut times = Vec::with_capacity(warm_up + steps);
    for _ in 0..warm_up + steps {
        let begin = Instant::now();
        session.raw().run().target(&train).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    session.close().await?;
    let times = Times::of(times.split_off(warm_up));
    Ok(json(&NullStep {
        case: "null-step",
        kind,
        megabytes,
        ps,
        workers,
        worker: task.index(),
        times,
    }))
}

/// Sums a value of each worker, so that each has the sum; the first orders it.
async fn all_reduce(task: &Task, arguments: &Arguments) -> Result<String> {
    let Arguments { megabytes, workers, steps, way, .. } = *arguments;
    let g = Graph::new();
    g.global_step()?;
    let zeros = Tensor::zeros(DType::F32, [megabytes * 1_000_000 / 4]);
    let mut own = Vec::with_capacity(workers);
    for worker in 0..workers {
        let variable = |g: &Graph| g.variable(&format!("v{worker}"), &g.constant(zeros.clone()));
        own.push(g.with_device(&format!("/job:worker/task:{worker}"), variable)?.read());
    }
    let ring = match way {
        Way::Ring => AllReduce::Ring,
        Way::Tree => AllReduce::Tree,
        Way::Shuffle => AllReduce::Shuffle,
    };
    let sums = ring.sum(&own)?;
    let session = MonitoredSession::builder(task, g).open().await?;
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps + 2 {
        let begin = Instant::now();
        let run = session.raw().run();
        sums.iter().fold(run, |run, sum| run.target(sum.target())).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    session.close().await?;
    let times = Times::of(times.split_off(2));
    Ok(json(&AllReduced { case: "all-reduce", way, megabytes, workers, times }))
}

/// Between-graph replication with Adagrad; the chief counts the steps of all.
async fn training(task: &Task, arguments: &Arguments) -> Result<Option<String>> {
    let Arguments { ps, workers, steps, mode, batch: rows, ref layers, .. } = *arguments;
    let (width, classes) = (layers[0], layers[layers.len() - 1]);
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(width)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let mut logits = dense(&x, layers[1])?;
        for units in &layers[2..] {
            logits = dense(&logits.relu(), *units)?;
        }
        let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
        let train_op = task.minimize(Adagrad::new(0.01), &loss)?;
        Ok((x, y, train_op))
    })?;
    let batches: Vec<(Tensor, Tensor)> =
        (0..BATCHES).map(|_| batch(rows, width, classes)).collect();
    let stop = StopAtStep::last_step(steps as u64);
    let mut session = MonitoredSession::builder(task, g).hook(stop).open().await?;
    let mut begin = None;
    let mut now = 0;
    for (images, labels) in batches.iter().cycle() {
        if session.should_stop() {
            break;
        }
        let run = session.run().feed(&x, images.clone()).feed(&y, labels.clone());
        now = run.target(&train_op).fetch(&train_op.global_step()).await?.scalar::<i64>(0)?;
        if begin.is_none() && now as usize * 5 >= steps {
            begin = Some((Instant::now(), now));
        }
    }
    let rate = begin.map(|(begin, first)| (now - first) as f64 / begin.elapsed().as_secs_f64());
    session.close().await?;
    let Some(rate) = rate.filter(|_| task.is_chief()) else { return Ok(None) };
    let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
    let global_steps_per_s = (rate * 10.0).round() / 10.0;
    let (layers, batch) = (layers.join(","), rows);
    Ok(Some(json(&Train { case: "train", mode, ps, workers, layers, batch, global_steps_per_s })))
}
