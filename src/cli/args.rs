//! The arguments as they are typed. Combinations are checked where the arguments are used.

mod calibrate;
mod certs;
mod check;
mod checkpoint;
mod dashboard;
mod deployment;
mod format;
mod graph;
mod mistakes;
mod plan;
mod reading;
mod scenario;
mod sim;
mod status;
mod steps;
mod tape;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};

use super::exit_code;

pub(crate) use calibrate::CalibrateArgs;
pub(crate) use certs::{CertsArgs, CertsCommand, IssueArgs, NewArgs};
pub(crate) use check::CheckArgs;
pub(crate) use checkpoint::{
    CheckpointArgs, CheckpointCommand, CheckpointsArgs, MergeArgs, ShowCheckpointArgs,
};
pub(crate) use dashboard::{DashboardArgs, MetricsArgs};
pub(crate) use deployment::{ClusterArgs, DoctorArgs, LaunchArgs, ServeArgs, TaskArgs};
pub(crate) use format::{Format, FormatArgs};
pub(crate) use graph::{ExportArgs, GraphArgs, GraphCommand, ImportArgs, ShowArgs};
pub(crate) use mistakes::said;
pub(crate) use plan::{PlanArgs, Shard};
pub(crate) use reading::{read, understood};
pub(crate) use scenario::{ScenarioArgs, VariantArgs};
pub(crate) use sim::SimArgs;
pub(crate) use status::StatusArgs;
pub(crate) use steps::Steps;
pub(crate) use tape::{ShowTapeArgs, TapeArgs, TapeCommand};

/// Distributed training in the shape of TensorFlow's runtime, simulated or real.
#[derive(Debug, Parser)]
// What all commands take comes after what is a command's own.
#[command(name = "trainyard", version, after_help = exit_code::help(), next_display_order = 900)]
pub(crate) struct Args {
    /// Log more on stderr: once for what happens, twice for details, three times for every message.
    /// `RUST_LOG` says it for each module.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Show no progress and no warnings.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a first scenario, with a comment on each key.
    Init(InitArgs),
    /// Run a scenario in simulation and compare its runs.
    Sim(SimArgs),
    /// Simulate a scenario, and fail if its runs are not as a file expects.
    Check(CheckArgs),
    /// Simulate a scenario's sweep, and say which point is the fastest, which the cheapest, and
    /// where more stops paying.
    Plan(PlanArgs),
    /// Run a scenario for real on this machine: one process a task, over QUIC.
    Launch(LaunchArgs),
    /// Measure this machine, for some minutes in which nothing else should run, and write a
    /// scenario's `[calibration]`; or a running cluster.
    Calibrate(CalibrateArgs),
    /// Run one task of a scenario; its cluster and role come from the flags, a file, TF_CONFIG or
    /// SLURM.
    Task(TaskArgs),
    /// Run one task without a program: clients in other processes run their graphs on it. Its
    /// cluster and role come from the flags, a file, TF_CONFIG or SLURM.
    Serve(ServeArgs),
    /// Show a running task's status: its cluster and devices, the sessions on it, who waits for
    /// what, which peers it can't reach; or how all tasks of a cluster are.
    Status(StatusArgs),
    /// Make the certificates by which the tasks of a run recognise each other.
    Certs(CertsArgs),
    /// Find what on this machine will slow or break a training, and what to do about it.
    Doctor(DoctorArgs),
    /// Show the cluster and the role that the flags, a file, TF_CONFIG or SLURM give this task, or
    /// the mistakes in them.
    Cluster(ClusterArgs),
    /// Read one of TensorFlow's graphs, or show how a step's graph is placed and partitioned.
    Graph(GraphArgs),
    /// List, check and merge what a training has saved.
    Checkpoint(CheckpointArgs),
    /// Show what the tasks of a deployment received, as they recorded it.
    Tape(TapeArgs),
    /// List the processors and networks that a scenario's `preset` names, with their sources.
    Presets,
    /// Print the JSON schema of what a command writes: `result.json` or `plan.json`.
    Schema(SchemaArgs),
    /// Print the script by which a shell completes commands and flags.
    Completions(CompletionsArgs),
    /// Print the manual's page of the program, or write the pages of all commands.
    Man(ManArgs),
}

impl Command {
    /// The scenario of a command that runs one.
    pub(crate) fn scenario(&self) -> Option<&ScenarioArgs> {
        match self {
            Self::Sim(args) => Some(&args.scenario),
            Self::Check(args) => Some(&args.scenario),
            Self::Plan(args) => Some(&args.scenario),
            Self::Launch(args) => Some(&args.scenario),
            Self::Task(args) => Some(&args.scenario),
            _ => None,
        }
    }
}

/// The arguments of `init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The folder for `scenario.toml`.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
}

/// The arguments of `schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The file that it describes, without `.json`.
    #[arg(default_value = "result")]
    pub(crate) file: SchemaOf,
}

/// A file that has a schema.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// What `sim` and `launch` write.
    Result,
    /// What `plan` writes.
    Plan,
}

/// The arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages of all commands, such as `~/.local/share/man/man1`.
    pub(crate) folder: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn verbosity_counts_before_and_after_the_subcommand() {
        assert_eq!(Args::try_parse_from(["trainyard", "-v", "sim", "a.toml"]).unwrap().verbose, 1);
        assert_eq!(Args::try_parse_from(["trainyard", "sim", "a.toml", "-vv"]).unwrap().verbose, 2);
    }

    #[test]
    fn what_all_commands_take_comes_last_in_the_help_of_each() {
        let mut program = Args::command();
        program.build();
        for command in program.get_subcommands_mut().filter(|it| it.get_name() != "help") {
            let help = command.render_help().to_string();
            let is_option = |word: &&str| word.starts_with("--");
            let options = help.lines().filter(|line| line.trim_start().starts_with('-'));
            let options = options.filter_map(|line| line.split_whitespace().find(is_option));
            let all: Vec<&str> = options.map(|name| name.trim_end_matches('.')).collect();
            let last = ["--verbose", "--quiet", "--color", "--help"];
            assert!(all.ends_with(&last), "{}: {all:?}", command.get_name());
        }
    }
}
