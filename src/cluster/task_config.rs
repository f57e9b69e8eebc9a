//! The configuration of one task: its cluster and its role, as given to it.

use super::{ClusterError, ClusterSpec, ConfigWarning, TaskName};

/// A cluster and a task's role in it, as given by the environment: `TF_CONFIG`, flags or SLURM's
/// variables. The rules on roles are not applied yet; [`RunConfig`](super::RunConfig) does that.
///
/// TensorFlow: `ClusterResolver`, whose subclasses read the environment again at each access; this
/// reads it once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskConfig {
    pub(super) cluster: ClusterSpec,
    /// Whether tasks come and go; `cluster` then has only those that this one needs to know.
    pub(super) dynamic: bool,
    pub(super) task_type: Option<String>,
    pub(super) task_index: Option<u32>,
    pub(super) rpc_layer: Option<String>,
    pub(super) session_master: Option<String>,
    pub(super) model_dir: Option<String>,
    pub(super) environment: Option<String>,
    pub(super) warnings: Vec<ConfigWarning>,
    pub(super) paths: Paths,
}

/// The places where a configuration's parts are written, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    pub(super) cluster: &'static str,
    pub(super) task_type: &'static str,
    pub(super) task_index: &'static str,
}

impl Default for Paths {
    fn default() -> Self {
        Self { cluster: "cluster", task_type: "task.type", task_index: "task.index" }
    }
}

impl TaskConfig {
    /// The cluster as it was given, with its `evaluator`; empty if none was given.
    pub fn cluster_spec(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// The job of this process.
    pub fn task_type(&self) -> Option<&str> {
        self.task_type.as_deref()
    }

    /// The index of this process within its job.
    pub fn task_index(&self) -> Option<u32> {
        self.task_index
    }

    /// The scheme of a target, such as `grpc`.
    pub fn rpc_layer(&self) -> Option<&str> {
        self.rpc_layer.as_deref()
    }

    /// The parts of the configuration that are ignored.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// The target of a session on the master of `task`, or of this process.
    ///
    /// That is `session_master` as given, if it is set. Otherwise it is empty, for the master
    /// within the process, if the cluster has one task or none. Otherwise it is the address, after
    /// `rpc_layer` if there is one.
    ///
    /// # Errors
    /// [`ClusterError`] if the task isn't known or isn't in the cluster.
    pub fn master(&self, task: Option<&TaskName>) -> Result<String, ClusterError> {
        if let Some(master) = &self.session_master {
            return Ok(master.clone());
        }
        if !self.dynamic && self.cluster.tasks().nth(1).is_none() {
            return Ok(String::new());
        }
        let task = task.cloned().or_else(|| self.own_task()).ok_or(ClusterError::TaskUnknown)?;
        let address = self.cluster.task_address(&task)?;
        Ok(match &self.rpc_layer {
            Some(scheme) => format!("{scheme}://{address}"),
            None => address.to_owned(),
        })
    }

    pub(super) fn own_task(&self) -> Option<TaskName> {
        Some(TaskName::new(self.task_type.as_deref()?, self.task_index?))
    }
}
