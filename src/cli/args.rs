//! The arguments as they are typed. What they mean together is decided where they are used.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};

use super::exit_code;
use crate::cluster::TaskName;
use crate::simulation::scenario::{Setting, Sweep};

/// Distributed training in the shape of TensorFlow's runtime, simulated or real.
#[derive(Debug, Parser)]
#[command(name = "trainyard", version, after_help = exit_code::HELP)]
pub(crate) struct Args {
    /// Log more on stderr: once for what happens, twice for every message.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario in simulation and compare its runs.
    Sim(SimArgs),
    /// Run a scenario for real on this machine: one process a task, over QUIC.
    Launch(LaunchArgs),
    /// Run one task of a scenario; its cluster and role come from the flags, a file, TF_CONFIG or SLURM.
    Task(TaskArgs),
    /// Tell how a running task is: its cluster and devices, who waits for what, whom it can't reach.
    Status(StatusArgs),
    /// Make the certificates by which the tasks of a run know one another.
    Certs(CertsArgs),
    /// Tell what on this machine will hurt, and what to do.
    Doctor(DoctorArgs),
    /// Show the cluster and the role that the flags, a file, TF_CONFIG or SLURM give this task, or what is wrong.
    Cluster(ClusterArgs),
    /// Read a graph of TensorFlow's, or show how a step's graph is placed and cut.
    Graph(GraphArgs),
}

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
    /// Import a binary GraphDef and print what it holds, or all of its operations that do not exist here.
    Import(ImportArgs),
    /// Print a step's operations with their types, by task, and what goes between tasks.
    Show(ShowArgs),
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
    /// A scenario (`.toml`), whose first run's chief takes the step, or the file of a binary GraphDef.
    pub(crate) source: PathBuf,

    /// Of a GraphDef, show only what these nodes or outputs need.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) outputs: Vec<String>,

    /// Change one key of the scenario, as in `cluster.ps=2`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Setting>,

    /// Print it in the language of Graphviz.
    #[arg(long)]
    pub(crate) dot: bool,
}

/// Who this task is: the flags of TensorFlow's example trainer, dashes or underscores, and a few more.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RoleArgs {
    /// A file (`.toml`, `.json`) of jobs and their addresses, with --job-name and --task-index.
    #[arg(long = "cluster", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The addresses of the parameter servers, separated by commas.
    #[arg(long, alias = "ps_hosts", value_name = "HOST:PORT,...")]
    pub(crate) ps_hosts: Option<String>,

    /// The addresses of the workers, separated by commas.
    #[arg(long, alias = "worker_hosts", value_name = "HOST:PORT,...")]
    pub(crate) worker_hosts: Option<String>,

    /// The job of this task: `ps` or `worker`.
    #[arg(long, alias = "job_name", value_name = "JOB")]
    pub(crate) job_name: Option<String>,

    /// The index of this task within its job.
    #[arg(long, alias = "task_index", value_name = "N")]
    pub(crate) task_index: Option<u32>,

    /// Under SLURM, how many of the ranks are parameter servers; the scenario's number where this is not given.
    #[arg(long, value_name = "N")]
    pub(crate) ps: Option<u32>,

    /// Under SLURM, the port of the first rank on each host; one that follows from the job where this is not given.
    #[arg(long, alias = "port_base", value_name = "PORT")]
    pub(crate) port_base: Option<u16>,
}

/// The arguments of `cluster`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
}

/// The arguments of `task`.
#[derive(Debug, clap::Args)]
pub(crate) struct TaskArgs {
    /// The scenario's file, the same for all tasks.
    pub(crate) scenario: PathBuf,

    #[command(flatten)]
    pub(crate) role: RoleArgs,

    /// Which of the scenario's runs, where it has several.
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Change one key of the scenario, as in `stop.steps=500`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Setting>,

    /// The folder of the task's certificate, as `certs issue` writes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,

    /// What the training is called: tasks of different names do not talk. The scenario's name where it is not given.
    #[arg(long, alias = "run_name", value_name = "NAME")]
    pub(crate) run_name: Option<String>,

    /// Where the chief writes the report's files.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as JSON in place of the table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Started by `launch`: stdin is the socket to listen on, stdout the way to the launcher.
    #[arg(long, hide = true)]
    pub(crate) launched: bool,
}

