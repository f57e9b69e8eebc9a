//! The arguments as they are typed. Combinations are checked where the arguments are used.

mod calibrate;
mod check;
mod checkpoint;
mod deployment;
mod format;
mod mistakes;
mod plan;
mod reading;
mod steps;
mod tape;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};

use super::exit_code;
use super::failure::Failure;
use super::init;
use crate::experiment::Experiment;
use crate::experiment::scenario::{Change, Sweep};
use crate::live::http_address;

pub(crate) use calibrate::CalibrateArgs;
pub(crate) use check::CheckArgs;
pub(crate) use checkpoint::{
    CheckpointArgs, CheckpointCommand, CheckpointsArgs, MergeArgs, ShowCheckpointArgs,
};
pub(crate) use deployment::{
    CertsArgs, CertsCommand, ClusterArgs, DoctorArgs, IssueArgs, LaunchArgs, NewArgs, ServeArgs,
    StatusArgs, TaskArgs,
};
pub(crate) use format::{Format, FormatArgs};
pub(crate) use mistakes::said;
pub(crate) use plan::{PlanArgs, Shard};
pub(crate) use reading::{read, understood};
pub(crate) use steps::Steps;
pub(crate) use tape::{ShowTapeArgs, TapeArgs, TapeCommand};

/// Where the dashboard is, unless the user says so.
const DASHBOARD: &str = "127.0.0.1:6007";

/// Distributed training in the shape of TensorFlow's runtime, simulated or real.
#[derive(Debug, Parser)]
#[command(name = "trainyard", version, after_help = exit_code::help())]
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
    /// Measure this machine, and write a scenario's `[calibration]`; or a running cluster.
    Calibrate(CalibrateArgs),
    /// Run one task of a scenario; its cluster and role come from the flags, a file, TF_CONFIG or
    /// SLURM.
    Task(TaskArgs),
    /// Run one task without a program: clients in other processes run their graphs on it. Its
    /// cluster and role come from the flags, a file, TF_CONFIG or SLURM.
    Serve(ServeArgs),
    /// Show a running task's status: its cluster and devices, the sessions on it, who waits for
    /// what, which peers it can't reach.
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
    /// Write the manual's pages, one for each command.
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
    /// The folder for the pages.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
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
    /// A scenario (`.toml`), of whose first run's chief the graph is, or the file of a binary
    /// GraphDef.
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
    /// A scenario (`.toml`), whose first run's chief takes the step, or the file of a binary
    /// GraphDef.
    pub(crate) source: PathBuf,

    /// Of a GraphDef, show only what these nodes or outputs need.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) outputs: Vec<String>,

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

/// A scenario, and what is changed in it.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario's file, such as `sims/sync_vs_async.toml`. Default: that one, which is in the
    /// program.
    pub(crate) scenario: Option<PathBuf>,

    /// Run only the run of this name; may be repeated.
    #[arg(long = "run", value_name = "NAME")]
    pub(crate) runs: Vec<String>,

    /// Use this seed instead of the scenario's, and of any that is set or swept.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Change one key of the scenario, as in `network.latency=1ms` or `run.0.mode=async`; may be
    /// repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<Change>,

    /// Remove one key of the scenario, as in `compute.straggler` or `fault.0`, so that it has its
    /// default. Keys are removed before others are set; may be repeated.
    #[arg(long = "unset", value_name = "PATH", value_parser = Change::unset)]
    pub(crate) unset: Vec<Change>,

    /// Print the scenario with these changes, and run nothing.
    #[arg(long)]
    pub(crate) print_config: bool,

    /// What follows `--` is for the program, which reads it by `Task::arguments`.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) program: Vec<String>,
}

impl ScenarioArgs {
    /// The experiment that the arguments ask for.
    pub(crate) fn experiment(&self) -> Result<Experiment, Failure> {
        let experiment = match &self.scenario {
            Some(path) => Experiment::load(path)?,
            None => Experiment::parse(init::SCENARIO)?,
        };
        let mut experiment = experiment.arguments(self.program.clone());
        for change in self.unset.iter().chain(&self.sets) {
            experiment = experiment.change(change.clone());
        }
        for run in &self.runs {
            experiment = experiment.only(run);
        }
        Ok(match self.seed {
            Some(seed) => experiment.seed(seed),
            None => experiment,
        })
    }
}

