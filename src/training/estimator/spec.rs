//! What `train_and_evaluate` is given: the ends of a model, how it is trained, how it is measured.

use std::path::PathBuf;
use std::time::Duration;

use crate::data::{Batch, DataError, Pipeline};
use crate::graph::{Output, Target};
use crate::optimizer::TrainOp;
use crate::runtime::Result;
use crate::tensor::{DType, Shape, Tensor};

use super::super::hooks::Hook;
use super::super::input::{Input, data_error};
use super::super::scaffold::Scaffold;
use super::super::task::Task;
use super::Exporter;

/// What a model is built for (TensorFlow: `tf.estimator.ModeKeys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeKey {
    /// To train it, as one of the workers: with a training operation.
    Train,
    /// To measure it: without one.
    Evaluate,
}

/// The ends of a model: what is fed, fetched and run (TensorFlow: `tf.estimator.EstimatorSpec`).
#[derive(Clone, Debug)]
pub struct EstimatorSpec {
    pub(in crate::training) features: Output,
    pub(in crate::training) labels: Output,
    pub(in crate::training) ids: Option<Output>,
    pub(in crate::training) loss: Output,
    pub(in crate::training) metrics: Vec<(String, Output)>,
    pub(in crate::training) train_op: Option<TrainOp>,
    pub(in crate::training) updates: Vec<Target>,
    pub(in crate::training) scaffold: Scaffold,
}

impl EstimatorSpec {
    /// A model that is fed `features` and `labels`, and whose mean loss over a batch is `loss`, a
    /// scalar of f32.
    pub fn new(features: &Output, labels: &Output, loss: &Output) -> Self {
        Self {
            features: features.clone(),
            labels: labels.clone(),
            ids: None,
            loss: loss.clone(),
            metrics: Vec::new(),
            train_op: None,
            updates: Vec::new(),
            scaffold: Scaffold::new(),
        }
    }

    /// Feeds `ids` the numbers of the features of sparse samples.
    #[must_use]
    pub fn ids(mut self, ids: &Output) -> Self {
        self.ids = Some(ids.clone());
        self
    }

    /// Measures `value`, the mean over a batch, a scalar of f32, under `name` (TensorFlow:
    /// `eval_metric_ops`). That of the name `accuracy` is in the report.
    #[must_use]
    pub fn metric(mut self, name: &str, value: &Output) -> Self {
        self.metrics.push((name.to_owned(), value.clone()));
        self
    }

    /// Takes a training step with `train_op`.
    #[must_use]
    pub fn train_op(mut self, train_op: &TrainOp) -> Self {
        self.train_op = Some(train_op.clone());
        self
    }

    /// Runs `update` with each training step, besides.
    #[must_use]
    pub fn update(mut self, update: &Target) -> Self {
        self.updates.push(update.clone());
        self
    }

    /// Makes the model ready with `scaffold` (TensorFlow: `EstimatorSpec(scaffold=…)`).
    ///
    /// Where a model is measured, [`Scaffold::saver`] gives the names of its variables in
    /// checkpoints; variables that it does not list have their first values. Its `init_op`,
    /// `init_fn` and `ready_op` are for training only. Where a model is trained, `saver` says what
    /// checkpoints hold: give one that reads averages in [`ModeKey::Evaluate`] alone.
    ///
    /// ```
    /// # use trainyard::prelude::*;
    /// # use trainyard::training::{EstimatorSpec, ModeKey, Scaffold};
    /// /// Measures with the averages of the variables.
    /// fn averaged(g: &Graph, mode: ModeKey, ends: EstimatorSpec) -> EstimatorSpec {
    ///     if mode == ModeKey::Train {
    ///         return ends;
    ///     }
    ///     let averages = ExponentialMovingAverage::new(0.99);
    ///     ends.scaffold(Scaffold::new().saver(averages.variables_to_restore(g)))
    /// }
    /// ```
    #[must_use]
    pub fn scaffold(mut self, scaffold: Scaffold) -> Self {
        self.scaffold = scaffold;
        self
    }

    /// The placeholders that a batch feeds.
    pub(in crate::training) fn fed(&self) -> impl Iterator<Item = &Output> {
        [&self.features, &self.labels].into_iter().chain(&self.ids)
    }

    /// The parts of a batch, each with the placeholder that it feeds.
    pub(in crate::training) fn feeds(
        &self,
        batch: Batch,
    ) -> impl Iterator<Item = (Output, Tensor)> + use<> {
        let of = |place: &Output, value: Tensor| (place.clone(), fitted(value, place));
        let always = [of(&self.features, batch.features), of(&self.labels, batch.labels)];
        always.into_iter().chain(self.ids.clone().zip(batch.ids))
    }
}

/// `value`, a row a sample, as `place` takes it: images in their dimensions, labels as i64.
fn fitted(value: Tensor, place: &Output) -> Tensor {
    let wanted = place.tensor_type();
    let value = match (value.dtype(), wanted.dtype) {
        (DType::I32, DType::I64) if value.is_hollow() => Tensor::hollow(DType::I64, value.shape()),
        (DType::I32, DType::I64) => {
            Tensor::new(value.shape(), &value.integers()).expect("there are as many")
        }
        _ => value,
    };
    let rows = value.shape().dims().first().copied();
    let dims = std::iter::once(rows).chain(wanted.shape.dims().iter().skip(1).copied());
    match dims.collect::<Option<Vec<usize>>>().map(|dims| Shape::new(&dims)) {
        Some(shape) if shape.elements() == value.shape().elements() => value.reshaped(shape),
        _ => value, // the step says what does not fit
    }
}

