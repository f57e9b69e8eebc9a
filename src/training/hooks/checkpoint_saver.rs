//! `CheckpointSaver`: writes checkpoints as the training goes on.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, Output, Target, Variable, VariablePart};
use crate::optimizer::{ExponentialMovingAverage, LocalSgd};
use crate::runtime::{Code, Error, NOTICE, Result};
use crate::sync::Leaving;

use super::super::checkpointing::{Checkpointing, Consistency};
use super::super::checkpoints::{Checkpoints, part_as_slice};
use super::super::own_values::Gathering;
use super::super::record::{Fact, FailedCheckpoint};
use super::super::recovery::is_mendable;
use super::super::scaffold::SavedNames;
use super::super::task::Task;
use super::{Hook, HookContext, HookFuture, RunValues, SecondOrStepTimer};
use crate::checkpoint::{SavedVariable, Shard, Snapshot};
use crate::units::Time;

/// Writes a checkpoint when a session begins, every so often, and at the end (TensorFlow:
/// `CheckpointSaverHook`).
///
/// It runs on the chief, and the parameter servers send it their variables: no shared file system
/// is needed. If a checkpoint can't be written, that is in the log and in the report, and the
/// training goes on; at the end of the training it is an error, after all other hooks have ended.
/// A store that has not answered for as long as a lost task has to come back (`network.recovery`)
/// counts as failed, too; no other checkpoint is begun until it answers.
pub struct CheckpointSaver {
    checkpoints: Checkpoints,
    timer: SecondOrStepTimer,
    listeners: Vec<Box<dyn CheckpointSaverListener>>,
    variables: Vec<Saving>,
    step: Option<Output>,
    /// The global step, read while others go on.
    reached: Option<Output>,
    /// Lifts the fence behind which the variables are read. None if no worker has to be held.
    lift_fence: Option<Target>,
    consistency: Consistency,
    names: SavedNames,
    last_saved: Option<u64>,
    /// The step of the checkpoint that was begun last, whether it could be saved or not.
    begun: u64,
    /// When it was last told that no checkpoint is begun, since the store does not answer.
    told_of_hang: Option<Time>,
}

shown!(CheckpointSaver, timer, last_saved);

/// A variable to be saved.
struct Saving {
    name: String,
    read: Output,
    /// The task that it is on.
    task: String,
    /// Its place in the whole, if the variable is one part of a partitioned one.
    part: Option<VariablePart>,
    /// Whether it is of the model, not beside one of its variables.
    is_of_model: bool,
}

/// Is notified of checkpoints (TensorFlow: `CheckpointSaverListener`).
pub trait CheckpointSaverListener {
    /// The session is about to be created.
    fn begin(&mut self) {}

    /// The variables are about to be read.
    fn before_save(&mut self, global_step: u64);

    /// The variables are saved. Returns whether the training is to stop.
    fn after_save(&mut self, global_step: u64) -> bool;

    /// The training has ended, and its last checkpoint is written.
    #[expect(unused_variables, reason = "by itself a listener does nothing")]
    fn end(&mut self, global_step: u64) {}
}

impl CheckpointSaver {
    /// A saver with the settings of `checkpointing`.
    pub fn new(checkpointing: &Checkpointing) -> Self {
        Self::of(Checkpoints::new(checkpointing), checkpointing, SavedNames::own())
    }

    /// A saver to `checkpoints`, which already knows the damaged ones among them.
    pub(in crate::training) fn of(
        checkpoints: Checkpoints,
        checkpointing: &Checkpointing,
        names: SavedNames,
    ) -> Self {
        Self {
            names,
            checkpoints,
            timer: checkpointing.every,
            listeners: Vec::new(),
            variables: Vec::new(),
            step: None,
            reached: None,
            lift_fence: None,
            consistency: checkpointing.consistency,
            last_saved: None,
            begun: 0,
            told_of_hang: None,
        }
    }

