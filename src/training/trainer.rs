//! The built-in trainer: runs a scenario's `[program]`, written as a user would write a trainer.

mod absent;
mod chief;
mod mirrored;

use std::sync::Arc;

use crate::cluster::{Role, TaskName};
use crate::data::Batch;
use crate::graph::{
    Gradient, Graph, GraphDef, GraphError, Output, Replica, Target, Variable, accuracy,
    sparse_softmax_cross_entropy, stack, tower_gradients,
};
use crate::partition::Request;
use crate::placement::{GreedyByBytes, ReplicaDeviceSetter};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};

use super::estimator::{EstimatorSpec, EvalSpec, ModeKey};
use super::evaluator::Evaluator;
use super::hooks::{InMemoryEvaluator, StopAtStep, SyncReplicasHook};
use super::monitored_session::MonitoredSession;
use super::record::Fact;
use super::settings::Looks;
use super::task::Task;
use crate::import::{self, ImportError};
use crate::models::{self, GraphFile, Model, Network, Stages};
use crate::optimizer::{SyncReplicas, SyncReplicasOp, TrainOp, gradients_of};
use absent::Absent;
use chief::ChiefWatch;

/// Trains as the task's settings say, until one of their stop conditions is met.
///
/// # Errors
/// Any error of a step.
pub async fn train(task: Task) -> Result<()> {
    if let Some(argument) = task.arguments().first() {
        let message = format!("`{argument}`: the built-in trainer takes no arguments");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    match task.role() {
        Role::ParameterServer | Role::Helper => return task.join().await,
        Role::Evaluator => return evaluate(&task).await,
        Role::Worker => {}
    }
    check_that_somebody_holds_variables(&task)?;
    let (mut absent, mut taken) = (Absent::default(), 0);
    loop {
        match train_without(&task, &mut absent, &mut taken).await {
            Ok(Formation::Done) => return Ok(()),
            Ok(Formation::Grows) => {}
            Err(error) => absent.go_on_without(&task, error)?,
        }
    }
}

/// How the training of one formation of towers has ended.
enum Formation {
    /// The training is over.
    Done,
    /// A task is back, and the training goes on with its towers, too.
    Grows,
}

/// Trains with all of the replica's tasks but those that are `absent`, until the end, or until one
/// of those is back. Adds the steps to those `taken` by earlier formations.
async fn train_without(task: &Task, absent: &mut Absent, taken: &mut u64) -> Result<Formation> {
    let (g, model) = build_graph(task, absent)?;
    let mut builder = MonitoredSession::builder(task, g).after_steps(*taken);
    let stop = &task.settings().stop;
    if let Some(steps) = stop.steps {
        builder = builder.hook(StopAtStep::last_step(steps));
    }
    if let (Some(data), None) = (&model.data, task.cluster().evaluator())
        && let [(_, accuracy), ..] = &data.towers[0].metrics[..]
    {
        builder = builder.hook(in_memory_evaluator(task, &data.towers[0], accuracy)?);
    }
    if let Some(op) = &model.by_tokens {
        builder = builder.hook(by_tokens_hook(task, op));
    }
    let mut session = builder.open().await?;
    if let (Some(_), Some(data)) = (&task.settings().all_reduce, &model.data) {
        task.record(Fact::Formed(absent.formed(task, data.towers.len())));
    }
    let trained = train_until_the_end(task, &mut session, &model, absent).await;
    *taken = session.steps_taken();
    match trained {
        Ok(Formation::Grows) => Ok(Formation::Grows),
        ended => session.close_after(ended.map(drop)).await.map(|()| Formation::Done),
    }
}

/// Measures the training's checkpoints until it has ended.
async fn evaluate(task: &Task) -> Result<()> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let stages = Stages::new(vec![task.device()]);
    let (ends, _) = g.with_device(&task.device().to_string(), |g| network(g, task, &stages))?;
    let spec = EvalSpec::of(task).steps(None).stop_at_accuracy(task.settings().stop.accuracy);
    Evaluator::open(task, (g, ends), spec).await?.run().await
}

/// Fails if workers would share variables that no task holds: a `ReplicaDeviceSetter` without
/// parameter servers leaves each worker's on its own task, as TensorFlow's does.
fn check_that_somebody_holds_variables(task: &Task) -> Result<()> {
    let workers = task.replica().map_or(1, |replica| replica.workers);
    if task.cluster().has_parameter_servers() || workers == 1 {
        return Ok(());
    }
    let message = format!(
        "the cluster has no task of the job `ps`, so nothing holds the variables that its \
         {workers} workers share; add `ps = 1` to the cluster, or train by `program.all_reduce`"
    );
    Err(Error::new(Code::InvalidArgument, message))
}

async fn train_until_the_end(
    task: &Task,
    session: &mut MonitoredSession,
    model: &Built,
    absent: &mut Absent,
) -> Result<Formation> {
    let mut chief = ChiefWatch::new(task);
    while !session.should_stop() {
        if absent.take_back(task) {
            return Ok(Formation::Grows);
        }
        model.step(task, session).await?;
        chief.look(task).await?;
    }
    Ok(Formation::Done)
}

