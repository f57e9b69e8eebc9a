//! `Task`: a program's handle to its place in the cluster, its settings and its data.

mod announcements;
mod data;
mod executor;
mod minimize;
mod time;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::{SavedVariable, Stores};
use crate::cluster::{ClusterSpec, DeviceName, DeviceSpec, Role, RunConfig, TaskName};
use crate::graph::Replica;
use crate::runtime::{Code, Error, Patience, Result, Server, ServerTarget, SessionOptions};
use crate::sync::Mode;

use super::checkpointing::Checkpointing;
use super::input::Position;
use super::record::Fact;
use super::recording::SharedRecording;
use super::run_settings::RunSettings;
use super::settings::Settings;
use crate::data::Dataset;
use data::Data;

/// One task of a cluster, as its program sees it. Cheap to clone.
#[derive(Clone)]
pub struct Task {
    inner: Rc<Inner>,
    own: Rc<Own>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", self.name()).finish_non_exhaustive()
    }
}

/// What a program has changed of its task.
#[derive(Clone, Default)]
struct Own {
    settings: RunSettings,
    target: Option<ServerTarget>,
    is_chief: Option<bool>,
    /// The task that takes the steps, for this one.
    executor: Option<TaskName>,
    /// Whether nobody is to see the graph.
    is_undrawn: bool,
    /// Keeps the weights at the end, if somebody wants them.
    keeper: Option<SharedRecording>,
}

/// The parts of a task, put together in each world by the code that starts the program.
pub struct TaskParts {
    /// The task's server, started.
    pub server: Rc<Server>,
    /// The mode that coordinates the workers.
    pub mode: Mode,
    /// The seed of the run.
    pub seed: u64,
    /// The name of a folder of the run's own: no other run of the scenario and no other seed has
    /// the same.
    pub run_folder: String,
    /// The training's settings.
    pub settings: Settings,
    /// The training's data; none for a model without data.
    pub dataset: Option<Arc<Dataset>>,
    /// The training's checkpoints, if it keeps any.
    pub checkpointing: Option<Checkpointing>,
    /// The stores of checkpoints that the program keeps by itself.
    pub stores: Stores,
    /// Receives what the task records of its training.
    pub recorder: Rc<dyn Fn(Fact)>,
    /// What the environment says of the task; none for what follows from its server.
    pub config: Option<RunConfig>,
    /// The arguments of the program.
    pub arguments: Vec<String>,
}

shown!(TaskParts, mode, seed, arguments);

struct Inner {
    parts: TaskParts,
    /// The checkpoints that the program's training keeps.
    kept: RefCell<Option<Checkpointing>>,
    /// Whether the task has taken part in its training.
    has_trained: Cell<bool>,
    /// Whether its program has asked for the server that sessions connect to.
    has_used_sessions: Cell<bool>,
    replica: Option<Replica>,
    data: RefCell<Option<Data>>,
    /// The inputs that the task's steps read, besides samples in memory. The program owns them:
    /// those of a training that is over are gone.
    inputs: RefCell<Vec<Weak<dyn Position>>>,
}

impl Task {
    /// A task of `parts`.
    ///
    /// # Errors
    /// If the data can't be divided among the workers.
    pub fn new(parts: TaskParts) -> Result<Self> {
        let cluster = &parts.server.server_def().cluster;
        let workers = cluster.num_workers();
        let of_worker = |worker| Replica { worker, workers, mode: parts.mode };
        let replica = cluster.worker_index(parts.server.task()).map(of_worker);
        let data = match (&parts.dataset, replica) {
            (Some(dataset), Some(replica)) => Some(Data::share(&parts, dataset, replica)?),
            _ => None,
        };
        parts.server.know_cluster();
        parts.server.training().expect_back_within(parts.settings.patience.recovery);
        parts.server.use_cores(parts.settings.num_cores);
        let inputs = match &data {
            Some(Data::Streamed(input)) => vec![Rc::downgrade(&input.position())],
            _ => Vec::new(),
        };
        let (data, inputs) = (RefCell::new(data), RefCell::new(inputs));
        let kept = RefCell::new(parts.checkpointing.clone());
        let (has_trained, has_used_sessions) = (Cell::default(), Cell::default());
        let inner = Inner { parts, kept, has_trained, has_used_sessions, replica, data, inputs };
        Ok(Self { inner: Rc::new(inner), own: Rc::default() })
    }

