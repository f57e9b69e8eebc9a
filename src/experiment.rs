//! Experiments: a scenario's cluster, program and runs, given to a world, with a report as the
//! result.
//!
//! ```no_run
//! use trainyard::experiment::Experiment;
//! # use trainyard::prelude::*;
//! # async fn trainer(task: Task) -> Result<()> { task.join().await }
//! # fn test() -> Result<()> {
//! let experiment = Experiment::load("sims/sync_vs_async.toml")?;
//! let experiment = experiment.set("compute.slow.\"worker:3\"=4")?;
//! let report = experiment.seed(8).simulate(trainer)?;
//! assert!(report.run("async")?.test_accuracy.unwrap() > 0.95);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Scenario`] is a file's contents, checked; a [`Trial`] is one run of it, ready for a world.

mod aims;
mod attend;
mod board;
pub mod calibration;
mod cautions;
pub mod chaos;
mod compare;
mod critical_path;
mod disk;
mod error;
mod files;
mod launch;
mod memory;
mod observed;
mod parallel;
mod plan;
mod replay;
mod seeds;
mod summary;
mod trial;
mod trials;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};

use crate::report::{Report, World};
use crate::runtime::Result as TaskResult;
use crate::scenario::{self, Change, Scenario, Sweep};
use crate::training::Task;

use aims::{aims, common_target};
pub(crate) use aims::{is_built_in, model_of};
pub use attend::{Attended, Instruments};
pub(crate) use cautions::cautions;
pub(crate) use compare::{Prediction, Predictor};
pub use error::ExperimentError;
pub use files::Files;
pub(crate) use files::{EventLog, ReportFolder, timeline_file};
pub(crate) use launch::Launcher;
pub(crate) use parallel::simulate_all;
pub use seeds::over_seeds;
pub(crate) use trial::folder_of;
pub use trial::{Simulated, Trial};
pub(crate) use trials::check_places;

/// A program that runs as every task of a cluster.
pub trait Trainer: Fn(Task) -> Self::Running + Sync {
    /// The future of one task's run.
    type Running: Future<Output = TaskResult<()>> + 'static;
}

impl<T: Fn(Task) -> F + Sync, F: Future<Output = TaskResult<()>> + 'static> Trainer for T {
    type Running = F;
}

/// A scenario with its changes: its runs can be simulated or launched.
///
/// Mistakes in the scenario and changes that don't fit it are reported when the runs are asked for:
/// a later change may complete an earlier one. Keys are removed before others are set.
#[derive(Clone, Debug)]
pub struct Experiment {
    text: String,
    /// The scenario's file, if it has one.
    path: Option<PathBuf>,
    removed: Vec<Change>,
    set: Vec<Change>,
    sweeps: Vec<Sweep>,
    seed: Option<u64>,
    /// The number of seeds of each run.
    seeds: u32,
    /// The runs that are wanted; empty for all.
    only: Vec<String>,
    /// The arguments of the program.
    arguments: Vec<String>,
}

