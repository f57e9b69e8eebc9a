//! The arguments of `certs`, which makes the certificates of tasks.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use crate::cluster::TaskName;

/// The arguments of `certs`.
#[derive(Debug, clap::Args)]
pub(crate) struct CertsArgs {
    /// What to make.
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

/// What certificates to make.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Make the authority of a run.
    New(NewArgs),
    /// Issue the certificates of tasks that have none.
    Issue(IssueArgs),
    /// Issue them anew, with other keys; tasks that run take them from their folder. Name the hosts
    /// again, if the first ones had any.
    Renew(IssueArgs),
}

/// The arguments of `certs new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// The folder of the authority.
    pub(crate) folder: PathBuf,

    /// What the run is called, for those who read the certificate; it binds no task to a run.
    #[arg(long, aliases = ["name", "run_name"], value_name = "NAME", default_value = "trainyard")]
    pub(crate) run_name: String,
}

/// The arguments of `certs issue`.
#[derive(Debug, clap::Args)]
pub(crate) struct IssueArgs {
    /// The folder of the authority.
    pub(crate) folder: PathBuf,

    /// The task, as in `ps:0`; several, separated by commas.
    #[arg(long = "task", value_name = "TASK,...", value_delimiter = ',', required = true)]
    pub(crate) tasks: Vec<TaskName>,

    /// A name or an address of the task's host, without a port; may be repeated.
    #[arg(long = "host", value_name = "HOST,...", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,

    /// The number of days for which the certificates are valid, at most those of the authority.
    #[arg(long, value_name = "N", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,

    /// Where to write the certificates; into the authority's folder where this is not given.
    #[arg(long, alias = "to", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

impl IssueArgs {
    pub(crate) fn lifetime(&self) -> Duration {
        Duration::from_secs(u64::from(self.days) * 24 * 3600)
    }
}
