//! The configuration of one task: its cluster and its role, as given to it.

use super::{ClusterError, ClusterSpec, ConfigWarning, TaskName};

/// A cluster and a task's role in it, as given by the environment: `TF_CONFIG`, flags or SLURM's
/// variables. The rules on roles are not applied yet; [`RunConfig`](super::RunConfig) does that.
///
/// TensorFlow: `ClusterResolver`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskConfig {
    pub(super) cluster: ClusterSpec,
    /// Whether tasks come and go; `cluster` then has only those that this one needs to know.
    pub(super) dynamic: bool,
    pub(super) task_type: Option<String>,
    pub(super) task_index: Option<u32>,
    pub(super) rpc_layer: Option<String>,
    pub(super) session_master: Option<String>,
    pub(super) model_dir: Option<String>,
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
    /// The target of a session on the master of `task`, or of this process.
    ///
    /// That is `session_master` as given, if it is set. Otherwise it is empty, for the master
    /// within the process, if the cluster has one task or none. Otherwise it is the address, after
    /// `rpc_layer` if there is one.
    ///
    /// # Errors
    /// [`ClusterError`] if the task isn't known or isn't in the cluster.
    pub(super) fn master(&self, task: Option<&TaskName>) -> Result<String, ClusterError> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::config_error::Problems;
    use super::*;

    fn config(text: Value) -> TaskConfig {
        let mut problems = Problems::default();
        let config = TaskConfig::read_tf_config(Some(&text.to_string()), &mut problems);
        problems.finish().unwrap();
        config
    }

    fn task(cluster: Value, job: &str, index: impl Into<Value>) -> Value {
        json!({"cluster": cluster, "task": {"type": job, "index": index.into()}})
    }

    #[test]
    fn a_resolver_gives_the_master_that_tensorflows_gives() {
        let cluster =
            json!({"ps": ["ps0:2222", "ps1:2222"], "worker": ["worker0:2222", "worker1:2222"]});
        let mut text = task(cluster.clone(), "ps", "0");
        assert_eq!(config(text.clone()).master(None).unwrap(), "ps0:2222");
        assert_eq!(config(text.clone()).task_index, Some(0));
        let worker = TaskName::new("worker", 1);
        assert_eq!(config(text.clone()).master(Some(&worker)).unwrap(), "worker1:2222");
        text["rpc_layer"] = json!("grpc");
        assert_eq!(config(text.clone()).master(None).unwrap(), "grpc://ps0:2222");
        text["session_master"] = json!("sessionmaster:2222");
        assert_eq!(config(text).master(None).unwrap(), "sessionmaster:2222");

        let beyond = config(task(cluster.clone(), "ps", 5)).master(None).unwrap_err().to_string();
        assert_eq!(beyond, "No task with index 5 in job 'ps'; its indices are: 0, 1");
        assert!(config(json!({"cluster": cluster})).master(None).is_err());
        assert_eq!(
            config(json!({"cluster": {"worker": ["worker0:2222"]}})).master(None).unwrap(),
            ""
        );
        assert_eq!(config(json!({})).master(None).unwrap(), "");
        assert_eq!(config(json!({"task": {"type": 123456}})).task_type.as_deref(), Some("123456"));
    }
}
