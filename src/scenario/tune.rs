//! `[tune]`: settings that each run is simulated with in turn, of which the report keeps the best.

use serde::Deserialize;

use super::Scenario;
use super::mistakes::Mistakes;
use crate::graph::{LearningRate, Schedule};
use crate::report::{Report, Tuned};

/// Settings to choose from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tune {
    /// The learning rates to try: of a schedule, the `initial` ones, so that it keeps its shape
    /// and its warm-up.
    #[serde(rename = "learning_rate")]
    pub learning_rates: Vec<f64>,
}

impl Tune {
    /// `file`, or nothing to choose from, for runs that learn something by their learning rate or
    /// do not.
    pub(super) fn checked(file: Option<Self>, learns: bool, found: &mut Mistakes) -> Self {
        if let Some(tune) = &file {
            tune.check(found);
            found.unless(learns, "tune", || {
                "with `numerics = \"shapes\"`, a table of layers or the models `null` and `count` \
                 nothing is learnt, so no learning rate is better than another; remove the section"
                    .to_owned()
            });
        }
        file.unwrap_or_default()
    }

    fn check(&self, found: &mut Mistakes) {
        let path = "tune.learning_rate";
        found.unless(self.learning_rates.len() >= 2, path, || {
            "give at least two rates to choose from, as in `[0.05, 0.1, 0.2]`".to_owned()
        });
        for (index, rate) in self.learning_rates.iter().enumerate() {
            found.above_0(*rate, &format!("{path}[{index}]"));
        }
    }
}

impl Scenario {
    /// The key whose values `[tune]` tries in all of `scenarios`.
    ///
    /// # Errors
    /// If there is no such key, or it is another one in another scenario; the text says what to do.
    pub(crate) fn tuned_key<'a>(
        scenarios: impl IntoIterator<Item = &'a Self>,
    ) -> Result<&'static str, String> {
        let keys = scenarios.into_iter().map(|scenario| {
            key_of(&scenario.settings.optimizer.learning_rate).ok_or_else(|| {
                format!(
                    "`[tune]` tries values of a schedule's `initial`, which \"piecewise_constant\" \
                     lacks: remove `[tune]` (`--unset tune`), and give whole schedules in turn, \
                     `--sweep '{}={{ schedule = ... }},{{ schedule = ... }}'`",
                    Report::LEARNING_RATE
                )
            })
        });
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        keys.dedup();
        match keys[..] {
            [key] => Ok(key),
            _ => Err("`[tune]` tries one key, but of the swept learning rates some are numbers \
                      and some schedules; tune these apart"
                .to_owned()),
        }
    }
}

/// The key of the number that makes `rate` greater or less as a whole; none if it has none.
fn key_of(rate: &LearningRate) -> Option<&'static str> {
    match rate.schedule {
        _ if rate.constant().is_some() => Some(Report::LEARNING_RATE),
        Schedule::PiecewiseConstant { .. } => None,
        _ => Some(Tuned::INITIAL_RATE),
    }
}
