//! The arguments of the commands on graphs.

use std::path::PathBuf;

use clap::Subcommand;

use crate::scenario::Change;

/// The arguments of `graph`.
#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) command: GraphCommand,
}

/// What to do with a graph.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Import a binary GraphDef and print its contents, or all of its operations that do not exist
    /// here.
    Import(ImportArgs),
    /// Print a step's operations with their types, by task, and the values that go between tasks.
    Show(ShowArgs),
    /// Write a graph as a binary GraphDef, which TensorFlow opens.
    Export(ExportArgs),
}

/// The arguments of `graph export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// A scenario (`.toml`) or the file of a binary GraphDef. A scenario's graph is that of its
    /// first run's chief with the built-in trainer, never of a program of your own.
    pub(crate) source: PathBuf,

    /// Write only what these values need, as in `loss,logits:0`: a scenario's updates have no
    /// counterpart in TensorFlow.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) outputs: Vec<String>,

    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// The arguments of `graph import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// The file of the GraphDef, in binary.
    pub(crate) file: PathBuf,

    /// Import only what these nodes or outputs need, as in `logits:0,train`.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) outputs: Vec<String>,

    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `graph show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// A scenario (`.toml`) or the file of a binary GraphDef. A scenario's step is that of its
    /// chief with the built-in trainer, never of a program of your own.
    pub(crate) source: PathBuf,

    /// Of a GraphDef, show only what these nodes or outputs need.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) outputs: Vec<String>,

    /// Show a step of the run of this name, instead of the first.
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Change one key of the scenario, as in `cluster.ps=2`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Change>,

    /// Print it in the language of Graphviz.
    #[arg(long)]
    pub(crate) dot: bool,

    /// Print it as JSON.
    #[arg(long, conflicts_with = "dot")]
    pub(crate) json: bool,
}
