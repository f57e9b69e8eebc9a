//! The arguments of the commands that deploy: one task, all of them, their machine.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::{DashboardArgs, FormatArgs, MetricsArgs, ScenarioArgs, VariantArgs};
use crate::cluster::{Flags, TaskName};
use crate::deployment::RoleFlags;
use crate::scenario::{Change, Scenario, Tasks};
use crate::transport::Polling;
use crate::units::{Bytes, Span};

/// Who this task is: the flags of TensorFlow's example trainer, dashes or underscores, and a few
/// more.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RoleArgs {
    /// A file (`.toml`, `.json`) of jobs and their addresses, with --task.
    #[arg(long = "cluster", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The addresses of the parameter servers, separated by commas.
    #[arg(long, alias = "ps_hosts", value_name = "HOST:PORT,...")]
    pub(crate) ps_hosts: Option<String>,

    /// The addresses of the workers, separated by commas.
    #[arg(long, alias = "worker_hosts", value_name = "HOST:PORT,...")]
    pub(crate) worker_hosts: Option<String>,

    /// This task: its job and its index, as in `ps:0`.
    #[arg(long, value_name = "JOB:N", conflicts_with_all = ["job_name", "task_index"])]
    pub(crate) task: Option<TaskName>,

    /// The job of this task, as TensorFlow's trainers are told: `ps` or `worker`.
    #[arg(long, alias = "job_name", value_name = "JOB")]
    pub(crate) job_name: Option<String>,

    /// The index of this task within its job. Default: 0.
    #[arg(long, alias = "task_index", value_name = "N")]
    pub(crate) task_index: Option<u32>,

    /// Under SLURM, the number of ranks that are parameter servers. Default: that of the scenario,
    /// if there is one.
    #[arg(long, value_name = "N")]
    pub(crate) ps: Option<u32>,

    /// Under SLURM, the port of the first rank on each host. Default: one derived from the job's
    /// number.
    #[arg(long, alias = "port_base", value_name = "PORT")]
    pub(crate) port_base: Option<u16>,
}

impl RoleArgs {
    /// The role flags; the scenario gives the number of parameter servers if the flags don't.
    pub(crate) fn flags(&self, scenario: Option<&Scenario>) -> RoleFlags {
        let of_scenario = || scenario.and_then(|scenario| scenario.cluster.get("ps"));
        RoleFlags {
            file: self.file.clone(),
            flags: Flags {
                ps_hosts: self.ps_hosts.clone(),
                worker_hosts: self.worker_hosts.clone(),
                job_name: self.job_name.clone(),
                task_index: self.task_index,
                task: self.task.clone(),
            },
            ps: self.ps.unwrap_or_else(|| of_scenario().map_or(0, Tasks::count)),
            port_base: self.port_base,
        }
    }
}

/// The arguments of `cluster`: those of `task` that say who it is, and others that its command
/// often has.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// The scenario of the training, for its addresses and its `[replicas]`.
    pub(crate) scenario: Option<PathBuf>,

    /// The run, for replicas of its own. Default: those that all runs have in common.
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Change one key of the scenario, as `task` does; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE", requires = "scenario")]
    pub(crate) sets: Vec<Change>,

    /// Remove one key of the scenario, as `task` does; may be repeated.
    #[arg(long = "unset", value_name = "PATH", value_parser = Change::unset,
          requires = "scenario")]
    pub(crate) unset: Vec<Change>,

    #[command(flatten)]
    pub(crate) role: RoleArgs,

    /// Taken as `task` takes it, and not read.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,

    /// Taken as `task` takes it, and not read.
    #[arg(long, alias = "run_name", value_name = "NAME")]
    pub(crate) run_name: Option<String>,

    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How large tensors travel.
#[derive(Debug, clap::Args)]
pub(crate) struct LanesArgs {
    /// The number of a task's threads that encrypt large tensors beside the thread of the messages,
    /// each over a connection of its own to every task that has them, too. Default: one for each
    /// thread of kernels, but four at most, and none where there are only two.
    #[arg(long = "lanes", id = "lanes", value_name = "N",
          value_parser = clap::value_parser!(u8).range(..=64))]
    pub(crate) threads: Option<u8>,
}

