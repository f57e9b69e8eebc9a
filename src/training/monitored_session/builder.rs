//! The builder of a monitored session.

mod hooks;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use crate::checkpoint::Stores;
use crate::cluster::{DeviceSpec, TaskName};
use crate::graph::{Graph, GraphError};
use crate::import::drawn;
use crate::runtime::{Result, ServerTarget, SessionOptions};
use crate::sync::Leaving;

use super::super::checkpointing::Checkpointing;
use super::super::checkpoints::Checkpoints;
use super::super::hooks::{Hook, SecondOrStepTimer};
use super::super::own_values::OwnVariables;
use super::super::positions::Positions;
use super::super::record::{Beginning, Fact};
use super::super::recovery::Tries;
use super::super::scaffold::Scaffold;
use super::super::session_creator::{Created, SessionCreator};
use super::super::task::Task;
use super::super::weights::last_updates;
use super::MonitoredSession;
use super::first::create;

/// The checkpoints that a session keeps.
#[derive(Clone)]
struct KeptCheckpoints {
    settings: Checkpointing,
    /// Their folder, if they are in one of this machine's: summaries go there, too.
    folder: Option<PathBuf>,
}

/// Builds a monitored session.
#[must_use = "a session is opened by `open`"]
pub struct Builder {
    task: Task,
    graph: Graph,
    scaffold: Scaffold,
    hooks: Vec<Box<dyn Hook>>,
    chief_only: Vec<Box<dyn Hook>>,
    checkpoints: Option<KeptCheckpoints>,
    /// The interval of checkpoints, in place of that of `checkpoints`, which may be given later.
    checkpoint_every: Option<SecondOrStepTimer>,
    summary_dir: Option<PathBuf>,
    save_summaries: SecondOrStepTimer,
    log_step_count: SecondOrStepTimer,
    save_graph_def: bool,
    session: SessionOptions,
    max_wait: Duration,
    stop_grace_period: Option<Duration>,
    /// The number of training steps that earlier sessions of the training have taken.
    steps_before: u64,
}

shown!(Builder, graph);

impl Builder {
    pub(super) fn new(task: &Task, graph: Graph) -> Self {
        let settings = task.run_settings();
        let of_scenario = task.checkpointing().cloned();
        Self {
            save_summaries: every_so_many(settings.save_summary_steps),
            log_step_count: every_so_many(settings.log_step_count_steps),
            save_graph_def: true,
            session: task.session_options(),
            checkpoints: of_scenario.map(|settings| KeptCheckpoints { settings, folder: None }),
            checkpoint_every: None,
            summary_dir: None,
            stop_grace_period: None,
            task: task.clone(),
            graph,
            scaffold: Scaffold::default(),
            hooks: Vec::new(),
            chief_only: Vec::new(),
            max_wait: task.patience().first,
            steps_before: 0,
        }
    }

    /// A builder of a session of `graph` beside this one's, whose steps the task `executor` takes.
    pub(in crate::training) fn of_executor(&self, executor: &TaskName, graph: Graph) -> Self {
        let task = self.task.with_executor(executor);
        let (session, checkpoints) = (self.session.clone(), self.checkpoints.clone());
        Self { session, checkpoints, max_wait: self.max_wait, ..Self::new(&task, graph) }
    }

    /// Numbers the worker's steps after those of an earlier session, which this one goes on from.
    pub(in crate::training) fn after_steps(mut self, steps_before: u64) -> Self {
        self.steps_before = steps_before;
        self
    }

    /// Adds a hook; hooks run in the order in which they were added.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Adds hooks, in their order.
    pub fn hooks(mut self, hooks: impl IntoIterator<Item = Box<dyn Hook>>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// Adds a hook that runs only on the chief, before the others.
    pub fn chief_only_hook(mut self, hook: impl Hook + 'static) -> Self {
        self.chief_only.push(Box::new(hook));
        self
    }

    /// Makes the model ready with `scaffold`.
    pub fn scaffold(mut self, scaffold: Scaffold) -> Self {
        self.scaffold = scaffold;
        self
    }

    /// Connects to the server at `target` instead of the task's own.
    pub fn master(mut self, target: &ServerTarget) -> Self {
        self.task = self.task.with_target(target);
        self
    }

    /// Whether this worker is the chief, if it is not for the cluster to say. There must be one.
    pub fn is_chief(mut self, is_chief: bool) -> Self {
        self.task = self.task.as_chief(is_chief);
        self
    }

    /// Opens sessions with `options`.
    pub fn config(mut self, options: SessionOptions) -> Self {
        self.session = options;
        self
    }

    /// Writes a checkpoint every `steps` global steps, where it keeps any; 0 writes none at all.
    pub fn save_checkpoint_steps(mut self, steps: u64) -> Self {
        self.checkpoint_every = Some(SecondOrStepTimer::every_steps_but_0(steps));
        self
    }

    /// Writes a checkpoint every `seconds`, where it keeps any; 0 writes none at all.
    pub fn save_checkpoint_secs(mut self, seconds: u64) -> Self {
        self.checkpoint_every = Some(SecondOrStepTimer::every_seconds_but_0(seconds));
        self
    }

    /// Writes the scaffold's summaries, the steps a second and the graph into `folder`, on the
    /// chief.
    /// Default: the folder of the checkpoints, if they are kept in one and this is no simulation;
    /// else nothing is written.
    pub fn summary_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.summary_dir = Some(folder.into());
        self
    }

