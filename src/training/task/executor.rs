//! A task whose steps another one takes, an executor of its `ClusterCoordinator`.

use crate::cluster::{DeviceSpec, TaskName};

use super::Task;

impl Task {
    /// The same task, whose sessions have `executor` take their steps. What is said of this task,
    /// such as that it leaves the training, is not for them to say.
    pub(in crate::training) fn with_executor(&self, executor: &TaskName) -> Self {
        self.as_chief(false).with(|own| own.executor = Some(executor.clone()))
    }

    /// Whether another task takes the steps of its sessions.
    pub(in crate::training) fn has_executor(&self) -> bool {
        self.own.executor.is_some()
    }

    /// The task that takes the steps of its sessions: itself, or its executor.
    pub(in crate::training) fn taker(&self) -> &TaskName {
        self.own.executor.as_ref().unwrap_or_else(|| self.name())
    }

    /// The tasks that its sessions need besides those with variables, and besides itself.
    pub(in crate::training) fn helping_devices(&self) -> Vec<DeviceSpec> {
        match &self.own.executor {
            Some(executor) => vec![DeviceSpec::of_task(executor)],
            None => self.replica_devices().split_off(1),
        }
    }
}
