//! Which cluster and which role this process has: from the flags, a file, `TF_CONFIG` or SLURM's
//! variables.

use std::env::{self, VarError};
use std::fs;
use std::path::Path;

use super::args::RoleArgs;
use super::failure::Failure;
use crate::cluster::{ClusterSpec, Flags, RunConfig, Slurm, TaskName};
use crate::experiment::scenario::{Scenario, Tasks};

/// What to do where nothing says what this process is.
const NOTHING: &str = "\
nothing says which task of which cluster this is; give one of
  --ps-hosts HOST:PORT,... --worker-hosts HOST:PORT,... --job-name JOB --task-index N
  --cluster FILE --job-name JOB --task-index N
  the variable TF_CONFIG, as Kubernetes' training operator sets it
  SLURM's variables, as `srun` sets them";

/// The role of this process, and where it is written; none where nothing says.
///
/// # Errors
/// Every mistake in the first of these that is there: hosts among the flags, a file, addresses in
/// the scenario where the flags name the task, `TF_CONFIG`, SLURM's variables.
pub(super) fn find(
    args: &RoleArgs,
    scenario: Option<&Scenario>,
) -> Result<Option<RunConfig>, Failure> {
    let has_hosts = args.ps_hosts.is_some() || args.worker_hosts.is_some();
    let names_task = args.job_name.is_some() || args.task_index.is_some();
    if has_hosts && args.file.is_some() {
        let mistakes =
            "--cluster and --ps-hosts or --worker-hosts each give a cluster; give one of them";
        return Err(mistaken("the flags", mistakes));
    }
    if has_hosts {
        return of_flags(args).map(Some);
    }
    let told = match (&args.file, scenario.and_then(addresses)) {
        (Some(path), _) => Some(read(path)?),
        (None, Some(listed)) if names_task => {
            Some(listed.map_err(|error| mistaken("[cluster]", error))?)
        }
        (None, _) => None,
    };
    if let Some(cluster) = told {
        return Ok(Some(of_task(cluster, args)?));
    }
    if names_task {
        let mistakes = "--job-name and --task-index name a task of no cluster; give also \
                        --ps-hosts and --worker-hosts, or --cluster FILE, or addresses in the \
                        scenario's [cluster]";
        return Err(mistaken("the flags", mistakes));
    }
    if let Some(text) = variable("TF_CONFIG")?.filter(|text| !text.trim().is_empty()) {
        return RunConfig::from_tf_config(Some(&text))
            .map(Some)
            .map_err(|error| mistaken("TF_CONFIG", error));
    }
    let slurm = Slurm::from_variables(|name| env::var(name).ok());
    if !slurm.is_there() {
        return Ok(None);
    }
    let of_scenario =
        scenario.and_then(|scenario| scenario.cluster.get("ps")).map_or(0, Tasks::count);
    let ps = args.ps.unwrap_or(of_scenario);
    RunConfig::from_slurm(&slurm, ps, args.port_base)
        .map(Some)
        .map_err(|error| mistaken("SLURM's variables", error))
}

/// As [`find`], for a command that can't do without.
///
/// # Errors
/// As [`find`], and where nothing says; what to set.
pub(super) fn require(args: &RoleArgs, scenario: &Scenario) -> Result<RunConfig, Failure> {
    find(args, Some(scenario))?.ok_or_else(|| mistaken("the cluster", NOTHING))
}

/// Says on stderr what of the configuration is ignored.
pub(super) fn warn(config: &RunConfig) {
    for warning in config.warnings() {
        eprintln!("warning: {}: {}", warning.path, warning.note);
    }
}

fn of_flags(args: &RoleArgs) -> Result<RunConfig, Failure> {
    let flags = Flags {
        ps_hosts: args.ps_hosts.clone(),
        worker_hosts: args.worker_hosts.clone(),
        job_name: args.job_name.clone(),
        task_index: args.task_index,
    };
    RunConfig::from_flags(&flags).map_err(|error| mistaken("the flags", error))
}

/// The task that the flags name, of `cluster`.
fn of_task(cluster: ClusterSpec, args: &RoleArgs) -> Result<RunConfig, Failure> {
    let missing: Vec<&str> =
        [("--job-name", args.job_name.is_none()), ("--task-index", args.task_index.is_none())]
            .into_iter()
            .filter_map(|(flag, is_missing)| is_missing.then_some(flag))
            .collect();
    let (Some(job), Some(index)) = (&args.job_name, args.task_index) else {
        let which = missing.join(" and ");
        return Err(mistaken(
            "the flags",
            format!("{which}: missing; with a cluster, every task must be told which it is"),
        ));
    };
    let task = TaskName::new(job.as_str(), index);
    RunConfig::of_task(cluster, &task).map_err(|error| mistaken("the cluster and the flags", error))
}

/// The addresses that a scenario lists; none where it has only numbers of tasks.
fn addresses(scenario: &Scenario) -> Option<Result<ClusterSpec, crate::cluster::ConfigErrors>> {
    let listed = |(job, tasks): (&String, &Tasks)| match tasks {
        Tasks::Addresses(addresses) => Some((job.clone(), addresses.clone())),
        Tasks::Count(_) => None,
    };
    let jobs: Vec<_> = scenario.cluster.iter().map(listed).collect::<Option<_>>()?;
    Some(ClusterSpec::dense(jobs))
}

/// The cluster in a file: jobs and their addresses, in TOML also below `[cluster]`.
fn read(path: &Path) -> Result<ClusterSpec, Failure> {
    let origin = path.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| mistaken(&origin, error);
    let text =
        fs::read_to_string(path).map_err(|error| wrong(&format!("can't be read: {error}")))?;
    let cluster = if path.extension().is_some_and(|extension| extension == "json") {
        ClusterSpec::from_json(&text).map_err(|error| wrong(&error))?
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

fn variable(name: &'static str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(mistaken(name, "it is not UTF-8")),
    }
}

fn mistaken(origin: impl Into<String>, mistakes: impl ToString) -> Failure {
    Failure::Cluster { origin: origin.into(), mistakes: mistakes.to_string() }
}
