//! The arguments of `check`.

use std::path::PathBuf;

use super::{ScenarioArgs, VariantArgs};

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) variants: VariantArgs,

    /// The file (`.toml`) of what is expected of each run.
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: PathBuf,

    /// Write what the runs have come to into that file, instead of looking at it. Of runs that it
    /// has, the same keys are written.
    #[arg(long)]
    pub(crate) update: bool,

    /// Also write the findings as JUnit's XML into this file.
    #[arg(long, value_name = "FILE", conflicts_with = "update")]
    pub(crate) junit: Option<PathBuf>,
}
