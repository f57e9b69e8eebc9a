//! The arguments by which a run is shown while it goes on.

use std::net::SocketAddr;

use crate::live::http_address;

/// Where the dashboard is, unless the user says so.
const ADDRESS: &str = "127.0.0.1:6007";

/// Whether a run is shown on a page, and where that is.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardArgs {
    /// Show the run on a page while it goes on: cluster, progress, loss, throughput, staleness, who
    /// waits for whom. Without an ADDRESS, at http://127.0.0.1:6007; a port alone is on this
    /// machine.
    #[arg(long = "dashboard", id = "dashboard", value_name = "ADDRESS",
          value_parser = http_address, num_args = 0..=1, require_equals = true,
          default_missing_value = ADDRESS)]
    pub(crate) address: Option<SocketAddr>,
}

/// Whether Prometheus can ask for the numbers of a run, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Tell Prometheus the numbers of this task, or of all that are launched, at
    /// http://ADDRESS/metrics. A port alone is on this machine; `0.0.0.0:9100` can be reached from
    /// others.
    #[arg(long = "metrics", id = "metrics", value_name = "ADDRESS", value_parser = http_address)]
    pub(crate) address: Option<SocketAddr>,
}
