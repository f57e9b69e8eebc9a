//! The command line of TensorFlow's example trainer.

use super::TaskName;
use super::config_error::Problems;
use super::task_config::{Paths, TaskConfig};
use super::validator::Validator;

/// The values of the flags of TensorFlow's example trainer (`mnist_replica.py`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--ps-hosts`: comma-separated `host:port`; empty as if left out.
    pub ps_hosts: Option<String>,
    /// `--worker-hosts`: likewise.
    pub worker_hosts: Option<String>,
    /// `--job-name`: `ps` or `worker`.
    pub job_name: Option<String>,
    /// `--task-index`: the index within the job; 0 if left out.
    pub task_index: Option<u32>,
    /// `--task`: the job and the index at once, as in `ps:0`; in place of the two.
    pub task: Option<TaskName>,
}

impl Flags {
    /// The job and the index that name the task, if the flags do.
    pub(crate) fn job_and_index(&self) -> (Option<String>, Option<u32>) {
        match &self.task {
            Some(task) => (Some(task.job().to_owned()), Some(task.index())),
            None => {
                let job = self.job_name.clone().filter(|name| !name.is_empty());
                (job, self.task_index.or_else(|| self.job_name.as_ref().map(|_| 0)))
            }
        }
    }
}

impl TaskConfig {
    /// Reads the flags, without the parts that have mistakes; without any host there is no cluster.
    pub(super) fn read_flags(flags: &Flags, problems: &mut Problems) -> Self {
        let mut validator = Validator::new(problems);
        for (job, flag, hosts) in [
            ("ps", "--ps-hosts", &flags.ps_hosts),
            ("worker", "--worker-hosts", &flags.worker_hosts),
        ] {
            let Some(hosts) = hosts.as_deref().filter(|hosts| !hosts.trim().is_empty()) else {
                continue;
            };
            validator.job(flag.to_owned(), job);
            for (index, address) in (0..).zip(hosts.split(',')) {
                validator.task(format!("{flag}[{index}]"), job, index, address.trim());
            }
        }
        let (task_type, task_index) = flags.job_and_index();
        let [of_type, of_index] = match flags.task {
            Some(_) => ["--task"; 2],
            None => ["--job-name", "--task-index"],
        };
        Self {
            cluster: validator.finish(),
            task_type,
            task_index,
            paths: Paths { cluster: "--worker-hosts", task_type: of_type, task_index: of_index },
            ..Self::default()
        }
    }
}
