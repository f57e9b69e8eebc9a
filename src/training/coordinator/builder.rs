//! The builder of a coordinator: its model, once for the chief and once for each executor.

use crate::cluster::{DeviceSpec, Role, TaskName};
use crate::graph::{Graph, GraphError};
use crate::placement::ReplicaDeviceSetter;
use crate::runtime::{Code, Error, Result};
use crate::sync::Mode;

use super::super::hooks::{Hook, StopAtStep};
use super::super::monitored_session::{Builder, MonitoredSession};
use super::super::task::Task;
use super::ClusterCoordinator;
use super::executor::Executor;

/// The closures that may wait, for each executor.
const ROOM: usize = 4;

/// Builds a coordinator.
#[must_use = "a coordinator begins by `open`"]
pub struct CoordinatorBuilder<M> {
    task: Task,
    chief: Builder,
    model: M,
    executors: Vec<(TaskName, Graph, M)>,
    last_step: Option<u64>,
    room: usize,
}

shown!([M] CoordinatorBuilder<M>, chief);

impl<M: 'static> CoordinatorBuilder<M> {
    pub(super) fn new(
        task: &Task,
        job: &str,
        build: impl Fn(&Graph) -> Result<M, GraphError>,
    ) -> Result<Self> {
        check(task, job)?;
        let built = |device: DeviceSpec| -> Result<(Graph, M)> {
            let graph = Graph::new();
            graph.set_random_seed(task.seed());
            let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(device);
            let model = graph.with_device_fn(setter, &build)?;
            Ok((graph, model))
        };
        let (graph, model) = built(task.device())?;
        let chief = MonitoredSession::builder(task, graph);
        let mut executors = Vec::new();
        for name in task.cluster().tasks().filter(|name| name.job() == job) {
            let (graph, model) = built(DeviceSpec::of_task(&name))?;
            executors.push((name, graph, model));
        }
        let room = ROOM * executors.len();
        Ok(Self { task: task.clone(), chief, model, executors, last_step: None, room })
    }

    /// The chief's copy of the model: what hooks measure.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Adds a hook. The chief has it: it sees the step of every executor soon after that has ended,
    /// and what it does meanwhile, such as to evaluate, holds no executor up. It fetches nothing
    /// that depends on what closures feed.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.chief = self.chief.hook(hook);
        self
    }

    /// Ends the training at the global step `step`, and with the closures under way then: it can
    /// end as many steps higher as there are other executors.
    pub fn last_step(mut self, step: u64) -> Self {
        self.last_step = Some(step);
        self
    }

    /// Has room for so many closures that wait, at least one; by default 4 for each executor.
    /// (TensorFlow: 262,144. What closures hold, such as batches, is in memory meanwhile; and those
    /// that wait at the end of a training are cancelled.)
    pub fn room(mut self, room: usize) -> Self {
        self.room = room;
        self
    }

    /// Changes the builder of the chief's session: where checkpoints are kept, its scaffold, and
    /// the like.
    pub fn session(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.chief = change(self.chief);
        self
    }

    /// Opens the chief's session, and begins to run closures: an executor takes the first one once
    /// its task is there.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub async fn open(self) -> Result<ClusterCoordinator<M>> {
        let Self { task, mut chief, model, executors, last_step, room } = self;
        let mut ready = Vec::new();
        for (name, graph, model) in executors {
            let mut builder = chief.of_executor(&name, graph);
            if let Some(step) = last_step {
                builder = builder.hook(StopAtStep::last_step(step));
            }
            ready.push(Executor { name, builder, model });
        }
        if let Some(step) = last_step {
            chief = chief.hook(StopAtStep::last_step(step));
        }
        let chief = chief.open().await?;
        Ok(ClusterCoordinator::begin(&task, model, chief, ready, room))
    }
}

/// Checks that `task` can be the coordinator of the tasks of `job`.
fn check(task: &Task, job: &str) -> Result<()> {
    let refused = |why: String| Err(Error::new(Code::InvalidArgument, why).on(task.name()));
    let cluster = task.cluster();
    let mode = task.replica().map(|replica| replica.mode);
    if mode.is_none() || cluster.workers().nth(1).is_some() {
        return refused(
            "a `ClusterCoordinator` is made by the only task that trains, a `chief` or the one \
             `worker`; tasks that run closures are of another job, such as `executor`, and call \
             `task.join()`"
                .to_owned(),
        );
    }
    if let Some(mode) = mode.filter(|mode| *mode != Mode::Async) {
        return refused(format!(
            "closures end each by itself, so that a `ClusterCoordinator` trains in the mode \
             `async`, and not in `{mode}`"
        ));
    }
    if !cluster.has_parameter_servers() {
        return refused(
            "the executors of a `ClusterCoordinator` share their variables on parameter servers, \
             and the cluster has none"
                .to_owned(),
        );
    }
    let mut executors = cluster.tasks().filter(|name| name.job() == job);
    match executors.next().map(|name| cluster.role(&name)) {
        Some(Role::Helper) => Ok(()),
        Some(_) => refused(format!(
            "tasks of `{job}` have a part of their own in a training; those that run closures are \
             of another job, such as `executor`"
        )),
        None => refused(format!("the cluster has no job `{job}` to run closures")),
    }
}
