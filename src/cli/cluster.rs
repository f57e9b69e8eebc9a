//! `cluster`: prints the cluster and role that this task would have, or every mistake in their
//! source.

use std::io::{self, Write};

use clap::builder::styling::AnsiColor;
use serde_json::{Map, json};

use super::args::ClusterArgs;
use super::failure::Failure;
use crate::cluster::RunConfig;
use crate::deployment::{ExitCode, find_role};

/// Runs the command. If nothing gives this process a role, it is a training in one process.
pub(super) fn run(args: &ClusterArgs) -> Result<ExitCode, Failure> {
    let alone =
        || RunConfig::from_tf_config(None).expect("a training in one process has no mistakes");
    let config = find_role(&args.role.flags(None), None)?.unwrap_or_else(alone);
    warn(&config);
    let printed = if args.json { print_json(&config) } else { print(&config) };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// Prints on stderr the ignored parts of the configuration.
pub(super) fn warn(config: &RunConfig) {
    let style = AnsiColor::Yellow.on_default().bold();
    for warning in config.warnings() {
        anstream::eprintln!("{style}warning:{style:#} {}: {}", warning.path, warning.note);
    }
}

fn print(config: &RunConfig) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let chief = config.chief().map_or_else(|| "unknown".to_owned(), |chief| chief.to_string());
    let task = config.task_type().map_or_else(|| "none".to_owned(), |_| config.task().to_string());
    writeln!(out, "task     {task}{}", if config.is_chief() { ", the chief" } else { "" })?;
    writeln!(out, "chief    {chief}")?;
    writeln!(out, "master   {:?}", config.master())?;
    for task in config.cluster_spec().tasks() {
        let address = config.cluster_spec().task_address(&task).unwrap_or("unknown");
        writeln!(out, "{:<8} {address}", task.to_string())?;
    }
    Ok(())
}

fn print_json(config: &RunConfig) -> io::Result<()> {
    let address = |task| (format!("{task}"), json!(config.cluster_spec().task_address(&task).ok()));
    let tasks: Map<_, _> = config.cluster_spec().tasks().map(address).collect();
    let found = json!({
        "task": config.task_type().map(|_| config.task().to_string()),
        "is_chief": config.is_chief(),
        "chief": config.chief().map(|chief| chief.to_string()),
        "master": config.master(),
        "tasks": tasks,
    });
    writeln!(io::stdout().lock(), "{found:#}")
}
