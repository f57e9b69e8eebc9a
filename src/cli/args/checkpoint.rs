//! The arguments of `checkpoint`.

use std::path::PathBuf;

use clap::Subcommand;

/// The arguments of `checkpoint`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) command: CheckpointCommand,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a training: time, size, and problems.
    List(CheckpointsArgs),
    /// List the variables of one checkpoint.
    Show(ShowCheckpointArgs),
    /// Read every byte of all checkpoints; exit with 8 if one has changed since it was saved.
    Verify(CheckpointsArgs),
    /// Write all variables of one checkpoint into one safetensors file, each partitioned one as a
    /// whole.
    Merge(MergeArgs),
}

/// The arguments of `checkpoint list` and `checkpoint verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointsArgs {
    /// Where the checkpoints are: a folder, or an URL such as `s3://bucket/run-7`.
    #[arg(value_name = "DIR")]
    pub(crate) location: String,

    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `checkpoint show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowCheckpointArgs {
    /// Where the checkpoints are: a folder, or an URL such as `s3://bucket/run-7`.
    #[arg(value_name = "DIR")]
    pub(crate) location: String,

    /// Of which step; the newest whole one where this is not given.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,

    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `checkpoint merge`.
#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    /// Where the checkpoints are: a folder, or an URL such as `s3://bucket/run-7`.
    #[arg(value_name = "DIR")]
    pub(crate) location: String,

    /// The file to write.
    #[arg(long, alias = "to", value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Of which step; the newest whole one where this is not given.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,

    /// Write the model's variables alone: no global step, no counters, nothing that optimizers keep
    /// beside a variable, under names such as `w/Adam`, but averages of variables. Of copies that
    /// workers train it has their center.
    #[arg(long)]
    pub(crate) weights_only: bool,
}