/// The source of a training's batches, in place of the task's share of the scenario's data.
pub(super) enum TrainInput {
    Function(Box<dyn FnMut() -> Result<Batch>>),
    Read(Input<Batch>),
}

/// How a model is trained (TensorFlow: `tf.estimator.TrainSpec`).
#[derive(Default)]
pub struct TrainSpec {
    pub(super) max_steps: Option<u64>,
    pub(super) hooks: Vec<Box<dyn Hook>>,
    pub(super) input: Option<TrainInput>,
}

shown!(TrainSpec, max_steps);

impl TrainSpec {
    /// Trains on the task's share of the scenario's data until a hook stops it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trains up to the global step `steps`.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Adds a hook of the training's session.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Takes each batch from `input`, which ends the training by an error of the code `OutOfRange`.
    #[must_use]
    pub fn input(mut self, input: impl FnMut() -> Result<Batch> + 'static) -> Self {
        self.input = Some(TrainInput::Function(Box::new(input)));
        self
    }

    /// Takes each batch from `input`, a [`Task::input`], whose position is in checkpoints. The
    /// training ends with it.
    #[must_use]
    pub fn input_from(mut self, input: Input<Batch>) -> Self {
        self.input = Some(TrainInput::Read(input));
        self
    }
}

pub(in crate::training) type EvalInput =
    Box<dyn Fn(&Task) -> Result<Box<dyn Iterator<Item = Result<Batch>>>>>;

/// How, and how often, a model is measured (TensorFlow: `tf.estimator.EvalSpec`).
pub struct EvalSpec {
    pub(in crate::training) steps: Option<u64>,
    pub(in crate::training) start_delay: Duration,
    pub(in crate::training) throttle: Duration,
    pub(in crate::training) input: EvalInput,
    pub(in crate::training) exporters: Vec<Box<dyn Exporter>>,
    pub(in crate::training) summary_dir: Option<PathBuf>,
    pub(in crate::training) target: Option<f64>,
    /// The step at which an evaluator ends that no chief tells of the end.
    pub(in crate::training) last_step: Option<u64>,
}

shown!(EvalSpec, steps, start_delay, throttle, target);

impl Default for EvalSpec {
    /// As [`EvalSpec::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl EvalSpec {
    /// Measures on up to 100 batches, 120 seconds after the start and then no more often than every
    /// 600 seconds, as TensorFlow's. The input is the test split, in one batch.
    pub fn new() -> Self {
        Self {
            steps: Some(100),
            start_delay: Duration::from_secs(120),
            throttle: Duration::from_secs(600),
            input: Box::new(|task| Ok(Box::new(std::iter::once(Ok(task.dataset()?.test.whole()))))),
            exporters: Vec::new(),
            summary_dir: None,
            target: None,
            last_step: None,
        }
    }

    /// The same with the times and the last step of the task's scenario.
    pub fn of(task: &Task) -> Self {
        let settings = task.settings();
        Self { last_step: settings.stop.steps, ..Self::new() }
            .start_delay(settings.evaluator.start_delay)
            .throttle(settings.evaluator.throttle)
    }

    /// Measures on up to `steps` batches; `None` for all that the input has.
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.steps = steps.into();
        self
    }

    /// Begins so long after the task.
    #[must_use]
    pub fn start_delay(mut self, delay: Duration) -> Self {
        self.start_delay = delay;
        self
    }

    /// Leaves at least so much time between the beginnings of two measurements. The last checkpoint
    /// is measured at once.
    #[must_use]
    pub fn throttle(mut self, throttle: Duration) -> Self {
        self.throttle = throttle;
        self
    }

    /// Takes the batches of each measurement from `input`. A mean over batches counts each by its
    /// number of samples; TensorFlow's loss counts each batch alike.
    #[must_use]
    pub fn input<I>(mut self, input: impl Fn(&Task) -> Result<I> + 'static) -> Self
    where
        I: Iterator<Item = Batch> + 'static,
    {
        self.input = Box::new(move |task| Ok(Box::new(input(task)?.map(Ok))));
        self
    }

    /// Takes the batches of each measurement from `pipeline`, from the first one on. One that can't
    /// be read ends the evaluator with its error.
    #[must_use]
    pub fn input_from(mut self, pipeline: Pipeline<Batch>) -> Self {
        self.input = Box::new(move |_| {
            let failed = |error: DataError| data_error("the input of the evaluation", &error);
            let batches = pipeline.iter().map_err(failed)?;
            Ok(Box::new(batches.map(move |batch| batch.map_err(failed))))
        });
        self
    }

    /// Exports measured checkpoints.
    #[must_use]
    pub fn exporter(mut self, exporter: impl Exporter + 'static) -> Self {
        self.exporters.push(Box::new(exporter));
        self
    }

    /// Writes the loss and the metrics as events into `folder`, for TensorBoard.
    #[must_use]
    pub fn summary_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.summary_dir = Some(folder.into());
        self
    }

    /// Ends the training of all workers once the metric `accuracy` is `target` or more. A model
    /// without that metric is refused when the evaluator begins.
    #[must_use]
    pub fn stop_at_accuracy(mut self, target: impl Into<Option<f64>>) -> Self {
        self.target = target.into();
        self
    }

    /// Ends at a checkpoint of the global step `step` or later where no chief tells of the end: an
    /// evaluator that the training's cluster does not list.
    #[must_use]
    pub fn last_step(mut self, step: impl Into<Option<u64>>) -> Self {
        self.last_step = step.into();
        self
    }
}

/// A measured checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The checkpoint's global step.
    pub global_step: u64,
    /// The mean loss.
    pub loss: f64,
    /// The metrics by name, in the model's order.
    pub metrics: Vec<(String, f64)>,
}

impl Evaluated {
    /// The metric called `name`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}
