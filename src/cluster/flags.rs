//! The command line of TensorFlow's example trainer.

use super::config_error::Problems;
use super::task_config::{Paths, TaskConfig};
use super::validator::Validator;
use super::{ConfigErrors, RunConfig};

/// What the flags of TensorFlow's example trainer (`mnist_replica.py`) were set to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--ps-hosts`: comma-separated `host:port`; empty as if left out.
    pub ps_hosts: Option<String>,
    /// `--worker-hosts`: likewise.
    pub worker_hosts: Option<String>,
    /// `--job-name`: `ps` or `worker`.
    pub job_name: Option<String>,
    /// `--task-index`: the index within the job.
    pub task_index: Option<u32>,
}

impl RunConfig {
    /// From the command line; without any host this is a training in one process.
    ///
    /// # Errors
    /// Every mistake in it, at the flag's name.
    pub fn from_flags(flags: &Flags) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let mut validator = Validator::new(&mut problems);
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
        let config = TaskConfig {
            cluster: validator.finish(),
            task_type: flags.job_name.clone().filter(|name| !name.is_empty()),
            task_index: flags.task_index,
            paths: Paths {
                cluster: "--worker-hosts",
                task_type: "--job-name",
                task_index: "--task-index",
            },
            ..TaskConfig::default()
        };
        Self::resolve(config, problems)
    }
}