impl Experiment {
    /// The scenario in the file at `path`.
    ///
    /// # Errors
    /// If it can't be read, or has mistakes; the error has all of them.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ExperimentError> {
        let path = path.as_ref();
        let text = scenario::read_file(path)?;
        Ok(Self { path: Some(path.to_owned()), ..Self::of(text) })
    }

    /// The scenario in `text`, in the form of a file. Relative paths begin at the process's current
    /// folder.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(text: impl Into<String>) -> Result<Self, ExperimentError> {
        let experiment = Self::of(text.into());
        scenario::parse(&experiment.text, &experiment.origin())?;
        Ok(experiment)
    }

    fn of(text: String) -> Self {
        let (removed, set, sweeps, only) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let arguments = Vec::new();
        Self { text, path: None, removed, set, sweeps, seed: None, seeds: 1, only, arguments }
    }

    /// Changes one key, as in `stop.steps=500` or `run.0.mode=async`.
    ///
    /// # Errors
    /// If `change` is not written so.
    pub fn set(self, change: &str) -> Result<Self, ExperimentError> {
        Ok(self.change(change.parse().map_err(scenario::ScenarioError::from)?))
    }

    /// Removes one key, as in `compute.straggler` or `fault.0`: it then has its default.
    ///
    /// # Errors
    /// If `path` is not the path to a key.
    pub fn unset(self, path: &str) -> Result<Self, ExperimentError> {
        Ok(self.change(Change::unset(path).map_err(scenario::ScenarioError::from)?))
    }

    /// Applies `change`.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        if change.removes() {
            self.removed.push(change)
        } else {
            self.set.push(change)
        }
        self
    }

    /// Repeats each run for each value of a key, as in `cluster.worker=4,8,16`.
    ///
    /// # Errors
    /// If `sweep` is not written so.
    pub fn sweep(mut self, sweep: &str) -> Result<Self, ExperimentError> {
        self.sweeps.push(sweep.parse().map_err(scenario::ScenarioError::from)?);
        Ok(self)
    }

    /// Repeats each run for each combination of the values of `sweeps`.
    #[must_use]
    pub fn sweeps(mut self, sweeps: &[Sweep]) -> Self {
        self.sweeps.extend_from_slice(sweeps);
        self
    }

    /// Seeds all randomness with `seed`, whatever the scenario, its changes and sweeps say.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Runs each run with `seeds` seeds, at least one: the scenario's and those that follow it.
    #[must_use]
    pub fn seeds(mut self, seeds: u32) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// Runs only the run called `name`, and other runs that were named like this.
    #[must_use]
    pub fn only(mut self, name: impl Into<String>) -> Self {
        self.only.push(name.into());
        self
    }

    /// Repeats each run with each learning rate of the scenario's `[tune]`, and says whether it has
    /// any: [`Report::keep_best_rates`] then keeps the best of each.
    ///
    /// # Errors
    /// Every mistake in the scenario; if the learning rate is swept as well, or is a schedule
    /// without one rate to begin with.
    pub(crate) fn tuned(self) -> Result<(Self, bool), ExperimentError> {
        let scenarios = self.scenarios()?;
        let rates = &scenarios[0].1.tune.learning_rates;
        if rates.is_empty() {
            return Ok((self, false));
        }
        let key = Scenario::tuned_key(scenarios.iter().map(|(_, scenario)| scenario));
        let key = key.map_err(ExperimentError::Impossible)?;
        if self.sweeps.iter().any(|sweep| sweep.is_of(key)) {
            let why = format!(
                "`[tune]` tries values of `{key}`, which `--sweep` has too: leave out the sweep, \
                 or add `--unset tune`"
            );
            return Err(ExperimentError::Impossible(why));
        }
        // `{:?}` writes a great one with an exponent, and TOML reads no integer of 64 bits for it.
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:?}")).collect();
        let swept = self.sweep(&format!("{key}={}", rates.join(",")))?;
        Ok((swept, true))
    }

    /// Gives every task's program `arguments`, which it reads by [`Task::arguments`].
    #[must_use]
    pub fn arguments<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the scenario in errors.
    fn origin(&self) -> String {
        self.path.as_ref().map_or_else(|| "scenario".to_owned(), |path| path.display().to_string())
    }

    /// The changes to the scenario, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.removed.iter().chain(&self.set)
    }

    /// The scenario's file with all changes in it, without comments.
    ///
    /// # Errors
    /// Every mistake in it.
    pub(crate) fn text_with_changes(&self) -> Result<String, ExperimentError> {
        self.scenarios()?;
        let seed = self.seed.map(Change::of_seed);
        let changes: Vec<Change> = self.changes().cloned().chain(seed).collect();
        Ok(scenario::text(&self.text, &self.origin(), &changes)?)
    }

    /// The scenario with all changes, once for each combination of the sweeps' values.
    ///
    /// # Errors
    /// Every mistake in one of them; if two have the same values and the same seed.
    pub fn scenarios(&self) -> Result<Vec<(Vec<Change>, Scenario)>, ExperimentError> {
        let changes: Vec<Change> = self.changes().cloned().collect();
        let mut all =
            scenario::expand(&self.text, &self.origin(), &changes, &self.sweeps, &self.only)?;
        if let Some(seed) = self.seed {
            all.iter_mut().for_each(|(_, scenario)| scenario.reseed(seed));
        }
        if self.seeds > 1 {
            all = all.into_iter().flat_map(|one| self.seeded(one)).collect();
        }
        check_distinct(&all)?;
        Ok(all)
    }

    /// `scenario` once for each seed.
    fn seeded(
        &self,
        (swept, scenario): (Vec<Change>, Scenario),
    ) -> impl Iterator<Item = (Vec<Change>, Scenario)> {
        let first = scenario.seed;
        (0..u64::from(self.seeds)).map(move |number| {
            let (mut swept, mut scenario) = (swept.clone(), scenario.clone());
            let seed = first.wrapping_add(number);
            swept.push(Change::of_seed(seed));
            scenario.reseed(seed);
            (swept, scenario)
        })
    }

    /// Runs every run in simulation, as `trainer`; as many at once as there are cores.
    ///
    /// # Errors
    /// As [`Self::trials`]; the first run that fails, with its root cause.
    pub fn simulate(&self, trainer: impl Trainer) -> Result<Report, ExperimentError> {
        let (tuned, is_tuned) = self.clone().tuned()?;
        let mut trials = tuned.trials_in(World::Simulation)?;
        trials.iter_mut().for_each(|trial| trial.draws_graph = false);
        let mut report = self.report(&trials, World::Simulation)?;
        report.model = model_of(&trials, &trainer);
        let simulate = |trial: &Trial| trial.report(&trial.simulate(&trainer));
        simulate_all(&trials, simulate, |_, run| {
            report.add(run?, trials.len());
            Ok::<_, ExperimentError>(())
        })?;
        if is_tuned {
            report.keep_best_rates();
        }
        Ok(report)
    }

    /// An empty report of `trials`, which must have at least one.
    ///
    /// # Errors
    /// If the scenario can't be read.
    pub(crate) fn report(&self, trials: &[Trial], world: World) -> Result<Report, ExperimentError> {
        let Trial { scenario, cluster, .. } = &trials[0];
        let changes: Vec<Change> = self.changes().cloned().collect();
        Ok(Report {
            format: Report::FORMAT,
            trainyard: env!("CARGO_PKG_VERSION"),
            command: Vec::new(),
            scenario: scenario.clone(),
            settings: scenario::keys(&self.text, &self.origin(), &changes)?,
            complete: false,
            of_task: None,
            model: None,
            target: common_target(trials),
            aims: aims(trials),
            seed: cluster.seed,
            world,
            tuned: Vec::new(),
            runs: Vec::new(),
        })
    }
}

/// Checks that no two of `scenarios` have the same swept values and the same seed: a report would
/// take the two runs for two seeds, and be surer than it may.
fn check_distinct(scenarios: &[(Vec<Change>, Scenario)]) -> Result<(), ExperimentError> {
    let mut known = BTreeSet::new();
    for (swept, scenario) in scenarios {
        let values: BTreeMap<_, _> = swept.iter().map(Change::key_and_value).collect();
        let mut values: Vec<String> = values
            .iter()
            .filter(|(key, _)| *key != Change::SEED)
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        values.push(format!("seed={}", scenario.seed));
        let values = values.join(", ");
        if known.contains(&values) {
            return Err(ExperimentError::Twice { values });
        }
        known.insert(values);
    }
    Ok(())
}
