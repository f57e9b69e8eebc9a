//! The built-in trainer: runs a scenario's `[program]`, written as a user would write a trainer.

use std::time::Duration;

use crate::graph::{
    Graph, GraphDef, GraphError, Output, Target, accuracy, sparse_softmax_cross_entropy,
};
use crate::partition::Request;
use crate::placement::{GreedyByBytes, ReplicaDeviceSetter};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};
use crate::units::Time;

use super::hooks::{InMemoryEvaluator, StopAtStep, StopAtTime};
use super::monitored_session::MonitoredSession;
use super::task::Task;
use crate::data::Batch;
use crate::models::Model;
use crate::models::{self, Network};
use crate::optimizer::TrainOp;

/// Trains as the task's settings say, until one of their stop conditions is met.
///
/// # Errors
/// Any error of a step.
pub async fn train(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    if task.replica().is_none() {
        let message = format!(
            "{} is of no job that this program knows: `ps` serves, `worker` and `chief` train; \
             remove it from the cluster",
            task.name()
        );
        return Err(Error::new(Code::InvalidArgument, message).on(task.name()));
    }
    check_that_somebody_holds_variables(&task)?;
    let (g, model) = build_graph(&task)?;
    let mut builder = MonitoredSession::builder(&task, g);
    let stop = &task.settings().stop;
    if let Some(steps) = stop.steps {
        builder = builder.hook(StopAtStep::last_step(steps));
    }
    if let Some(time) = stop.time {
        builder = builder.hook(StopAtTime::new(time));
    }
    if let Some(data) = &model.data {
        builder = builder.hook(data.evaluator(&task)?);
    }
    if let Some(checkpointing) = task.checkpointing() {
        builder = builder.checkpointing(checkpointing.clone());
    }
    let mut session = builder.open().await?;
    let trained = train_until_the_end(&task, &mut session, &model).await;
    session.close_after(trained).await
}

/// Fails if workers would share variables that no task holds: a `ReplicaDeviceSetter` without
/// parameter servers leaves each worker's on its own task, as TensorFlow's does.
fn check_that_somebody_holds_variables(task: &Task) -> Result<()> {
    let has_servers = task.cluster().num_tasks("ps").is_ok_and(|count| count > 0);
    let workers = task.replica().map_or(1, |replica| replica.workers);
    if has_servers || workers == 1 {
        return Ok(());
    }
    let message = format!(
        "the cluster has no task of the job `ps`, so nothing holds the variables that its \
         {workers} workers share; add `ps = 1` to the cluster"
    );
    Err(Error::new(Code::InvalidArgument, message))
}

async fn train_until_the_end(
    task: &Task,
    session: &mut MonitoredSession,
    model: &Built,
) -> Result<()> {
    while !session.should_stop() {
        model.step(task, session).await?;
        check_chief(task)?;
    }
    Ok(())
}

/// The graph of the built-in trainer, and the request of one of its training steps: one that
/// changes the shared variables.
///
/// # Errors
/// If the model can't be built.
pub(crate) fn step_graph(task: &Task) -> Result<(GraphDef, Request)> {
    let (g, model) = build_graph(task)?;
    let shared = model.train_op.target().in_step(task.local_steps() - 1);
    let mut request = Request { targets: vec![shared.op_id()], ..Request::default() };
    let told = shared.end_of_step().into_iter().flat_map(|end| end.told_of_step());
    request.fetches.extend(told.take(1).map(|global_step| global_step.edge()));
    if let Some(data) = &model.data {
        request.feeds = vec![data.features.edge(), data.labels.edge()];
        request.fetches.push(data.loss.edge());
    }
    Ok((g.snapshot()?, request))
}

fn build_graph(task: &Task) -> Result<(Graph, Built)> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster())
        .worker_device(task.device())
        .strategy(GreedyByBytes::default());
    let model = g.with_device_fn(setter, |g| build(g, task))?;
    Ok((g, model))
}

/// A model in a graph, with the operations that train and measure it.
struct Built {
    train_op: TrainOp,
    /// Operations that run with each training step besides.
    updates: Vec<Target>,
    data: Option<Fed>,
}

