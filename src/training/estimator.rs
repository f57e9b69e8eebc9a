//! `train_and_evaluate`: one program that trains a model and measures its checkpoints, each task by
//! its role.

mod exporter;
mod spec;

use crate::cluster::{Role, RunConfig};
use crate::data::Batch;
use crate::graph::{Graph, GraphError};
use crate::placement::ReplicaDeviceSetter;
use crate::runtime::{Code, Error, Result, SessionOptions};

use super::checkpointing::Checkpointing;
use super::evaluator::{Evaluator, place};
use super::hooks::StopAtStep;
use super::monitored_session::MonitoredSession;
use super::task::Task;

pub use exporter::{BestExporter, Exporter, LatestExporter};
use spec::TrainInput;
pub use spec::{EstimatorSpec, EvalSpec, Evaluated, ModeKey, TrainSpec};

/// Trains a model and measures its checkpoints (TensorFlow: `tf.estimator.train_and_evaluate`).
///
/// What the task does is its role's: the workers train, the parameter servers hold the variables,
/// and an `evaluator` measures the newest whole checkpoint, again and again, until the chief has
/// left the training and its last checkpoint is measured. A worker that trains alone, without an
/// evaluator, measures between its own steps. `model` builds the same model in either mode:
///
/// ```no_run
/// # use trainyard::prelude::*;
/// # use trainyard::training::{EstimatorSpec, EvalSpec, ModeKey, TrainSpec, train_and_evaluate};
/// async fn trainer(task: Task) -> Result<()> {
///     let train = TrainSpec::new().max_steps(2000);
///     let evaluate = EvalSpec::of(&task).stop_at_accuracy(0.95);
///     train_and_evaluate(&task, |g, mode| model(g, mode, &task), train, evaluate).await
/// }
///
/// fn model(g: &Graph, mode: ModeKey, task: &Task) -> Result<EstimatorSpec, GraphError> {
///     let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
///     let y = g.placeholder("y", DType::I32, [None])?;
///     let logits = dense(&x, 10)?;
///     let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
///     let ends = EstimatorSpec::new(&x, &y, &loss).metric("accuracy", &accuracy(&logits, &y)?);
///     Ok(match mode {
///         ModeKey::Train => ends.train_op(&task.minimize(Adagrad::new(0.1), &loss)?),
///         ModeKey::Evaluate => ends,
///     })
/// }
/// ```
///
/// # Errors
/// If the training keeps no checkpoints, or the model has no training operation; if it lacks the
/// accuracy that is to end the training; any error of a step; if the evaluator's chief is gone, or
/// it has found no whole checkpoint.
pub async fn train_and_evaluate(
    task: &Task,
    model: impl Fn(&Graph, ModeKey) -> Result<EstimatorSpec, GraphError>,
    train: TrainSpec,
    evaluate: EvalSpec,
) -> Result<()> {
    match task.role() {
        Role::ParameterServer | Role::Helper => task.join().await,
        Role::Worker => run_worker(task, &model, train, evaluate).await,
        Role::Evaluator => evaluator(task, &model, evaluate).await?.run().await,
    }
}

/// The evaluator of the model in a graph of its own, all of it on this task.
async fn evaluator(
    task: &Task,
    model: &impl Fn(&Graph, ModeKey) -> Result<EstimatorSpec, GraphError>,
    spec: EvalSpec,
) -> Result<Evaluator> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let target = task.run_settings().evaluation_master.clone();
    let device = place(&target.unwrap_or_else(|| task.target()));
    let ends = g.with_device(&device, |g| model(g, ModeKey::Evaluate))?;
    Evaluator::open(task, (g, ends), spec).await
}

/// A worker's part.
async fn run_worker(
    task: &Task,
    model: &impl Fn(&Graph, ModeKey) -> Result<EstimatorSpec, GraphError>,
    train: TrainSpec,
    evaluate: EvalSpec,
) -> Result<()> {
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let ends = g.with_device_fn(setter, |g| model(g, ModeKey::Train))?;
    let checkpointing = checkpointing(task)?;
    let mut builder = MonitoredSession::builder(task, g).checkpointing(checkpointing);
    builder = builder.scaffold(ends.scaffold.clone()).hooks(train.hooks);
    if let Some(config) = task.run_config() {
        let standard = SessionOptions {
            device_filters: config.device_filters(),
            allow_soft_placement: true,
            ..SessionOptions::default()
        };
        builder = builder.config(task.run_settings().session_options(standard));
    }
    if let Some(steps) = train.max_steps {
        builder = builder.hook(StopAtStep::last_step(steps));
    }
    let is_alone = task.cluster().workers().nth(1).is_none();
    let own = match task.cluster().evaluator() {
        None if is_alone => Some(evaluator(task, model, evaluate).await?),
        _ => None,
    };
    let mut training = Training { ends, input: train.input, evaluator: own };
    if training.evaluator.is_some() {
        task.server().watch_checkpoints(task.name());
    }
    let mut session = builder.open().await?;
    let trained = training.run(task, &mut session).await;
    session.close_after(trained).await?;
    match &mut training.evaluator {
        Some(evaluator) => evaluator.look().await,
        None => Ok(()),
    }
}

/// A worker's training loop.
struct Training {
    ends: EstimatorSpec,
    input: Option<TrainInput>,
    /// Measures between two steps, if the worker is alone.
    evaluator: Option<Evaluator>,
}

impl Training {
    async fn run(&mut self, task: &Task, session: &mut MonitoredSession) -> Result<()> {
        let mut seen = task.server().training().news.count();
        while !session.should_stop() {
            self.step(task, session).await?;
            let news = task.server().training().news.count();
            if let Some(evaluator) = self.evaluator.as_mut().filter(|_| news != seen)
                && evaluator.is_due()
            {
                seen = news;
                evaluator.look().await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, task: &Task, session: &mut MonitoredSession) -> Result<()> {
        let (ends, input) = (&self.ends, &mut self.input);
        let Some(train_op) = &ends.train_op else {
            let message = "the model has no training operation; give `EstimatorSpec::train_op` in \
                           the phase `Train`";
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let mut run = session.run().target(train_op).fetch(&ends.loss);
        for update in &ends.updates {
            run = run.target(update);
        }
        let feeds = |batch: Batch| ends.feeds(batch).collect();
        let run = match input {
            Some(TrainInput::Read(input)) => run.feed_from(input, feeds),
            Some(TrainInput::Function(next)) => run.feed_with(move || next().map(feeds)),
            None => run.feed_with(move || task.next_batch().map(feeds)),
        };
        run.await.map(drop)
    }
}

/// The training's checkpoints: the scenario's, else in the settings' `model_dir`, else in that of
/// `TF_CONFIG`.
///
/// # Errors
/// If there is none of these, or it can't be opened.
pub(super) fn checkpointing(task: &Task) -> Result<Checkpointing> {
    if let Some(checkpointing) = task.checkpointing() {
        return Ok(checkpointing.clone());
    }
    let settings = task.run_settings();
    let of_environment = || task.run_config().and_then(RunConfig::model_dir);
    let Some(location) = settings.model_dir.as_deref().or_else(of_environment) else {
        let message = "an evaluator measures checkpoints, and the scenario keeps none; add \
                       `[checkpoint]`, or give a `model_dir`";
        return Err(Error::new(Code::FailedPrecondition, message));
    };
    task.checkpointing_at(location)
}