/// The arguments of `task`.
#[derive(Debug, clap::Args)]
pub(crate) struct TaskArgs {
    /// The same for all tasks; of several runs, --run picks one.
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) role: RoleArgs,

    /// The folder of the task's certificate, as `certs issue` writes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,

    /// The training's name: tasks of trainings with different names do not talk. Default: the
    /// scenario's name.
    #[arg(long, alias = "run_name", value_name = "NAME")]
    pub(crate) run_name: Option<String>,

    /// The directory into which the chief writes the report's files.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write the order in which this task receives messages and loses peers, as a tape into this
    /// directory. `sim --replay` plays the tapes of all tasks.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,

    /// How long an idle task polls for messages before it sleeps, as in `300us`: waking up takes
    /// longer than most messages travel. It yields its core to others meanwhile, and polls more and
    /// more rarely while it waits longer than that in vain. `0s`: never.
    #[arg(long, value_name = "DURATION", default_value_t = Span(Polling::PATIENCE))]
    pub(crate) busy_poll: Span,

    #[command(flatten)]
    pub(crate) lanes: LanesArgs,

    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,

    #[command(flatten)]
    pub(crate) dashboard: DashboardArgs,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Run the built-in trainer, whatever this program is.
    #[arg(long, hide = true)]
    pub(crate) built_in: bool,

    /// Started by `launch`: stdin is the socket to listen on, stdout the way to the launcher.
    #[arg(long, hide = true)]
    pub(crate) launched: bool,

    /// The launcher shows the task's numbers.
    #[arg(long, hide = true)]
    pub(crate) shown: bool,
}

/// The arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,

    /// The folder of the task's certificate, as `certs issue` writes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,

    /// The cluster's name: clients and tasks with another do not talk to this one.
    #[arg(long, alias = "run_name", value_name = "NAME", default_value = "trainyard")]
    pub(crate) run_name: String,

    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,

    /// The number of the task's devices.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) devices: NonZeroU32,

    /// How long a client may be silent before its connection is lost.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = lasting)]
    pub(crate) silence: Span,

    /// How long the sessions of a client outlive its connection.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) recovery: Span,

    /// The memory that all values of clients' graphs may take together, as in `8GB`. Default: this
    /// machine's.
    #[arg(long, value_name = "BYTES", value_parser = some_memory)]
    pub(crate) memory_limit: Option<Bytes>,

    /// How long an idle server polls for messages before it sleeps, as in `300us`.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) busy_poll: Span,

    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
}

/// A length of time above 0, as `network.silence` of a scenario.
fn lasting(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(Span(Duration::ZERO)) => Err("must be above 0".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A size above 0.
fn some_memory(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes(0)) => Err("must be above 0".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// The arguments of `launch`.
#[derive(Debug, clap::Args)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) variants: VariantArgs,

    /// Write the report's files, and a log of each task, into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write the order in which each task receives messages and loses peers, as tapes into this
    /// directory, a folder for each run. `sim --replay` plays them.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,

    /// Launch each run this many times: the report has all, with means and 95 % intervals, and it
    /// is said whether the weights were the same; those of a synchronous run that differ fail it.
    #[arg(long, value_name = "N", default_value = "1", conflicts_with_all = ["chaos", "record"])]
    pub(crate) repeat: NonZeroU32,

    /// Start a task again that ends with an exit code of 128 or above, is killed or stands still, N
    /// times at most, as a scheduler would.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "chaos")]
    pub(crate) max_restarts: u32,

    /// Also simulate each run on a model of this machine, and print predicted and measured side by
    /// side.
    #[arg(long)]
    pub(crate) compare: bool,

    /// The file that `calibrate` has written. Without it, and without `[calibration]` in the
    /// scenario, the machine is measured first.
    #[arg(long, value_name = "FILE", requires = "compare")]
    pub(crate) calibration: Option<PathBuf>,

    /// How long an idle task polls for messages before it sleeps. Default: as `task`.
    #[arg(long, value_name = "DURATION")]
    pub(crate) busy_poll: Option<Span>,

    #[command(flatten)]
    pub(crate) lanes: LanesArgs,

    /// Launch each run under N drawn timelines of faults, after those of the scenario, and check
    /// what is promised of every training. With 0, only those of the scenario. Another `--seed`
    /// draws others. As in `launch sims/chaos_launched.toml --chaos 20 --jobs 6`.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "out", "record", "compare",
          "metrics", "dashboard"])]
    pub(crate) chaos: Option<u64>,

    /// How many timelines are tried at a time. Default: three a core, since tasks that are lost are
    /// waited for.
    #[arg(long, value_name = "J", requires = "chaos")]
    pub(crate) jobs: Option<NonZeroU32>,

    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,

    #[command(flatten)]
    pub(crate) dashboard: DashboardArgs,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