/// The arguments of `launch`.
#[derive(Debug, clap::Args)]
pub(crate) struct LaunchArgs {
    /// The scenario's file, such as `sims/sync_vs_async.toml`.
    pub(crate) scenario: PathBuf,

    /// Run this one of the scenario's runs only.
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// The seed, in place of the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Change one key of the scenario, as in `cluster.worker=4`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Setting>,

    /// Write the report's files, and a log file a task, into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as JSON in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

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
    /// Issue the certificates of tasks.
    Issue(IssueArgs),
}

/// The arguments of `certs new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// The folder of the authority.
    pub(crate) folder: PathBuf,

    /// What the run is called, for those who read the certificate.
    #[arg(long, value_name = "RUN", default_value = "trainyard")]
    pub(crate) name: String,
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

    /// Where to write the certificates; into the authority's folder where this is not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Where the task listens, `host:port`.
    pub(crate) address: String,

    /// Which task that is: it has to prove it.
    #[arg(long, value_name = "TASK")]
    pub(crate) task: TaskName,

    /// What its training is called, as its --run-name, or else the scenario's name.
    #[arg(long, alias = "run_name", value_name = "NAME")]
    pub(crate) run_name: String,

    /// The folder of a certificate of the same authority: `certs issue DIR --task client:0`.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: PathBuf,

    /// Whose certificate it is that is in the folder.
    #[arg(long = "as", value_name = "TASK", default_value = "client:0")]
    pub(crate) client: TaskName,

    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// The scenario's file, such as `sims/sync_vs_async.toml`.
    pub(crate) scenario: PathBuf,

    /// The seed, in place of the scenario's, and of any that is set or swept.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Change one key of the scenario, as in `network.latency=1ms` or `run.0.mode=async`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Setting>,

    /// Run the scenario for each value of one key, as in `cluster.worker=4,8,16`; repeated, for each combination.
    #[arg(long = "sweep", value_name = "PATH=A,B,C")]
    pub(crate) sweeps: Vec<Sweep>,

    /// Run everything so many times, and fail if any two digests of a run differ.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) repeat: NonZeroU32,

    /// Write the report's files into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as JSON in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn sim(args: &str) -> Result<SimArgs, clap::Error> {
        match Args::try_parse_from(["trainyard", "sim"].into_iter().chain(args.split(' ')))?.command {
            Command::Sim(sim) => Ok(sim),
            other => panic!("`sim` was parsed as {other:?}"),
        }
    }

    #[test]
    fn sim_takes_everything_the_help_lists() {
        let sim = sim("a.toml --seed 9 --set seed=1 --set name=x --sweep seed=1,2 --repeat 3 --out d --json").unwrap();
        assert_eq!((sim.scenario, sim.seed, sim.out), (PathBuf::from("a.toml"), Some(9), Some(PathBuf::from("d"))));
        assert_eq!(sim.sets, ["seed=1", "name=x"].map(|text| text.parse().unwrap()));
        assert_eq!(sim.sweeps, ["seed=1,2".parse().unwrap()]);
        assert_eq!((sim.repeat.get(), sim.json), (3, true));
    }

    #[test]
    fn the_scenario_alone_is_run_once_and_shown_as_a_table() {
        let sim = sim("a.toml").unwrap();
        assert_eq!((sim.repeat.get(), sim.json, sim.seed, sim.out), (1, false, None, None));
        assert!(sim.sets.is_empty() && sim.sweeps.is_empty());
    }

    #[test]
    fn verbosity_counts_before_and_after_the_subcommand() {
        assert_eq!(Args::try_parse_from(["trainyard", "-v", "sim", "a.toml"]).unwrap().verbose, 1);
        assert_eq!(Args::try_parse_from(["trainyard", "sim", "a.toml", "-vv"]).unwrap().verbose, 2);
    }

    #[test]
    fn a_setting_that_is_none_and_a_repeat_of_0_are_usage_errors() {
        let error = sim("a.toml --set latency").unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ValueValidation, 2));
        assert!(error.to_string().contains("write, for example, `network.latency=1ms`"), "{error}");
        assert_eq!(sim("a.toml --repeat 0").unwrap_err().kind(), ErrorKind::ValueValidation);
    }
}
