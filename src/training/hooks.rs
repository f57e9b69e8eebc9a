//! Hooks: code that runs around the runs of a monitored session.
//!
//! | hook | in TensorFlow | does | differs |
//! |---|---|---|---|
//! | [`StopAtStep`] | `StopAtStepHook` | stops at a global step | takes no step where it was reached before |
//! | [`StopAtTime`] | | stops all workers when the time is up | |
//! | [`InMemoryEvaluator`] | `InMemoryEvaluatorHook` | measures the model on held-out samples | can stop all workers at an accuracy |
//! | [`CheckpointSaver`] | `CheckpointSaverHook` | writes checkpoints | whole steps; no shared file system |
//! | [`LoggingTensor`] | `LoggingTensorHook` | tells values in the log | lines can go elsewhere |
//! | [`StepCounter`] | `StepCounterHook` | tells the steps a second | |
//! | [`SummarySaver`] | `SummarySaverHook` | writes scalars for TensorBoard | takes outputs, not summary operations |
//! | [`NanTensor`] | `NanTensorHook` | ends a training whose loss is NaN | |
//! | [`GlobalStepWaiter`] | `GlobalStepWaiterHook` | lets a worker begin later | sees the end; waits in `open` |
//! | [`FinalOps`] | `FinalOpsHook` | evaluates outputs at the end | values are read through a handle |
//! | [`FeedFn`] | `FeedFnHook` | feeds every run | |
//! | [`SyncReplicasHook`] | `_SyncReplicasOptimizerHook` | drives [`SyncReplicas`](crate::optimizer::SyncReplicas) | |
//! | [`Profiler`] | `ProfilerHook` | writes timelines of runs | |
//!
//! "Every so many steps" and "every so often" are one argument, a [`SecondOrStepTimer`]; TensorFlow
//! has two, of which one must be given. A simulation's time is virtual: so are the steps a second,
//! and a repeated run writes the same files. If only shapes are computed, no loss is NaN and no
//! scalar is written.
//!
//! A hook sees the global step as the last train op left it, and has no fetch of its own for it:
//! runs that train nothing leave it as it is. [`MonitoredSession`](super::MonitoredSession) says
//! how the session itself differs: it is not retried for ever and never silently begun anew.

mod checkpoint_saver;
mod feed_fn;
mod final_ops;
mod global_step_waiter;
mod in_memory_evaluator;
mod logging_tensor;
mod nan_tensor;
mod profiler;
mod step_counter;
mod stop_at_step;
mod stop_at_time;
mod summary_saver;
mod sync_replicas;
mod timer;

use std::cell::Cell;
use std::future::{Future, ready};
use std::ops::Range;
use std::pin::Pin;

use crate::graph::{Graph, Output};
use crate::partition::Request;
use crate::runtime::{Code, Error, Result};
use crate::tensor::Tensor;
use crate::units::Time;

use super::record::StepStats;
use super::run_metadata::RunMetadata;
use super::session::{RequestedStep, Session};
use super::task::Task;

pub use super::run_options::{RunOptions, TraceLevel};
pub use checkpoint_saver::{CheckpointSaver, CheckpointSaverListener};
pub use feed_fn::FeedFn;
pub use final_ops::{FinalOps, FinalValues};
pub use global_step_waiter::GlobalStepWaiter;
pub use in_memory_evaluator::InMemoryEvaluator;
pub use logging_tensor::LoggingTensor;
pub use nan_tensor::NanTensor;
pub use profiler::Profiler;
pub use step_counter::StepCounter;
pub use stop_at_step::StopAtStep;
pub use stop_at_time::StopAtTime;
pub use summary_saver::SummarySaver;
pub use sync_replicas::SyncReplicasHook;
pub use timer::SecondOrStepTimer;

/// The work of a hook; the session waits for it.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Extends a monitored session (TensorFlow: `SessionRunHook`).
///
/// After an error that a new session can mend (a lost task), the session is replaced and the hook
/// is called again; any other error ends the run that the hook was called for.
#[expect(unused_variables, reason = "by itself a hook does nothing")]
pub trait Hook {
    /// The session is about to be created: the last time that operations can be added to the graph.
    ///
    /// # Errors
    /// If the hook can't do its work.
    fn begin(&mut self, task: &Task, graph: &Graph) -> Result<()> {
        Ok(())
    }

    /// A session is open and its variables have their values: the first one, or one in the place of
    /// a session that has lost a task.
    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(ready(Ok(())))
    }

    /// A run is about to begin: the hook adds its feeds and fetches. It is called again for the
    /// same run if the training has gone back to a checkpoint, or if a hook has lost the session.
    ///
    /// # Errors
    /// If the hook can't do its work.
    fn before_run(&mut self, context: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        Ok(())
    }

    /// A run has succeeded.
    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        Box::pin(ready(Ok(())))
    }

    /// The session ends in good order.
    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(ready(Ok(())))
    }
}