    /// Notifies `listener` of every checkpoint.
    #[must_use]
    pub fn listener(mut self, listener: impl CheckpointSaverListener + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// Saves at `global_step`, or at the later step that the training has reached when the
    /// variables are read.
    async fn save(&mut self, context: &HookContext<'_>) -> Result<()> {
        let (known, began) = (context.global_step, context.now());
        self.begun = known;
        self.listeners.iter_mut().for_each(|listener| listener.before_save(known));
        let read = self.read_whole_steps(context).await;
        if read.as_ref().err().is_none_or(|error| !is_mendable(error)) {
            self.timer.triggered(known, began); // else it is read again in a new session
        }
        let snapshot = read?;
        let step = snapshot.global_step;
        self.begun = step;
        let saved = self.checkpoints.save(context.task, snapshot).await?;
        if saved.is_new {
            tracing::info!(global_step = step, bytes = saved.bytes, "saved {}", saved.name);
        }
        for unfinished in &saved.unfinished {
            tracing::warn!("after the checkpoint: {unfinished}");
        }
        self.note_saved(context, step);
        context.task.server().tell_of_checkpoint();
        for listener in &mut self.listeners {
            if listener.after_save(step) {
                context.request_stop();
            }
        }
        Ok(())
    }

    /// The checkpoint of `step` is the last.
    fn note_saved(&mut self, context: &HookContext<'_>, step: u64) {
        self.last_saved = Some(step);
        context.task.record(Fact::Saved { global_step: step, at: context.now() });
    }

    /// Reads the variables: while every other worker is held between two steps or, if they need not
    /// be consistent, without holding anyone.
    async fn read_whole_steps(&self, context: &HookContext<'_>) -> Result<Snapshot> {
        let snapshot = self.read(context).await;
        let own_values = match &snapshot {
            Ok(snapshot) => Some(Gathering::begin(context.task, snapshot).await),
            Err(_) => None,
        };
        if let Some(lift) = &self.lift_fence {
            let lifted = context.session.run().target(lift).await;
            snapshot.as_ref().map_err(Error::clone)?;
            lifted?;
        }
        let mut snapshot = snapshot?;
        if let Some(own_values) = own_values {
            let graph = context.session.graph();
            snapshot.shards.extend(own_values.end(context.task, graph, self.consistency).await);
        }
        Ok(snapshot)
    }

    /// Reads the variables at one moment, on each task in the order of their names.
    async fn read(&self, context: &HookContext<'_>) -> Result<Snapshot> {
        let step = self.step.as_ref().expect("a hook begins before it saves");
        let run = self
            .variables
            .iter()
            .fold(context.session.run(), |run, variable| run.fetch(&variable.read));
        let values = run.fetch(step).await?;
        let mut shards: BTreeMap<&str, Vec<SavedVariable>> = BTreeMap::new();
        for (index, variable) in self.variables.iter().enumerate() {
            if values[index].is_hollow() {
                let message = "only shapes are computed: there are no values to save; leave the \
                               checkpoints out";
                return Err(Error::new(Code::InvalidArgument, message));
            }
            let slice = variable.part.as_ref().and_then(part_as_slice);
            let is_of_model = variable.is_of_model;
            let (name, value) = (variable.name.clone(), values[index].clone());
            let saved = SavedVariable { name, value, slice, is_of_model };
            shards.entry(&variable.task).or_default().push(saved);
        }
        let shard = |(task, variables): (&str, _)| Shard { task: task.to_owned(), variables };
        let global_step = values.scalar::<i64>(self.variables.len())?.max(0) as u64;
        Ok(Snapshot { global_step, shards: shards.into_iter().map(shard).collect() })
    }

    /// The global step that the training has reached; others may take further ones.
    async fn reached(&self, context: &HookContext<'_>) -> Result<u64> {
        let reached = self.reached.as_ref().expect("a hook begins before it ends");
        Ok(context.session.run().fetch(reached).await?.scalar::<i64>(0)?.max(0) as u64)
    }

    /// Saves as [`CheckpointSaver::save`]; the training goes on even if that fails. If the store
    /// still does not answer an earlier save, nobody is held for another one.
    async fn try_to_save(&mut self, context: &HookContext<'_>) -> Result<()> {
        if let Some(error) = self.checkpoints.hang(context.task) {
            self.timer.triggered(context.global_step, context.now());
            self.go_on_meanwhile(context, &error);
            return Ok(());
        }
        match self.save(context).await {
            Err(error) if is_of_store(&error) || error.code == Code::DeadlineExceeded => {
                go_on_without(context, self.begun, &error);
                Ok(())
            }
            saved => saved,
        }
    }

    /// A checkpoint is not begun, for `error`. There may be many: not all are told.
    fn go_on_meanwhile(&mut self, context: &HookContext<'_>, error: &Error) {
        let now = context.now();
        if self.told_of_hang.is_none_or(|told| now.since(told) >= NOTICE) {
            self.told_of_hang = Some(now);
            go_on_without(context, context.global_step, error);
        }
    }

    /// Saves when a training begins: a place that can't be written to is an error then, of the
    /// others, too, that train meanwhile. A chief that has come back before the first step goes on.
    async fn save_first(&mut self, context: &HookContext<'_>) -> Result<()> {
        match self.save(context).await {
            Err(error) if is_of_store(&error) => {
                let hangs = self.checkpoints.hang(context.task).is_some();
                if hangs || self.checkpoints.newest(context.task).await?.is_none() {
                    context.task.tell_of_failure(&error, true);
                    return Err(error);
                }
                go_on_without(context, self.begun, &error);
                Ok(())
            }
            saved => saved.inspect_err(|error| context.task.tell_of_failure(error, true)),
        }
    }
}

/// Whether a checkpoint could not be saved, and the variables are as they were.
fn is_of_store(error: &Error) -> bool {
    error.code.is_of_storage()
}

/// The checkpoint of step `global_step` can't be written, for `error`, and the training goes on.
fn go_on_without(context: &HookContext<'_>, global_step: u64, error: &Error) {
    tracing::error!(%error, "the checkpoint of step {global_step} can't be written; going on");
    note(context, global_step, error, false);
}

/// Notes in the training's record that a checkpoint could not be written.
fn note(context: &HookContext<'_>, global_step: u64, error: &Error, is_last: bool) {
    let failed = FailedCheckpoint { global_step, why: error.message.clone(), is_last };
    context.task.record(Fact::NotSaved(failed));
}

/// Whether the variable `name` is of the model, where `trained` are: one of these, an average, or
/// the center of copies that workers train.
fn is_of_model(name: &str, trained: &BTreeSet<String>) -> bool {
    let is_center = || LocalSgd::copies_of(name).is_some_and(|copies| trained.contains(copies));
    trained.contains(name) || ExponentialMovingAverage::is_average(name) || is_center()
}

impl Hook for CheckpointSaver {
    fn begin(&mut self, task: &Task, graph: &Graph) -> Result<()> {
        if graph.has_updates_without_chief() && self.consistency == Consistency::Consistent {
            tracing::info!(
                "checkpoints are fuzzy: with `replicas_to_aggregate` below `total_num_replicas`, \
                 updates go on while the chief saves"
            );
            self.consistency = Consistency::Fuzzy;
        }
        let others = task.replica().filter(|replica| replica.workers > 1);
        let held = others.filter(|_| self.consistency == Consistency::Consistent);
        let fence = held.map(|replica| graph.fence(replica)).transpose()?;
        self.lift_fence = held.map(|replica| graph.lift_fence(replica)).transpose()?;
        self.reached = Some(graph.global_step()?.read());
        let trained: BTreeSet<String> =
            graph.trainable_variables().iter().map(Variable::name).collect();
        let before: Vec<&Target> = fence.iter().collect();
        graph.with_control_dependencies(&before, |graph| {
            let saving = |(variable, _): (Variable, _)| {
                let name = self.names.of(&variable.name())?;
                let task =
                    variable.task().map_or_else(|| "any".to_owned(), |task| task.to_string());
                let (read, part) = (variable.read_again(), variable.part());
                let is_of_model = is_of_model(&variable.name(), &trained);
                Some(Saving { name, read, task, part, is_of_model })
            };
            self.variables = graph.initializers().into_iter().filter_map(saving).collect();
            self.step = Some(graph.global_step()?.read_again());
            Ok(())
        })?;
        self.listeners.iter_mut().for_each(|listener| listener.begin());
        Ok(())
    }

    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        if context.restored == Some(context.global_step) {
            self.timer.reset();
            self.note_saved(context, context.global_step);
            self.timer.triggered(context.global_step, context.now());
            return Box::pin(std::future::ready(Ok(())));
        }
        if self.last_saved.is_some() {
            // The session replaces another, in which a step failed: some variables may have the
            // step's update and others not.
            return Box::pin(std::future::ready(Ok(())));
        }
        self.timer.reset();
        if context.global_step > 0 {
            // The chief has come back to a training that goes on without any checkpoint, too.
            return Box::pin(self.try_to_save(context));
        }
        Box::pin(self.save_first(context))
    }

    fn after_run<'a>(
        &'a mut self,
        context: &'a HookContext<'_>,
        _: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        if !self.timer.should_trigger(context.global_step, context.now()) {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.try_to_save(context))
    }

    fn end<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(async move {
            // Others may have taken steps after the last one that the chief has seen.
            if self.last_saved != Some(self.reached(context).await?) {
                let saved = self.save(context).await;
                if let Err(error) = &saved
                    && is_of_store(error)
                // after any other one the end is tried again
                {
                    note(context, self.begun, error, true);
                }
                saved?;
            }
            let is_done = context.task.leaving(context.stop.get()) == Leaving::Done;
            if is_done && !context.has_gone_back_at_its_end() {
                self.checkpoints.note_end(context.task).await;
            }
            let last = self.last_saved.unwrap_or(context.global_step);
            self.listeners.iter_mut().for_each(|listener| listener.end(last));
            Ok(())
        })
    }
}
