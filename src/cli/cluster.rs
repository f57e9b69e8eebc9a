//! `cluster`: prints the cluster and role that this task would have, or every mistake in their
//! source.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use clap::builder::styling::AnsiColor;
use serde_json::{Map, json};

use super::args::ClusterArgs;
use super::failure::Failure;
use super::stdout::{raw_stdout, stdout};
use crate::cluster::{ClusterSpec, RunConfig, TaskName};
use crate::deployment::{ExitCode, find_role, session_master, with_task};
use crate::experiment::{Experiment, ExperimentError};
use crate::say::labelled;
use crate::scenario::Scenario;

/// Runs the command. If nothing gives this process a role, it is a training in one process.
pub(super) fn run(args: &ClusterArgs) -> Result<ExitCode, Failure> {
    let alone =
        || RunConfig::from_tf_config(None).expect("a training in one process has no mistakes");
    let scenario = args.scenario.as_ref().map(|path| changed(args, path)).transpose()?;
    let scenario = scenario.as_ref();
    let listed = scenario.and_then(Scenario::addresses);
    let found = find_role(&args.role.flags(scenario), listed)?;
    let config = match found {
        Some(config) if !config.cluster_spec().is_empty() => with_task(config)?,
        found => found.unwrap_or_else(alone),
    };
    session_master(&config)?;
    let of_run = scenario.map(|scenario| of_run(scenario, args.run.as_deref())).transpose()?;
    let replicas = of_run.map_or_else(BTreeMap::new, |scenario| scenario.replicas.clone());
    let cluster = config.cluster_spec().clone().with_replicas(replicas);
    warn(&config);
    let printed = if args.json { print_json(&config, &cluster) } else { print(&config, &cluster) };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// The scenario at `path`, as the arguments change it.
fn changed(args: &ClusterArgs, path: &Path) -> Result<Scenario, ExperimentError> {
    let experiment = Experiment::load(path)?;
    let changes = args.unset.iter().chain(&args.sets).cloned();
    Ok(changes.fold(experiment, Experiment::change).scenarios()?.swap_remove(0).1)
}

/// The scenario with the settings of its run `name`, if one is named.
fn of_run<'a>(scenario: &'a Scenario, name: Option<&str>) -> Result<&'a Scenario, ExperimentError> {
    let Some(name) = name else { return Ok(scenario) };
    match scenario.runs.iter().find(|run| run.name == name) {
        Some(run) => Ok(scenario.of(run)),
        None => Err(ExperimentError::NoSuchRun {
            name: name.to_owned(),
            runs: scenario.runs.iter().map(|run| run.name.clone()).collect(),
        }),
    }
}

/// Prints on stderr the ignored parts of the configuration.
pub(super) fn warn(config: &RunConfig) {
    let style = AnsiColor::Yellow.on_default().bold();
    for warning in config.warnings() {
        let label = format_args!("{style}warning:{style:#} ");
        labelled(label, format_args!("{}: {}", warning.path, warning.note));
    }
}

fn print(config: &RunConfig, cluster: &ClusterSpec) -> io::Result<()> {
    let mut out = stdout();
    let chief = config.chief().map_or_else(|| "unknown".to_owned(), |chief| chief.to_string());
    let task = config.task_type().map(|_| config.task().to_string());
    let task = task.unwrap_or_else(|| "none: a training in one process".to_owned());
    let is_chief = config.task_type().is_some() && config.is_chief();
    writeln!(out, "task     {task}{}", if is_chief { ", the chief" } else { "" })?;
    writeln!(out, "chief    {chief}")?;
    if let Some(target) = target(config) {
        writeln!(out, "target   {target}")?;
    }
    for line in addresses(cluster) {
        writeln!(out, "{line}")?;
    }
    write_replicas(&named(cluster), &mut out)
}

/// A line for each task of `cluster`, with its address.
pub(super) fn addresses(cluster: &ClusterSpec) -> Vec<String> {
    let address = |task: &TaskName| cluster.task_address(task).unwrap_or("unknown");
    cluster.tasks().map(|task| format!("{:<8} {}", task.to_string(), address(&task))).collect()
}

/// The address that a client of this task gives `Session::connect`. TensorFlow's, `grpc://...`,
/// which trainers read of their configuration, names no task that the server could prove to be.
fn target(config: &RunConfig) -> Option<String> {
    let task = config.task_type().map(|_| config.task())?;
    let address = config.peers().task_address(task).ok()?;
    Some(format!("quic://{address}/job:{}/task:{}", task.job(), task.index()))
}

/// The names of the tasks of each replica that has several.
fn named(cluster: &ClusterSpec) -> Vec<Vec<String>> {
    let names = |tasks: Vec<TaskName>| tasks.iter().map(ToString::to_string).collect();
    cluster.replicas().map(names).collect()
}

/// Writes the tasks of each replica that has several.
pub(super) fn write_replicas(replicas: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    for replica in replicas {
        let Some((first, helpers)) = replica.split_first() else { continue };
        writeln!(out, "replica  {first} trains with {}", helpers.join(", "))?;
    }
    Ok(())
}

fn print_json(config: &RunConfig, cluster: &ClusterSpec) -> io::Result<()> {
    let address = |task| (format!("{task}"), json!(cluster.task_address(&task).ok()));
    let tasks: Map<_, _> = cluster.tasks().map(address).collect();
    let found = json!({
        "task": config.task_type().map(|_| config.task().to_string()),
        "is_chief": config.is_chief(),
        "chief": config.chief().map(|chief| chief.to_string()),
        "master": config.master(),
        "target": target(config),
        "tasks": tasks,
        "replicas": named(cluster),
    });
    writeln!(raw_stdout(), "{found:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_has_a_line_with_its_address() {
        let jobs = r#"{"ps": ["a:1"], "worker": ["b:1", "c:1"]}"#;
        let lines = addresses(&ClusterSpec::from_json(jobs).unwrap());
        assert_eq!(lines, ["ps:0     a:1", "worker:0 b:1", "worker:1 c:1"]);
    }
}
