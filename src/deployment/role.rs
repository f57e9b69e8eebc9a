//! Finds this process's cluster and role: in the flags, a file, `TF_CONFIG` or SLURM's variables.

use std::env::{self, VarError};
use std::path::{Path, PathBuf};

use super::DeploymentError;
use crate::cluster::{ClusterSpec, ConfigErrors, Flags, RunConfig, Slurm, TaskName};
use crate::user_file;

/// The command line's part of a process's role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleFlags {
    /// `--cluster`: a file (`.toml`, `.json`) of jobs and their addresses.
    pub file: Option<PathBuf>,
    /// The flags of TensorFlow's example trainer.
    pub flags: Flags,
    /// Under SLURM, how many of the ranks are parameter servers.
    pub ps: u32,
    /// Under SLURM, the port of the first rank on each host.
    pub port_base: Option<u16>,
}

/// The variable in which TensorFlow's tasks find their cluster and their role.
const TF_CONFIG: &str = "TF_CONFIG";
/// What is said of it where something else gives the role.
const OVERRULED: &str = "is not read, since flags name the task; unset it, or leave them out";

/// The help for a process without a role.
const NOTHING: &str = "\
nothing says which task of which cluster this is; give one of
  --ps-hosts HOST:PORT,... --worker-hosts HOST:PORT,... --task JOB:N
  --cluster FILE --task JOB:N
  the variable TF_CONFIG, as Kubernetes' training operator sets it
  SLURM's variables, as `srun` sets them";

/// The role of this process, if anything gives it one. `listed` are the addresses that a scenario
/// lists, if it lists any.
///
/// # Errors
/// Every mistake in the first of these that is there: hosts among the flags, a file, addresses in
/// the scenario if the flags name the task, `TF_CONFIG`, SLURM's variables.
pub fn find_role(
    args: &RoleFlags,
    listed: Option<Result<ClusterSpec, ConfigErrors>>,
) -> Result<Option<RunConfig>, DeploymentError> {
    let Flags { ps_hosts, worker_hosts, job_name, task_index, task } = &args.flags;
    let has_hosts = ps_hosts.is_some() || worker_hosts.is_some();
    let names_task = job_name.is_some() || task_index.is_some() || task.is_some();
    if has_hosts && args.file.is_some() {
        let mistakes =
            "--cluster and --ps-hosts or --worker-hosts each give a cluster; give one of them";
        return Err(mistaken("the flags", mistakes));
    }
    let is_overruled = env::var_os(TF_CONFIG).is_some_and(|text| !text.is_empty());
    let overruling = |config: RunConfig| match is_overruled {
        true => config.with_warning(TF_CONFIG, OVERRULED),
        false => config,
    };
    if has_hosts {
        let config = RunConfig::from_flags(&args.flags);
        let config = config.map_err(|error| mistaken("the flags", error))?;
        return Ok(Some(overruling(config)));
    }
    let told = match (&args.file, listed) {
        (Some(path), _) => Some(read_cluster(path)?),
        (None, Some(listed)) if names_task => {
            Some(listed.map_err(|error| mistaken("[cluster]", error))?)
        }
        (None, _) => None,
    };
    if let Some(cluster) = told {
        return Ok(Some(overruling(of_task(cluster, &args.flags)?)));
    }
    if names_task {
        let mistakes = "--task, or --job-name and --task-index, name a task of no cluster; give \
                        also --ps-hosts and --worker-hosts, or --cluster FILE, or addresses in \
                        the scenario's [cluster]";
        return Err(mistaken("the flags", mistakes));
    }
    if let Some(text) = variable(TF_CONFIG)?.filter(|text| !text.trim().is_empty()) {
        return RunConfig::from_tf_config(Some(&text))
            .map(Some)
            .map_err(|error| mistaken(TF_CONFIG, error));
    }
    let slurm = Slurm::from_variables(|name| env::var(name).ok());
    if !slurm.is_there() {
        return Ok(None);
    }
    RunConfig::from_slurm(&slurm, args.ps, args.port_base)
        .map(Some)
        .map_err(|error| mistaken("SLURM's variables", error))
}

