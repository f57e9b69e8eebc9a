//! Plans: an experiment's trials as points with times and prices.

use std::collections::BTreeMap;

use super::{Experiment, ExperimentError, Trial, common_target};
use crate::report::Run;
use crate::report::plan::{Plan, Point, Price, Question};
use crate::scenario::{self, Change, Scenario, ScenarioError, Sweep};

impl Experiment {
    /// Adds the sweeps of the experiment's `[plan]`. Where the command sweeps a key, the command's
    /// values stay.
    ///
    /// # Errors
    /// Every mistake in the scenario.
    pub(crate) fn planned(mut self) -> Result<Self, ExperimentError> {
        let scenario = self.scenarios()?.swap_remove(0).1;
        if !scenario.tune.learning_rates.is_empty() {
            let why = "`[tune]` is for `sim`; find the best learning rate with it, set it, and \
                       plan with `--unset tune`";
            return Err(ExperimentError::Impossible(why.to_owned()));
        }
        let own: Result<Vec<Sweep>, _> =
            scenario.plan.sweeps.iter().map(|sweep| sweep.parse()).collect();
        let mut own = own.map_err(ScenarioError::from)?;
        own.retain(|own| self.sweeps.iter().all(|sweep| !sweep.is_of_same_key(own)));
        self.sweeps.splice(0..0, own);
        Ok(self)
    }

    /// The plan of which `trials` are to be all points, without any.
    ///
    /// # Errors
    /// If the scenario can't be read, or does not say what a whole training is.
    pub(crate) fn plan(&self, trials: &[Trial]) -> Result<Plan, ExperimentError> {
        let (_, scenario) = self.scenarios()?.swap_remove(0);
        let changes: Vec<Change> = self.changes().cloned().collect();
        Ok(Plan {
            format: Plan::FORMAT,
            trainyard: env!("CARGO_PKG_VERSION").to_owned(),
            command: Vec::new(),
            scenario: scenario.name.clone(),
            settings: scenario::keys(&self.text, &self.origin(), &changes)?,
            question: question(&scenario, trials)?,
            total: trials.len(),
            points: Vec::new(),
        })
    }
}

/// What `scenario` asks.
fn question(scenario: &Scenario, trials: &[Trial]) -> Result<Question, ExperimentError> {
    let plan = &scenario.plan;
    let target = common_target(trials);
    if plan.samples.is_none() && target.is_none() {
        let why = "a plan compares whole trainings: say by `plan.samples` how many samples one \
                   takes, or give all runs one `stop.accuracy`";
        return Err(ExperimentError::Impossible(why.to_owned()));
    }
    let is_swept = |key: &&String| trials.iter().any(|trial| trial.swept().contains_key(*key));
    if let Some(key) = plan.given.iter().find(|key| !is_swept(key)) {
        let why = format!("plan.given: `{key}` is not swept; sweep it, or leave it out");
        return Err(ExperimentError::Impossible(why));
    }
    let currency = |price: &Price| price.currency.clone().unwrap_or_else(|| "USD".to_owned());
    Ok(Question {
        samples: plan.samples,
        target: target.filter(|_| plan.samples.is_none()),
        within: plan.within.map(|within| within.as_secs_f64()),
        budget: plan.budget,
        currency: plan.price.as_ref().map(currency),
        given: plan.given.clone(),
    })
}

impl Trial {
    /// The point with this number that was simulated as `run`.
    pub(crate) fn point(&self, number: usize, run: &Run, question: &Question) -> Point {
        let mut tasks = BTreeMap::new();
        for task in self.cluster.spec.tasks() {
            *tasks.entry(task.job().to_owned()).or_default() += 1;
        }
        Point::new((number, run), &tasks, question, self.price.as_ref())
    }
}
