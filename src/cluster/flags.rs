//! The command line of TensorFlow's example trainer.

use super::ConfigErrors;
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
}

impl TaskConfig {
    /// Reads the flags; without any host there is no cluster.
    ///
    /// # Errors
    /// Every mistake in them, with the flag's name.
    pub fn from_flags(flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let config = Self::read_flags(flags, &mut problems);
        problems.finish().map(|()| config)
    }

    /// As [`Self::from_flags`], without the parts that have mistakes.
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
        Self {
            cluster: validator.finish(),
            task_type: flags.job_name.clone().filter(|name| !name.is_empty()),
            task_index: flags.task_index.or_else(|| flags.job_name.as_ref().map(|_| 0)),
            paths: Paths {
                cluster: "--worker-hosts",
                task_type: "--job-name",
                task_index: "--task-index",
            },
            ..Self::default()
        }
    }
}
