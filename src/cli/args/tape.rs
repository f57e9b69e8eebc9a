//! The arguments of `tape`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::cluster::TaskName;

/// The arguments of `tape`.
#[derive(Debug, clap::Args)]
pub(crate) struct TapeArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) command: TapeCommand,
}

/// What to do with tapes.
#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Print what a task received, in order: positions, seconds since the run began, and what.
    Show(ShowTapeArgs),
}

/// The arguments of `tape show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowTapeArgs {
    /// The folder of a run's tapes.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// The task. Without it, only how many entries each tape has.
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<TaskName>,

    /// Which life of a task that was started again, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) life: usize,

    /// The first position.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: usize,

    /// The number of entries.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,
}