    /// The same task with `settings` for its sessions.
    #[must_use]
    pub fn with_settings(&self, settings: RunSettings) -> Self {
        let cores = settings.num_cores.or(self.settings().num_cores);
        self.inner.parts.server.use_cores(cores);
        self.with(|own| own.settings = settings)
    }

    /// The defaults of the task's sessions.
    pub fn run_settings(&self) -> &RunSettings {
        &self.own.settings
    }

    /// What the environment says of the task, if it was given anything: in a simulation, nothing.
    pub fn run_config(&self) -> Option<&RunConfig> {
        self.inner.parts.config.as_ref()
    }

    /// What its training was told, in short: the same in all its lives, and on all its tasks.
    pub(super) fn fingerprint(&self) -> String {
        let TaskParts { mode, seed, run_folder, settings, .. } = &self.inner.parts;
        let Settings { model, batch, optimizer, stop, .. } = settings;
        let told = format!("{:?}", (mode, seed, run_folder, model.name(), batch, optimizer, stop));
        format!("{:016x}", xxh3_64(told.as_bytes()))
    }

    /// The arguments that the program was given, after `--` on the command line (TensorFlow's
    /// example trainers parse what is left of it themselves).
    pub fn arguments(&self) -> &[String] {
        &self.inner.parts.arguments
    }

    /// The same task, whose sessions connect to `target`.
    pub(super) fn with_target(&self, target: &ServerTarget) -> Self {
        self.with(|own| own.target = Some(target.clone()))
    }

    /// The same task as the chief, or as another worker.
    pub(super) fn as_chief(&self, is_chief: bool) -> Self {
        self.with(|own| own.is_chief = Some(is_chief))
    }

    /// The same task, whose trainings record no graph: to draw a large one takes seconds.
    #[must_use]
    pub(crate) fn without_drawn_graph(&self) -> Self {
        self.with(|own| own.is_undrawn = true)
    }

    /// Whether its trainings record their graph.
    pub(super) fn draws_graph(&self) -> bool {
        !self.own.is_undrawn
    }

    /// The same task, whose trainings leave their weights in `keeper` when they end.
    #[must_use]
    pub(crate) fn keeping_weights_in(&self, keeper: &SharedRecording) -> Self {
        self.with(|own| own.keeper = Some(keeper.clone()))
    }

    /// Keeps `weights`, with which the training has ended, if somebody wants them.
    pub(super) fn keep_weights(&self, weights: impl FnOnce() -> Vec<SavedVariable>) {
        if let Some(keeper) = &self.own.keeper {
            keeper.keep_weights(weights());
        }
    }

    fn with(&self, change: impl FnOnce(&mut Own)) -> Self {
        let mut own = Own::clone(&self.own);
        change(&mut own);
        Self { inner: Rc::clone(&self.inner), own: Rc::new(own) }
    }

    /// The task's name.
    pub fn name(&self) -> &TaskName {
        self.inner.parts.server.task()
    }

    /// The task's job.
    pub fn job(&self) -> &str {
        self.name().job()
    }

    /// What the task does in the training, by its job and its place in its replica.
    pub fn role(&self) -> Role {
        self.cluster().role(self.name())
    }

    /// The task's index in the job.
    pub fn index(&self) -> u32 {
        self.name().index()
    }

