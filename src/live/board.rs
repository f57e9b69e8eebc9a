//! The numbers of all tasks that a process knows of, for whoever looks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::snapshot::{Snapshot, Traffic};
use crate::cluster::{ClusterSpec, TaskName};
use crate::training::StepStats;

/// The numbers of a run's tasks so far. All clones of the `Arc` show the same.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
}

/// What a board shows.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The name of the run.
    pub(super) run: String,
    /// Whether it trains, by task.
    pub(super) trains: BTreeMap<TaskName, bool>,
    pub(super) tasks: BTreeMap<TaskName, Snapshot>,
}

impl Board {
    /// A board without a run.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Shows `tasks` of `run`, which begins, and nothing of the run before.
    pub(crate) fn begin(
        &self,
        run: &str,
        cluster: &ClusterSpec,
        tasks: impl IntoIterator<Item = TaskName>,
    ) {
        let trains = cluster.tasks().map(|task| (task, false));
        let trains = trains.chain(cluster.workers().map(|task| (task, true))).collect();
        let tasks = tasks.into_iter().map(|task| (task, Snapshot::default())).collect();
        *self.shown() = Shown { run: run.to_owned(), trains, tasks };
    }

    /// Counts a step on a batch of `batch` samples.
    pub(crate) fn count(&self, step: &StepStats, batch: u64) {
        if let Some(task) = self.shown().tasks.get_mut(&step.worker) {
            task.count(step, batch);
        }
    }

    /// Notes the traffic of `task` and who waits there.
    pub(crate) fn note(&self, task: &TaskName, traffic: Traffic) {
        if let Some(task) = self.shown().tasks.get_mut(task) {
            task.note(traffic);
        }
    }

    /// Shows `snapshot` for `task`, which runs in another process.
    pub(crate) fn show(&self, task: &TaskName, snapshot: Snapshot) {
        if let Some(task) = self.shown().tasks.get_mut(task) {
            *task = snapshot;
        }
    }

    /// The numbers of `task`, if they are shown here.
    pub(crate) fn snapshot(&self, task: &TaskName) -> Option<Snapshot> {
        self.shown().tasks.get(task).cloned()
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().expect("nobody panics while it holds the board")
    }
}
