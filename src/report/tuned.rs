//! The learning rates that a run was tried with, and the best of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::swept::swept_name;

/// The learning rates that a run was tried with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tuned {
    /// The run's name in the scenario.
    pub run: String,
    /// The swept values, without the learning rate.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The key of the scenario that has the rate: the learning rate, or the one that a schedule
    /// begins with.
    pub key: String,
    /// The best learning rate, with which the run is in the report.
    pub learning_rate: f64,
    /// All that were tried, in the scenario's order.
    pub tried: Vec<Tried>,
}

/// A learning rate that was tried; numbers are means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tried {
    /// The learning rate.
    pub learning_rate: f64,
    /// The number of runs with it: one for each seed.
    pub runs: u64,
    /// The number of them that reached the target.
    pub reached: u64,
    /// The time to the target \[s\]; none if a seed did not reach it.
    pub seconds_to_target: Option<f64>,
    /// The same, but a seed that did not reach the target counts with the time of its last look at
    /// the test split; none if one diverged or has none.
    #[serde(skip)]
    pub(super) seconds: Option<f64>,
    /// The last loss on the test split; none if a seed diverged, or no loss was computed.
    pub final_loss: Option<f64>,
}

impl Tried {
    /// Whether it reached no target and ended with no loss, such as by diverging.
    fn is_without_result(&self) -> bool {
        self.reached == 0 && self.final_loss.is_none()
    }

    /// Less is better: first more seeds that reached the target, then less time, then less loss.
    /// Where no seed reached it, the time says only when the runs ended.
    pub(super) fn rank(&self) -> (Reverse<u64>, f64, f64) {
        let known = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        let seconds = if self.reached == 0 { 0.0 } else { known(self.seconds) };
        (Reverse(self.reached), seconds, known(self.final_loss))
    }
}

impl Tuned {
    /// The key of the rate that a learning rate which follows a schedule begins with.
    pub(crate) const INITIAL_RATE: &str = "program.optimizer.learning_rate.initial";
    /// The remark on figures that the rates were chosen by.
    pub(super) const REMARK: &str = "the rates were chosen by these same seeds, so the figures are \
                                     a little better than those of other seeds would be";

    /// `async (cluster.worker=4): 0.1 is the best of the learning rates 0.05, 0.1, 0.2`, of a
    /// schedule "the initial learning rates", and whether others might be better; or that none came
    /// to anything.
    pub(super) fn render(&self) -> String {
        let Self { run, settings, key, learning_rate, tried } = self;
        let which = if key == Self::INITIAL_RATE { "initial learning" } else { "learning" };
        let run = swept_name(run, settings);
        let mut rates: Vec<f64> = tried.iter().map(|tried| tried.learning_rate).collect();
        let words = rates.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        if tried.iter().all(Tried::is_without_result) {
            return format!(
                "{run}: with none of the {which} rates {words} it came to a finite loss; the \
                 figures are those of {learning_rate}"
            );
        }
        rates.sort_by(f64::total_cmp);
        let beyond = match (rates.first(), rates.last()) {
            (Some(least), _) if least == learning_rate => "; a lesser one may be better",
            (_, Some(greatest)) if greatest == learning_rate => "; a greater one may be better",
            _ => "",
        };
        let reached = self.reached_in_words().unwrap_or_default();
        format!("{run}: {learning_rate} is the best of the {which} rates {words}{reached}{beyond}")
    }

    /// How many runs of each rate reached the target: ` (0, 5, 6 of 6 runs reached the target)`.
    /// None if all runs did, or none, or each rate was tried with one run.
    fn reached_in_words(&self) -> Option<String> {
        let differs = |tried: &Tried| tried.reached < tried.runs;
        let is_split = self.tried.iter().any(differs) && self.tried.iter().any(|it| it.reached > 0);
        let reached: Vec<String> = self.tried.iter().map(|it| it.reached.to_string()).collect();
        let (reached, runs) = (reached.join(", "), self.tried.first()?.runs);
        (is_split && runs > 1).then(|| format!(" ({reached} of {runs} runs reached the target)"))
    }
}
