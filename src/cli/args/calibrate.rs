//! The arguments of `calibrate`.

use std::path::PathBuf;

/// The arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Instead of this machine: measure the tasks of a running cluster, each of which is `serve`,
    /// and the ways between them, and write `[compute.tasks]` and `[network]` of a scenario. The
    /// file (`.toml`, `.json`) has jobs and their addresses.
    #[arg(long, value_name = "FILE", requires = "certs", conflicts_with = "from")]
    pub(crate) cluster: Option<PathBuf>,

    /// The folder of the certificate of `client:0`: `certs issue DIR --task client:0`.
    #[arg(long, value_name = "DIR", requires = "cluster")]
    pub(crate) certs: Option<PathBuf>,

    /// The cluster's name: what --run-name of its tasks says.
    #[arg(long, alias = "run_name", value_name = "NAME", default_value = "trainyard")]
    pub(crate) run_name: String,

    /// Instead of measuring: fit the law of each worker's step times to earlier results, folders of
    /// `--out`, and write it as `[compute.tasks]` of a scenario.
    #[arg(long, value_name = "DIR,...", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,

    /// Of several runs in these folders, the one to read.
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) run: Option<String>,

    /// The file to write, instead of the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
