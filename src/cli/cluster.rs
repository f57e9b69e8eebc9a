//! `cluster`: which cluster and which role this task would have, and every mistake in what says so.

use std::env::{self, VarError};
use std::io::{self, Write};

use super::args::ClusterArgs;
use super::exit_code::ExitCode;
use super::failure::Failure;
use crate::cluster::{Flags, RunConfig};

/// Runs the command: the flags, where there are any, or else `TF_CONFIG`.
pub(super) fn run(args: &ClusterArgs) -> Result<ExitCode, Failure> {
    let flags = Flags {
        ps_hosts: args.ps_hosts.clone(),
        worker_hosts: args.worker_hosts.clone(),
        job_name: args.job_name.clone(),
        task_index: args.task_index,
    };
    let config = if flags == Flags::default() {
        let variable = match env::var("TF_CONFIG") {
            Ok(text) => Some(text),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => {
                return Err(Failure::Cluster { origin: "TF_CONFIG", mistakes: "it is not UTF-8".to_owned() });
            }
        };
        RunConfig::from_tf_config(variable.as_deref())
            .map_err(|mistakes| Failure::Cluster { origin: "TF_CONFIG", mistakes: mistakes.to_string() })?
    } else {
        RunConfig::from_flags(&flags)
            .map_err(|mistakes| Failure::Cluster { origin: "the flags", mistakes: mistakes.to_string() })?
    };
    for warning in config.warnings() {
        eprintln!("warning: {}: {}", warning.path, warning.note);
    }
    print(&config).map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

fn print(config: &RunConfig) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let chief = config.chief().map_or_else(|| "unknown".to_owned(), |chief| chief.to_string());
    writeln!(out, "task     {}{}", config.task(), if config.is_chief() { ", the chief" } else { "" })?;
    writeln!(out, "chief    {chief}")?;
    writeln!(out, "master   {:?}", config.master())?;
    for task in config.cluster_spec().tasks() {
        let address = config.cluster_spec().task_address(&task).unwrap_or("unknown");
        writeln!(out, "{:<8} {address}", task.to_string())?;
    }
    Ok(())
}
