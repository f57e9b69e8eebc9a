//! The best learning rates: of runs that differ in nothing else, the report keeps the best.

use super::series::{Series, series};
use super::tuned::{Tried, Tuned};
use super::{Report, Run, Swept};

impl Report {
    /// The key of the learning rate in a scenario.
    pub(crate) const LEARNING_RATE: &str = "program.optimizer.learning_rate";

    /// Keeps each run with its best learning rate alone: the one that reaches the target with
    /// the most seeds and, of several such, first; if none reaches it, the one that ends with the
    /// least loss. Of runs without several learning rates all are kept. Their learning rates were
    /// swept.
    pub fn keep_best_rates(&mut self) {
        let mut found: Vec<Tuned> = Vec::new();
        for series in series(self) {
            let (mut settings, run) = (series.settings().clone(), series.run());
            let Some((key, learning_rate)) = tuned(&settings) else { continue };
            settings.remove(key);
            let tried = Tried::of(&series, learning_rate);
            match found.iter_mut().find(|one| one.run == run && one.settings == settings) {
                Some(tuned) => tuned.tried.push(tried),
                None => {
                    let (run, key, tried) = (run.to_owned(), key.to_owned(), vec![tried]);
                    found.push(Tuned { run, settings, key, learning_rate, tried });
                }
            }
        }
        found.retain(|tuned| tuned.tried.len() > 1);
        for tuned in &mut found {
            let best =
                tuned.tried.iter().min_by(|a, b| a.rank().partial_cmp(&b.rank()).expect("no NaN"));
            tuned.learning_rate = best.expect("several were tried").learning_rate;
        }
        // Those that differ in nothing but the rate are where the first of them is.
        let mut order: Vec<(String, Swept)> = Vec::new();
        for run in &self.runs {
            let place = without_rate(run);
            if !order.contains(&place) {
                order.push(place);
            }
        }
        self.runs.retain_mut(|run| {
            let rate = tuned(&run.settings).map(|(_, rate)| rate);
            let (_, settings) = without_rate(run);
            let tuned = found.iter().find(|one| one.run == run.run && one.settings == settings);
            let Some(tuned) = tuned else { return true };
            run.settings = settings;
            rate == Some(tuned.learning_rate)
        });
        self.runs.sort_by_key(|run| order.iter().position(|place| *place == without_rate(run)));
        self.tuned = found;
    }
}

/// The run's name in the scenario, and its swept values but for the rate.
fn without_rate(run: &Run) -> (String, Swept) {
    let mut settings = run.settings.clone();
    if let Some((key, _)) = tuned(&settings) {
        settings.remove(key);
    }
    (run.run.clone(), settings)
}

/// The key that was tuned, and its value in `settings`. Schedules may be swept beside it.
fn tuned(settings: &Swept) -> Option<(&'static str, f64)> {
    let keys = [Tuned::INITIAL_RATE, Report::LEARNING_RATE].into_iter();
    keys.filter_map(|key| Some((key, settings.get(key)?.as_f64()?))).next()
}

impl Tried {
    fn of(series: &Series<'_>, learning_rate: f64) -> Self {
        let mean = |of: fn(&Run) -> Option<f64>| {
            let values: Option<Vec<f64>> = series.runs.iter().map(|run| of(run)).collect();
            let values = values.filter(|values| values.iter().all(|value| value.is_finite()))?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        let reached = series.runs.iter().filter(|run| run.seconds_to_target.is_some()).count();
        let until = |run: &Run| run.seconds_to_target.or(run.last_look_seconds);
        Self {
            learning_rate,
            runs: series.runs.len() as u64,
            reached: reached as u64,
            seconds: mean(until).filter(|_| !series.has_diverged()),
            seconds_to_target: mean(|run| run.seconds_to_target),
            final_loss: mean(|run| run.final_loss),
        }
    }
}