/// The inputs and outputs of a model with data.
struct Fed {
    features: Output,
    /// The feature ids, if the data is sparse.
    ids: Option<Output>,
    labels: Output,
    loss: Output,
    accuracy: Output,
}

fn build(g: &Graph, task: &Task) -> Result<Built, GraphError> {
    let settings = task.settings();
    g.global_step()?; // before all else, so that it is where a round of tasks begins
    let variable = |name: &str, value: &Output| task.with_variables(g, |g| g.variable(name, value));
    let without_data = match &settings.model {
        Model::Null(sizes) => Some(sizes.gradients(g, variable, task.seed())?),
        Model::Count => Some(models::count::gradients(g, variable, servers(task))?),
        _ => None,
    };
    if let Some(pairs) = without_data {
        let train_op = task.apply_gradients(settings.optimizer.clone(), &pairs)?;
        return Ok(Built { train_op, updates: Vec::new(), data: None });
    }
    let split = &task.dataset()?.train;
    let features = g.placeholder("features", DType::F32, [None, Some(split.width())])?;
    let labels = g.placeholder("labels", DType::I32, [None])?;
    let network = task.with_variables(g, |g| {
        let build = |_: &Graph| Ok(models::build(&settings.model, &features, split)?);
        match settings.partitioner {
            Some(partitioner) => g.with_partitioner(partitioner, build),
            None => build(g),
        }
    })?;
    let Network { logits, ids, updates } = network;
    let loss = sparse_softmax_cross_entropy(&logits, &labels)?.mean();
    let accuracy = accuracy(&logits, &labels)?;
    let train_op = task.minimize(settings.optimizer.clone(), &loss)?;
    Ok(Built { train_op, updates, data: Some(Fed { features, ids, labels, loss, accuracy }) })
}

/// The number of the cluster's parameter servers.
fn servers(task: &Task) -> usize {
    task.cluster().tasks().filter(|name| name.job() == "ps").count()
}

impl Built {
    /// Takes a training step.
    async fn step(&self, task: &Task, session: &mut MonitoredSession) -> Result<()> {
        let mut run = session.run().target(&self.train_op).fetch(&self.train_op.global_step());
        if let Some(data) = &self.data {
            run = run.feed_with(|| Ok(data.feeds(task.next_batch()?).collect())).fetch(&data.loss);
        }
        for update in &self.updates {
            run = run.target(update);
        }
        run.await.map(drop)
    }
}

impl Fed {
    /// The parts of a batch, each with the placeholder that it feeds.
    fn feeds(&self, batch: Batch) -> impl Iterator<Item = (Output, Tensor)> {
        let always = [(self.features.clone(), batch.features), (self.labels.clone(), batch.labels)];
        always.into_iter().chain(self.ids.clone().zip(batch.ids))
    }

    /// The evaluator on the test split: as often as the scenario says if it has a target accuracy,
    /// else at the end.
    fn evaluator(&self, task: &Task) -> Result<InMemoryEvaluator> {
        let mut evaluator = InMemoryEvaluator::new(&self.loss, &self.accuracy);
        if task.is_chief() {
            for (place, value) in self.feeds(task.dataset()?.test.whole()) {
                evaluator = evaluator.feed(&place, value);
            }
        }
        let stop = &task.settings().stop;
        Ok(match stop.accuracy {
            Some(target) => evaluator.every_steps(stop.evaluate_every).stop_at_accuracy(target),
            None => evaluator,
        })
    }
}

/// Fails if the chief should have ended the training long ago: the chief is gone, and no other task
/// will end it.
fn check_chief(task: &Task) -> Result<()> {
    let elapsed = task.now().since(Time::ZERO);
    let recovery = task.patience().recovery;
    let is_overdue = |limit: Duration| elapsed >= limit + recovery;
    if task.is_chief() || !task.settings().stop.time.is_some_and(is_overdue) {
        return Ok(());
    }
    let chief = task.chief();
    let message =
        format!("the training should have ended {recovery:?} ago, but its chief, {chief}, is gone");
    Err(Error::new(Code::Unavailable, message).on(&chief))
}