/// As [`find_role`], for a caller that needs a role.
///
/// # Errors
/// As [`find_role`]; also if nothing gives a role, with what to set.
pub fn require_role(
    args: &RoleFlags,
    listed: Option<Result<ClusterSpec, ConfigErrors>>,
) -> Result<RunConfig, DeploymentError> {
    with_task(find_role(args, listed)?.ok_or_else(|| mistaken("the cluster", NOTHING))?)
}

/// `config`, which names the task.
///
/// # Errors
/// If it gives a cluster and no task of it.
pub(crate) fn with_task(config: RunConfig) -> Result<RunConfig, DeploymentError> {
    if config.task_type().is_none() {
        let missing = "task: is missing; with a cluster, every task needs its type and its index";
        return Err(mistaken(TF_CONFIG, missing));
    }
    Ok(config)
}

/// The role of the task that the flags name, in `cluster`.
fn of_task(cluster: ClusterSpec, args: &Flags) -> Result<RunConfig, DeploymentError> {
    let (job, index) = args.job_and_index();
    let Some(job) = job else {
        let missing = match index {
            Some(_) => "--job-name: missing; it and --task-index together name the task",
            None => "--task: missing; with a cluster, every task must be told which it is",
        };
        return Err(mistaken("the flags", missing));
    };
    let task = TaskName::new(job, index.unwrap_or(0));
    RunConfig::of_task(cluster, &task).map_err(|error| mistaken("the cluster and the flags", error))
}

/// The cluster in a file: jobs and their addresses, in TOML also below `[cluster]`.
pub(crate) fn read_cluster(path: &Path) -> Result<ClusterSpec, DeploymentError> {
    let origin = path.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| mistaken(&origin, error);
    let text =
        user_file::read_text(path).map_err(|error| wrong(&format!("can't be read: {error}")))?;
    let cluster = if path.extension().is_some_and(|extension| extension == "json") {
        ClusterSpec::from_json(&text).map_err(|error| match is_within_cluster(&text) {
            true => wrong(&"its jobs are in a `cluster`; remove the outer `cluster`"),
            false => wrong(&error),
        })?
    } else {
        let table: toml::Table = text.parse().map_err(|error| wrong(&error))?;
        let jobs = table.get("cluster").and_then(toml::Value::as_table).unwrap_or(&table);
        ClusterSpec::from_toml(jobs).map_err(|error| wrong(&error))?
    };
    if cluster.is_simulated() || cluster.is_empty() {
        return Err(wrong(&"gives no addresses; write each job as a list of \"host:port\""));
    }
    Ok(cluster)
}

/// Whether the JSON in `text` has a `cluster`, as `TF_CONFIG` has.
fn is_within_cluster(text: &str) -> bool {
    let file: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    file.as_object().is_some_and(|file| file.contains_key("cluster"))
}

fn variable(name: &'static str) -> Result<Option<String>, DeploymentError> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(mistaken(name, "it is not UTF-8")),
    }
}

/// The error of an `origin` with `mistakes`, a line each. One that is of all of it begins with the
/// origin's name, which the error's first line has.
fn mistaken(origin: impl Into<String>, mistakes: impl ToString) -> DeploymentError {
    let (origin, mistakes) = (origin.into(), mistakes.to_string());
    let of_all = format!("{origin}: ");
    let lines = mistakes.lines().map(|line| line.strip_prefix(&of_all).unwrap_or(line));
    let mistakes = lines.collect::<Vec<_>>().join("\n");
    DeploymentError::Cluster { origin, mistakes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_without_its_job_is_told_what_is_missing() {
        let listed = ClusterSpec::simulated([("ps", 1), ("worker", 2)]);
        let flags = Flags { task_index: Some(1), ..Flags::default() };
        let args = RoleFlags { flags, ..RoleFlags::default() };
        let text = find_role(&args, Some(listed)).unwrap_err().to_string();
        assert!(text.contains("--job-name: missing"), "{text}");
    }
}
