//! The arguments of every command that runs a scenario: which one, and what is changed in it.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::super::failure::Failure;
use super::super::init;
use crate::experiment::Experiment;
use crate::scenario::{Change, Sweep};

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
    // TOML's numbers end there: the scenario that `--print-config` writes must be readable.
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
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