/// How often a scenario is run, and with what in it changed.
#[derive(Debug, clap::Args)]
pub(crate) struct VariantArgs {
    /// Run the scenario for each value of one key, as in `cluster.worker=4,8,16`; repeated, for
    /// each combination.
    #[arg(long = "sweep", value_name = "PATH=A,B,C")]
    pub(crate) sweeps: Vec<Sweep>,

    /// Run everything with N seeds, from the scenario's on, and print means with 95 % intervals.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seeds: NonZeroU32,
}

impl VariantArgs {
    /// `experiment` in all its variants.
    pub(crate) fn of(&self, experiment: Experiment) -> Experiment {
        experiment.sweeps(&self.sweeps).seeds(self.seeds.get())
    }
}

/// The arguments of `sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    #[command(flatten)]
    pub(crate) variants: VariantArgs,

    /// Run everything this many times, and fail if a run's digests differ.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) repeat: NonZeroU32,

    /// Run each run under faults drawn from N seeds, after those of the scenario, and check what is
    /// promised of every training. With 0, only those of the scenario.
    #[arg(long, value_name = "N", conflicts_with_all = ["repeat", "seeds", "out", "dashboard"])]
    pub(crate) chaos: Option<u64>,

    /// Deliver messages in the order that a deployment of the same scenario had, as its tasks wrote
    /// it into this directory with `launch --record` or `task --record`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chaos", "seeds"])]
    pub(crate) replay: Option<PathBuf>,

    /// Write the report's files into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write what happens from one global step to another as `timeline.json` into the directory,
    /// for Perfetto; of several runs, one file each.
    #[arg(long, value_name = "FIRST..LAST", requires = "out", conflicts_with = "repeat")]
    pub(crate) timeline: Option<Steps>,

    /// Show the run on a page while it goes on: cluster, progress, loss, throughput, staleness, who
    /// waits for whom. Without an ADDRESS, at http://127.0.0.1:6007; a port alone is on this
    /// machine.
    #[arg(long, value_name = "ADDRESS", value_parser = http_address, num_args = 0..=1,
          require_equals = true, default_missing_value = DASHBOARD)]
    pub(crate) dashboard: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::report::Layout;

    fn sim(args: &str) -> Result<SimArgs, clap::Error> {
        let words = ["trainyard", "sim"].into_iter().chain(args.split(' '));
        match read(words.map(Into::into))?.command {
            Command::Sim(sim) => Ok(sim),
            other => panic!("`sim` was parsed as {other:?}"),
        }
    }

    #[test]
    fn sim_takes_everything_the_help_lists() {
        let sim = sim(
            "a.toml --run sync --seed 9 --set seed=1 --set name=x --unset stop --sweep seed=1,2 \
             --repeat 3 --out d --json",
        )
        .unwrap();
        let scenario = sim.scenario;
        assert_eq!(
            (scenario.scenario, scenario.seed, sim.out),
            (Some(PathBuf::from("a.toml")), Some(9), Some(PathBuf::from("d")))
        );
        assert_eq!(scenario.sets, ["seed=1", "name=x"].map(|text| text.parse().unwrap()));
        assert_eq!(
            (scenario.runs, scenario.unset),
            (vec!["sync".to_owned()], vec![Change::unset("stop").unwrap()])
        );
        assert_eq!(sim.variants.sweeps, ["seed=1,2".parse().unwrap()]);
        assert_eq!((sim.repeat.get(), sim.format.format()), (3, Format::Json));
    }

    #[test]
    fn the_scenario_alone_is_run_once_and_shown_as_a_table() {
        let sim = sim("a.toml").unwrap();
        let ScenarioArgs { seed, sets, unset, runs, .. } = sim.scenario;
        let text = Format::Text(Layout::Plain);
        assert_eq!((sim.repeat.get(), sim.format.format(), seed, sim.out), (1, text, None, None));
        assert!(sets.is_empty() && unset.is_empty() && runs.is_empty());
        assert!(sim.variants.sweeps.is_empty());
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