    /// Writes the scaffold's summaries every `steps` global steps, 100 by default; 0 or `None` does
    /// not.
    pub fn save_summaries_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.save_summaries = every_so_many(steps.into());
        self
    }

    /// Writes the scaffold's summaries every `seconds`; 0 does not.
    pub fn save_summaries_secs(mut self, seconds: u64) -> Self {
        self.save_summaries = SecondOrStepTimer::every_seconds_but_0(seconds);
        self
    }

    /// Tells the steps a second every `steps` global steps, 100 by default; 0 or `None` does not.
    /// Nothing is told without a folder for summaries or checkpoints, as in TensorFlow.
    pub fn log_step_count_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.log_step_count = every_so_many(steps.into());
        self
    }

    /// Whether the graph is written with the summaries, where TensorBoard draws it; it is by
    /// default. TensorFlow writes `graph.pbtxt` beside the checkpoints, too.
    pub fn save_graph_def(mut self, saves: bool) -> Self {
        self.save_graph_def = saves;
        self
    }

    /// Sets how long the hooks may take to end, all together, and how long the chief then waits for
    /// the last steps of others before it reads the weights. TensorFlow's stops its threads so;
    /// here what runs beside a training belongs to hooks.
    pub fn stop_grace_period(mut self, period: Duration) -> Self {
        self.stop_grace_period = Some(period);
        self
    }

    /// Keeps checkpoints in a folder, or at a URL such as `s3://bucket/run-7`. The chief begins at
    /// the newest complete one, and writes one every 600 seconds, or as often as the task's
    /// [`RunSettings`](crate::training::RunSettings) say, at the beginning and at the end.
    ///
    /// Default: the [checkpoints of the scenario](Task::checkpointing), if it has any. A program
    /// that trains twice needs another place for one of the trainings, or
    /// [none](Self::without_checkpoints): a checkpoint of one graph does not fit another, and the
    /// same graph would go on where its first training has ended.
    ///
    /// # Errors
    /// If `location` can't be opened as a store.
    pub fn checkpoint_dir(mut self, location: &str) -> Result<Self> {
        let settings = self.task.checkpointing_at(location)?;
        let is_folder = matches!(self.task.stores(), Stores::Lasting) && !location.contains("://");
        let folder = is_folder.then(|| PathBuf::from(location));
        self.checkpoints = Some(KeptCheckpoints { settings, folder });
        Ok(self)
    }

    /// Keeps checkpoints with the settings of `checkpointing`, such as those of
    /// [`Task::checkpointing_at`], in place of the scenario's.
    pub fn checkpointing(mut self, checkpointing: Checkpointing) -> Self {
        self.checkpoints = Some(KeptCheckpoints { settings: checkpointing, folder: None });
        self
    }

    /// Neither restores checkpoints nor writes any (TensorFlow: `checkpoint_dir=None`).
    pub fn without_checkpoints(mut self) -> Self {
        self.checkpoints = None;
        self
    }

    /// Sets how long a worker waits for the chief to make the model ready.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Opens the session: when it returns, all variables have their values. Variables that are
    /// added to the graph later are not initialised, saved or restored (TensorFlow refuses any
    /// addition to the graph then).
    ///
    /// # Errors
    /// If the graph has a mistake, a training step of it was built for another coordination than
    /// the run's, or does not count a [`Task::input`] whose position is to be in checkpoints; if a
    /// hook fails, the checkpoint does not fit the graph, or a task fails.
    pub async fn open(self) -> Result<MonitoredSession> {
        let task = self.task.clone();
        let opened = self.open_at_first().await;
        // Who has met it would take it for lost, and wait for it once more at the end.
        if opened.is_err() && task.server().training().is_stop_requested() {
            task.leave(Leaving::Stopped);
        }
        opened
    }

    async fn open_at_first(mut self) -> Result<MonitoredSession> {
        if let Some(replica) = self.task.replica() {
            self.graph.join_training(replica)?;
        }
        self.begin_training()?;
        let checkpoints = self.keep_checkpoints()?;
        let writer = self.summary_writer()?;
        let mut hooks = self.assemble_hooks(checkpoints.as_ref(), writer.as_ref())?;
        hooks.begin(&self.task, &self.graph)?;
        let (task, graph) = (self.task, self.graph);
        let positions = Positions::new(&task, &graph);
        let own_variables = match &checkpoints {
            Some(_) if !task.has_executor() => OwnVariables::new(&task, &graph)?,
            _ => None,
        };
        let here = |helper: DeviceSpec| {
            graph.with_device(&helper.to_string(), |g| Ok(g.constant(0f32).target()))
        };
        let helpers = task.helping_devices().into_iter().map(here);
        let helpers = helpers.collect::<std::result::Result<_, GraphError>>()?;
        let last_updates = if task.is_chief() { last_updates(&graph)? } else { Vec::new() };
        let scaffold = self.scaffold.finalize(&graph, checkpoints.is_some())?;
        if let Some(writer) = writer.filter(|_| self.save_graph_def) {
            writer.graph(&graph)?;
        }
        let creator = SessionCreator {
            task: task.clone(),
            graph,
            scaffold,
            helpers,
            options: self.session,
            checkpoints,
            max_wait: self.max_wait,
            resets: Cell::new(task.server().training().resets()),
        };
        let mut tries = Tries::default();
        let Created { session, global_step, restored } =
            create(&task, &creator, &mut tries).await?;
        task.seek_batches(global_step);
        let mut opened = MonitoredSession {
            training: session.number(),
            task,
            creator,
            session,
            hooks,
            positions,
            own_variables,
            last_updates,
            begun: 0,
            given_up: Vec::new(),
            local_step: self.steps_before,
            steps_in_session: 0,
            other_runs: 0,
            global_step,
            restored,
            went_back_after: None,
            reached: None,
            stop_requested: Cell::new(false),
            stop_grace_period: self.stop_grace_period,
            tries,
        };
        match opened.begin_at(global_step).await {
            Err(error) if opened.can_recover_from(&error) => {
                opened.recover(error).await.map(drop)?;
            }
            told => told?,
        }
        opened.task.trains();
        Ok(opened)
    }

    /// The checkpoints that the session keeps, if it does.
    ///
    /// # Errors
    /// If they would lack the position of an input.
    fn keep_checkpoints(&mut self) -> Result<Option<Checkpoints>> {
        if self.task.has_executor() {
            return Ok(self.checkpoints.as_ref().map(|kept| Checkpoints::new(&kept.settings)));
        }
        let Some(kept) = &mut self.checkpoints else {
            self.task.keeps(None); // those of an earlier session say nothing of this one
            return Ok(None);
        };
        kept.settings.every = self.checkpoint_every.unwrap_or(kept.settings.every);
        self.task.keeps(Some(&kept.settings));
        if kept.settings.every.acts() {
            self.task.check_inputs(&self.graph)?;
        }
        Ok(Some(Checkpoints::new(&kept.settings)))
    }

    /// Tells the server, and as the chief the recorder, that a training begins.
    fn begin_training(&self) -> Result<()> {
        if self.task.has_executor() {
            return Ok(()); // the chief's session has begun
        }
        self.task.server().training().begin();
        if self.task.is_chief() {
            let variables = self.graph.trainable_variables();
            let sizes = variables.iter().map(|variable| variable.spec().shape.elements() as u64);
            let graph = match self.task.draws_graph() {
                true => drawn(&self.graph)?,
                false => self.graph.snapshot().map(|_| Vec::new())?, // a mistake is told even so
            };
            let beginning = Beginning { parameters: sizes.sum(), graph };
            self.task.record(Fact::Began(beginning));
        }
        Ok(())
    }
}

/// Every `steps` global steps; never for 0 or none.
fn every_so_many(steps: Option<u64>) -> SecondOrStepTimer {
    SecondOrStepTimer::every_steps_but_0(steps.unwrap_or(0))
}