/// A hook's view of its session (TensorFlow: `SessionRunContext`).
pub struct HookContext<'a> {
    /// The task that trains.
    pub task: &'a Task,
    /// The session, for runs of the hook's own.
    pub session: &'a Session,
    /// The global step that was seen last.
    pub global_step: u64,
    /// The global step of the checkpoint, if the variables have just been restored from one.
    pub restored: Option<u64>,
    /// The global step at which the session's end began, once it has.
    pub(super) reached: Option<u64>,
    pub(super) stop: &'a Cell<bool>,
}

shown!(HookContext<'_>, global_step, restored);

impl HookContext<'_> {
    /// The time, by the clock that the task was handed.
    pub fn now(&self) -> Time {
        self.task.now()
    }

    /// Whether the training has gone back to a checkpoint since the session's end began: the steps
    /// after it are lost, so that this is not its end.
    pub(super) fn has_gone_back_at_its_end(&self) -> bool {
        self.reached.is_some_and(|reached| self.global_step < reached)
    }

    /// Stops the session after this run.
    pub fn request_stop(&self) {
        self.stop.set(true);
    }

    /// Whether the session is to stop.
    pub fn should_stop(&self) -> bool {
        self.stop.get() || self.task.is_training_over()
    }
}

/// A hook's additions to a run (TensorFlow: `SessionRunArgs`), and what the run is about to do.
pub struct RunArgs<'a> {
    pub(super) step: &'a mut RequestedStep,
    pub(super) options: &'a mut RunOptions,
    pub(super) is_training_step: bool,
}

shown!(RunArgs<'_>, is_training_step);

impl RunArgs<'_> {
    /// Adds a fetch of `output`. The hook gets its values in the order in which it asked for them.
    pub fn fetch(&mut self, output: &Output) {
        self.step.fetch(output);
    }

    /// Feeds `value` to `output`.
    ///
    /// # Errors
    /// If the program or another hook feeds it as well.
    pub fn feed(&mut self, output: &Output, value: impl Into<Tensor>) -> Result<()> {
        if self.step.request.feeds.contains(&output.edge()) {
            let message = format!(
                "`{}` is fed twice: by two hooks, or by a hook and the program",
                output.name()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.step.feed(output, value.into());
        Ok(())
    }

    /// Asks for options of the run.
    pub fn options(&mut self, options: RunOptions) {
        *self.options = self.options.merged(options);
    }

    /// The request so far: the program's part, and that of the hooks before this one.
    pub fn request(&self) -> &Request {
        &self.step.request
    }

    /// Whether the run is a training step.
    pub fn is_training_step(&self) -> bool {
        self.is_training_step
    }
}

/// The values of a run (TensorFlow: `SessionRunValues`).
pub struct RunValues<'a> {
    /// The hook's own fetches, in order.
    pub results: &'a [Tensor],
    /// The row of the training step, if the run was one.
    pub step: Option<&'a StepStats>,
    /// The options that the run was taken with.
    pub options: RunOptions,
    /// The time when the run was asked for, and the time when it was done.
    pub span: (Time, Time),
    /// The time of its kernels on this task, if any ran; as [`StepStats::computed`] has it.
    pub computed: Option<(Time, Time)>,
    /// When each operation ran, if the options asked for a trace.
    pub metadata: &'a RunMetadata,
}

shown!(RunValues<'_>, results);

/// The hooks of a session, and each hook's part of a run's fetches.
pub(super) struct Hooks {
    pub(super) list: Vec<Box<dyn Hook>>,
    /// For each hook, its fetches in the run under way.
    fetches: Vec<Range<usize>>,
}

impl Hooks {
    pub(super) fn new(list: Vec<Box<dyn Hook>>) -> Self {
        Self { list, fetches: Vec::new() }
    }

    pub(super) fn begin(&mut self, task: &Task, graph: &Graph) -> Result<()> {
        self.list.iter_mut().try_for_each(|hook| hook.begin(task, graph))
    }

    /// Lets each hook add to the run.
    pub(super) fn before_run(
        &mut self,
        context: &HookContext<'_>,
        mut run: RunArgs<'_>,
    ) -> Result<()> {
        self.fetches.clear();
        for hook in &mut self.list {
            let first = run.step.request.fetches.len();
            hook.before_run(context, &mut run)?;
            self.fetches.push(first..run.step.request.fetches.len());
        }
        Ok(())
    }

    /// The fetches of hook `index` among all of the run's.
    pub(super) fn own<'a>(&self, index: usize, fetched: &'a [Tensor]) -> &'a [Tensor] {
        &fetched[self.fetches[index].clone()]
    }
}
