//! The trials of an experiment: its runs, each checked, with its data, ready for a world.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::trial::data::Shelf;
use super::{Experiment, ExperimentError, Trial, memory};
use crate::cluster::TaskName;
use crate::report::World;
use crate::scenario::{Scenario, ScenarioError};

/// Checks that no launch of `trials`, each `repeats` times, would go on from the checkpoints of
/// another: it would report steps that it has not taken.
///
/// # Errors
/// If two launches have one place of checkpoints.
pub(crate) fn check_places(trials: &[Trial], repeats: u32) -> Result<(), ExperimentError> {
    let mut places = BTreeSet::new();
    for trial in trials {
        let Some(place) = trial.checkpoint_place() else { continue };
        if repeats > 1 || !places.insert(place.clone()) {
            return Err(ExperimentError::Impossible(format!(
                "run `{}` is launched several times with its checkpoints in {place}, from which \
                 each launch would go on where the one before has ended; launch it once, or with \
                 `--unset checkpoint`",
                trial.run_name()
            )));
        }
    }
    Ok(())
}

impl Experiment {
    /// The runs, ready for a world, in the scenario's order: at least one.
    ///
    /// # Errors
    /// Every mistake in the scenario; an unknown run; data that can't be read; more tasks than a
    /// simulation has memory for.
    pub fn trials(&self) -> Result<Vec<Trial>, ExperimentError> {
        self.trials_of(memory::check_tasks, true)
    }

    /// The runs whose cluster `fits`, with their data if they are `with_data`. Those with another
    /// seed than runs before are loaded when their runs begin.
    fn trials_of(
        &self,
        fits: impl Fn(&Scenario, &str) -> Result<(), ExperimentError>,
        with_data: bool,
    ) -> Result<Vec<Trial>, ExperimentError> {
        let scenarios = self.scenarios()?;
        self.check_names(&scenarios[0].1)?;
        let shelf = Arc::new(Shelf::default());
        let mut trials: Vec<Trial> = Vec::new();
        for (swept, scenario) in &scenarios {
            for run in scenario.runs.iter().filter(|run| self.wants(&run.name)) {
                swept
                    .iter()
                    .try_for_each(|change| change.check_reaches(run))
                    .map_err(ScenarioError::from)?;
                let own = scenario.of(run);
                fits(own, &run.name)?;
                let mut trial = Trial::new(scenario, run, swept)?;
                trial.arguments.clone_from(&self.arguments);
                if with_data {
                    trial.find_data(&trials, &shelf)?;
                }
                trial.count_samples()?;
                trials.push(trial);
            }
        }
        Ok(trials)
    }

    /// The runs, ready for `world` on this machine alone.
    ///
    /// # Errors
    /// As [`Self::trials`]; if a run may need more memory than `memory_limit`.
    pub(crate) fn trials_in(&self, world: World) -> Result<Vec<Trial>, ExperimentError> {
        if world == World::Deployment {
            self.refuse_tuning()?;
        }
        let trials = self.trials()?;
        if world == World::Deployment {
            trials.iter().try_for_each(Trial::check_deployable)?;
        }
        trials.iter().try_for_each(|trial| memory::check(trial, world))?;
        Ok(trials)
    }

    /// The runs, ready for `task` on this machine. A parameter server needs no data.
    ///
    /// # Errors
    /// As [`Self::trials`]; if the task may need more memory than `memory_limit`.
    pub(crate) fn trials_of_task(&self, task: &TaskName) -> Result<Vec<Trial>, ExperimentError> {
        self.refuse_tuning()?;
        // The other tasks are on machines of their own.
        let anything_fits = |_: &Scenario, _: &str| Ok(());
        let trials = self.trials_of(anything_fits, !task.is_parameter_server())?;
        trials.iter().try_for_each(Trial::check_deployable)?;
        trials.iter().try_for_each(memory::check_task)?;
        Ok(trials)
    }

    /// For each run that has a value of its own for a key that is set or removed for all: what to
    /// say of it.
    ///
    /// # Errors
    /// Every mistake in the scenario.
    pub(crate) fn overruled(&self) -> Result<Vec<String>, ExperimentError> {
        let scenario = self.scenarios()?.swap_remove(0).1;
        let runs = scenario.runs.iter().enumerate().filter(|(_, run)| self.wants(&run.name));
        let of_run =
            |(index, run)| self.changes().filter_map(move |change| change.overruled_by(run, index));
        Ok(runs.flat_map(of_run).collect())
    }

    /// For each value of the command line that `trials`, its own, don't have when they are
    /// deployed, since it is of a key for simulations: what to say of it. In the scenario's file
    /// such a key describes what a simulation has; here it is a wish.
    pub(crate) fn flags_without_effect(&self, trials: &[Trial]) -> Vec<String> {
        let has_faults = trials.iter().any(|trial| !trial.cluster.faults.list.is_empty());
        let set = self.set.iter().map(|change| ("--set", change.key_of_simulations(has_faults)));
        let sweeps = self.sweeps.iter();
        let swept = sweeps.map(|sweep| ("--sweep", sweep.key_of_simulations(has_faults)));
        let said = set.chain(swept).filter_map(|(flag, key)| {
            Some(format!(
                "`{flag} {}=...` changes nothing here: a deployment takes what its machines and \
                 its network take; `sim` simulates it",
                key?
            ))
        });
        said.collect()
    }

    fn wants(&self, run: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == run)
    }

    fn check_names(&self, scenario: &Scenario) -> Result<(), ExperimentError> {
        let has = |name: &&String| scenario.runs.iter().any(|run| run.name == **name);
        match self.only.iter().find(|name| !has(name)) {
            Some(name) => Err(ExperimentError::NoSuchRun {
                name: name.clone(),
                runs: scenario.runs.iter().map(|run| run.name.clone()).collect(),
            }),
            None => Ok(()),
        }
    }

    /// A deployed run has one learning rate.
    fn refuse_tuning(&self) -> Result<(), ExperimentError> {
        match self.scenarios()?[0].1.tune.learning_rates.is_empty() {
            true => Ok(()),
            false => Err(ExperimentError::Impossible(
                "`[tune]` is for simulations; find the best learning rate with `sim`, set it, and \
                 deploy with `--unset tune`"
                    .to_owned(),
            )),
        }
    }
}