    /// The cluster that the task belongs to.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.inner.parts.server.server_def().cluster
    }

    /// A device that stands for any device of this task.
    pub fn device(&self) -> DeviceSpec {
        DeviceSpec::of_task(self.name())
    }

    /// For each task of the replica that this one trains for, a device that stands for any of its
    /// devices: this task's, then those of its helpers.
    pub fn replica_devices(&self) -> Vec<DeviceSpec> {
        self.cluster().replica_of(self.name()).iter().map(DeviceSpec::of_task).collect()
    }

    /// The names of this task's devices, to place operations on one of them.
    pub fn devices(&self) -> impl Iterator<Item = DeviceName> {
        self.inner.parts.server.devices()
    }

    /// The server that sessions connect to: the task's own, unless its configuration names the
    /// master of another (TensorFlow: `RunConfig.master`).
    pub fn target(&self) -> ServerTarget {
        self.inner.has_used_sessions.set(true);
        let of_server = || self.inner.parts.server.session_target(self.patience());
        self.own.target.clone().unwrap_or_else(of_server)
    }

    /// Its replica, if the task trains.
    pub fn replica(&self) -> Option<Replica> {
        self.inner.replica
    }

    /// Whether it is the chief: the worker that initialises the variables and evaluates on the test
    /// split.
    pub fn is_chief(&self) -> bool {
        let is_first = || self.inner.replica.is_some_and(|replica| replica.worker == 0);
        self.own.is_chief.unwrap_or_else(is_first)
    }

    /// The seed of the run, unless the program's settings have another.
    pub fn seed(&self) -> u64 {
        self.own.settings.tf_random_seed.unwrap_or(self.inner.parts.seed)
    }

    /// The name for a folder of the run's own, such as `sync-seed-7`: no other run of the scenario
    /// and no other seed has the same. Runs that a sweep or `--repeat` has made of one share it.
    pub fn run_folder(&self) -> &str {
        &self.inner.parts.run_folder
    }

    /// The training's settings, from the scenario.
    pub fn settings(&self) -> &Settings {
        &self.inner.parts.settings
    }

    /// Whether the answer to a training step brings the variables that the next one reads: if
    /// nobody changes them in between, as in rounds of all workers.
    pub(super) fn reads_ahead(&self) -> bool {
        let mode = self.inner.replica.map(|replica| replica.mode);
        let keeps_variables = |mode: Mode| mode.needs().is_barrier() && mode.copies().is_none();
        self.inner.parts.settings.read_ahead && mode.is_some_and(keeps_variables)
    }

    /// The options of its sessions that are given none.
    pub(super) fn session_options(&self) -> SessionOptions {
        let allow_soft_placement = self.settings().allow_soft_placement;
        let standard = SessionOptions { allow_soft_placement, ..SessionOptions::default() };
        self.run_settings().session_options(standard)
    }

    /// How long tasks wait for one another.
    pub(super) fn patience(&self) -> Patience {
        self.inner.parts.settings.patience
    }

    /// The checkpoints of the scenario's `[checkpoint]`, if it has one. Monitored sessions keep
    /// them, unless their builder is given others or is to keep none.
    pub fn checkpointing(&self) -> Option<&Checkpointing> {
        self.inner.parts.checkpointing.as_ref()
    }

    /// Checkpoints in a folder, or at a URL, as the task's [`RunSettings`] say. In a simulation
    /// they are in memory and belong to the run.
    ///
    /// # Errors
    /// If `location` can't be opened as a store.
    pub fn checkpointing_at(&self, location: &str) -> Result<Checkpointing> {
        Ok(self.run_settings().checkpointing(self.stores().open(location)?))
    }

    /// Notes where the program's training keeps its checkpoints, if it does.
    pub(super) fn keeps(&self, checkpointing: Option<&Checkpointing>) {
        self.inner.kept.replace(checkpointing.cloned());
    }

    /// The checkpoints of the program's training, wherever it keeps them.
    pub(super) fn kept(&self) -> Option<Checkpointing> {
        self.inner.kept.borrow().clone()
    }

    /// Notes that the task takes part in its training.
    pub(super) fn trains(&self) {
        self.inner.has_trained.set(true);
    }

    /// Whether the task has taken part in its training.
    pub(super) fn has_trained(&self) -> bool {
        self.inner.has_trained.get()
    }

    /// Whether its program has used sessions.
    pub(super) fn has_used_sessions(&self) -> bool {
        self.inner.has_used_sessions.get()
    }

    /// The stores of checkpoints that the program keeps by itself. In a simulation they are in
    /// memory and belong to the run.
    pub(super) fn stores(&self) -> &Stores {
        &self.inner.parts.stores
    }

    /// The training's data; a deployed parameter server has none.
    ///
    /// # Errors
    /// If there is none.
    pub fn dataset(&self) -> Result<&Dataset> {
        self.inner.parts.dataset.as_deref().ok_or_else(|| {
            let message = "the scenario has no data set, or this task is a parameter server";
            Error::new(Code::NotFound, message).on(self.name())
        })
    }

    /// The chief's name: the worker that initialises the variables and evaluates on the test split.
    pub(super) fn chief(&self) -> TaskName {
        self.cluster().chief().expect("a task that trains is of a cluster with workers")
    }

    /// The task's server, which knows how the training of the whole cluster stands.
    pub(super) fn server(&self) -> &Server {
        &self.inner.parts.server
    }

    /// Records `fact`.
    pub(super) fn record(&self, fact: Fact) {
        let training = self.inner.parts.server.training();
        match &fact {
            Fact::Step(step) => training.note_step(step.global_step),
            Fact::Restored(restore) => training.note_step(restore.global_step),
            Fact::Saved { global_step, at } => training.note_saved(*global_step, *at),
            _ => {}
        }
        (self.inner.parts.recorder)(fact);
    }
}