/// The graph of the built-in trainer, and the request of one of its training steps: one that
/// changes the shared variables.
///
/// # Errors
/// If the model can't be built.
pub(crate) fn step_graph(task: &Task) -> Result<(Arc<GraphDef>, Request)> {
    let (g, model) = build_graph(task, &Absent::default())?;
    let train_op = &model.train_op;
    let exchange = g.exchange_in_step(&[train_op.op_id()], task.local_steps() - 1);
    let shared = exchange.as_ref().unwrap_or(train_op);
    let mut request = Request { targets: vec![shared.op_id()], ..Request::default() };
    let told = shared.end_of_step().into_iter().flat_map(|end| end.told_of_step());
    request.fetches.extend(told.take(1).map(|global_step| global_step.edge()));
    if let Some(data) = &model.data {
        request.feeds = data.towers.iter().flat_map(EstimatorSpec::fed).map(Output::edge).collect();
        request.targets.extend(data.towers[0].updates.iter().map(Target::op_id));
        request.fetches.push(data.loss.edge());
    }
    Ok((g.snapshot()?, request))
}

fn build_graph(task: &Task, absent: &Absent) -> Result<(Graph, Built)> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    if let Some(all_reduce) = &task.settings().all_reduce {
        let own = task.device().to_string();
        let model = g.with_device(&own, |g| mirrored::build(g, task, all_reduce, absent))?;
        return Ok((g, model));
    }
    let setter = ReplicaDeviceSetter::new(task.cluster())
        .worker_device(task.device())
        .strategy(GreedyByBytes::default());
    let stages = Stages::new(task.replica_devices());
    let model = g.with_device_fn(stages.around(setter), |g| build(g, task, &stages))?;
    Ok((g, model))
}

/// A model in a graph, with the operation that trains it.
struct Built {
    train_op: Target,
    /// The global step after a step of `train_op`, if that counts it.
    global_step: Option<Output>,
    /// The operations beside the steps, if the workers are coordinated by tokens.
    by_tokens: Option<SyncReplicasOp>,
    /// The ends of a model with data.
    data: Option<Data>,
}

/// The ends of a model with data.
struct Data {
    /// Those of each tower; at least one.
    towers: Vec<EstimatorSpec>,
    /// The mean loss of all.
    loss: Output,
}

fn build(g: &Graph, task: &Task, stages: &Stages) -> Result<Built, GraphError> {
    let settings = task.settings();
    g.global_step()?; // before all else, so that it is where a round of tasks begins
    let variable = |name: &str, value: &Output| task.with_variables(g, |g| g.variable(name, value));
    let without_data = match &settings.model {
        Model::Null(sizes) => Some(sizes.gradients(g, variable, task.seed())?),
        Model::Layers(layers) => Some(models::layers::gradients(layers, g, variable)?),
        Model::Count => Some(models::count::gradients(g, variable, servers(task))?),
        _ => None,
    };
    if let Some(pairs) = without_data {
        let train_op = task.apply_gradients(settings.optimizer.clone(), &pairs)?;
        return Ok(Built::of(&train_op, None));
    }
    if let Model::GraphDef(file) = &settings.model
        && file.train.is_some()
    {
        task.count_inputs(g)?;
        let (ends, loss) = imported(g, file, ModeKey::Train)?;
        let train_op = ends.train_op.clone().expect("it is asked for");
        return Ok(Built::of(&train_op, Some(Data { towers: vec![ends], loss })));
    }
    let Some(by_tokens) = &settings.sync_replicas else {
        let (data, pairs) = in_towers(g, task, stages)?;
        let train_op = task.apply_gradients(settings.optimizer.clone(), &pairs)?;
        return Ok(Built::of(&train_op, Some(data)));
    };
    task.count_inputs(g)?;
    let (ends, loss) = network(g, task, stages)?;
    let workers = task.replica().map_or(1, |replica| replica.workers);
    let (aggregated, total) = by_tokens.replicas(workers);
    let optimizer = SyncReplicas::new(settings.optimizer.clone(), aggregated, total);
    let op = optimizer.minimize(&loss, &g.global_step()?)?;
    let data = Some(Data { towers: vec![ends], loss });
    let train_op = op.train_op().clone();
    Ok(Built { train_op, global_step: None, by_tokens: Some(op), data })
}

/// The scenario's network in its towers, with the gradients of all.
fn in_towers(
    g: &Graph,
    task: &Task,
    stages: &Stages,
) -> Result<(Data, Vec<(Variable, Gradient)>), GraphError> {
    let count = task.settings().towers;
    if count == 1 {
        let (ends, loss) = network(g, task, stages)?;
        let pairs = gradients_of(&loss)?;
        return Ok((Data { towers: vec![ends], loss }, pairs));
    }
    let devices: Vec<String> = (0..count).map(|tower| format!("/gpu:{tower}")).collect();
    let built = g.towers(&devices, |g, _| network(g, task, stages))?;
    let (towers, losses): (Vec<_>, Vec<Output>) = built.into_iter().unzip();
    let pairs = tower_gradients(&losses)?;
    let loss = stack(&losses.iter().collect::<Vec<_>>(), 0)?.mean();
    Ok((Data { towers, loss }, pairs))
}

/// The chief's part of a training by tokens.
fn by_tokens_hook(task: &Task, op: &SyncReplicasOp) -> SyncReplicasHook {
    let hook = SyncReplicasHook::new(op);
    match task.settings().sync_replicas.and_then(|by_tokens| by_tokens.num_tokens) {
        Some(tokens) => hook.num_tokens(tokens),
        None => hook,
    }
}

/// The graph of `file`, with its loss.
fn imported(
    g: &Graph,
    file: &GraphFile,
    mode: ModeKey,
) -> Result<(EstimatorSpec, Output), GraphError> {
    let failed = |error: ImportError| GraphError::from(Error::from(error));
    let train = file.train.as_deref().filter(|_| mode == ModeKey::Train);
    let wanted: Vec<&str> = file.measured().into_iter().chain(train).collect();
    let imported = import::training_graph(g, &file.bytes, &wanted).map_err(failed)?;
    let output = |name: &str| imported.output(name).map_err(failed);
    let loss = output(&file.loss)?;
    let mut ends = EstimatorSpec::new(&output(&file.images)?, &output(&file.labels)?, &loss);
    if let Some(accuracy) = &file.accuracy {
        ends = ends.metric("accuracy", &output(accuracy)?);
    }
    if let Some(train) = train {
        ends = ends.train_op(&imported.train_op(train).map_err(failed)?);
    }
    Ok((ends, loss))
}

/// The scenario's network, its layers on `stages`, with its loss and its accuracy.
fn network(g: &Graph, task: &Task, stages: &Stages) -> Result<(EstimatorSpec, Output), GraphError> {
    let settings = task.settings();
    if let Model::GraphDef(file) = &settings.model {
        return task.with_variables(g, |g| imported(g, file, ModeKey::Evaluate));
    }
    let split = &task.dataset()?.train;
    let features = g.placeholder("features", DType::F32, [None, Some(split.width())])?;
    let labels = g.placeholder("labels", DType::I32, [None])?;
    let network = task.with_variables(g, |g| {
        let build = |_: &Graph| Ok(models::build(&settings.model, &features, split, stages)?);
        match settings.partitioner {
            Some(partitioner) => g.with_partitioner(partitioner, build),
            None => build(g),
        }
    })?;
    let Network { logits, ids, updates } = network;
    let loss = sparse_softmax_cross_entropy(&logits, &labels)?.mean();
    let accuracy = accuracy(&logits, &labels)?;
    let ends = EstimatorSpec::new(&features, &labels, &loss).metric("accuracy", &accuracy);
    Ok((EstimatorSpec { ids, updates, ..ends }, loss))
}

/// The number of the cluster's parameter servers.
fn servers(task: &Task) -> usize {
    task.cluster().tasks().filter(TaskName::is_parameter_server).count()
}

impl Built {
    fn of(train_op: &TrainOp, data: Option<Data>) -> Self {
        let global_step = Some(train_op.global_step());
        Self { train_op: train_op.target().clone(), global_step, by_tokens: None, data }
    }

    /// Takes a training step.
    async fn step(&self, task: &Task, session: &mut MonitoredSession) -> Result<()> {
        let mut run = session.run().target(&self.train_op);
        if let Some(global_step) = &self.global_step {
            run = run.fetch(global_step);
        }
        if let Some(data) = &self.data {
            run = run.feed_with(|| data.feeds(task.next_batch()?)).fetch(&data.loss);
            for update in &data.towers[0].updates {
                run = run.target(update);
            }
        }
        run.await.map(drop)
    }
}

impl Data {
    /// The parts of a batch, each with the placeholder that it feeds.
    fn feeds(&self, batch: Batch) -> Result<Vec<(Output, Tensor)>> {
        let [tower] = &self.towers[..] else {
            let shares = self.towers.iter().zip(batch.shares(self.towers.len())?);
            return Ok(shares.flat_map(|(tower, share)| tower.feeds(share)).collect());
        };
        Ok(tower.feeds(batch).collect())
    }
}

/// The chief's look at the test split: as often as the scenario says, and at the end.
fn in_memory_evaluator(
    task: &Task,
    data: &EstimatorSpec,
    accuracy: &Output,
) -> Result<InMemoryEvaluator> {
    let mut evaluator = InMemoryEvaluator::new(&data.loss, accuracy).stop_if_not_finite();
    if task.is_chief() {
        for (place, value) in data.feeds(task.dataset()?.test.whole()) {
            evaluator = evaluator.feed(&place, value);
        }
    }
    let settings = task.settings();
    let Replica { mode, workers, .. } = task.replica().unwrap_or(Replica::ALONE);
    evaluator = match settings.stop.looks() {
        Some(Looks::EverySteps(steps)) => evaluator.every_steps(steps),
        Some(Looks::EverySamples(samples)) => {
            evaluator.every_samples(samples, settings.samples_of_a_step(mode, workers))
        }
        None => evaluator,
    };
    Ok(match settings.stop.accuracy {
        Some(target) => evaluator.stop_at_accuracy(target),
        None => evaluator,
    })
}
