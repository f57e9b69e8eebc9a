//! `[tune]`: settings that each run is simulated with in turn, of which the report keeps the best.

use serde::Deserialize;

use super::mistakes::Mistakes;

/// Settings to choose from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tune {
    /// The values of `program.optimizer.learning_rate` to try.
    #[serde(rename = "learning_rate")]
    pub learning_rates: Vec<f64>,
}

impl Tune {
    /// `file`, or nothing to choose from.
    pub(super) fn checked(file: Option<Self>, found: &mut Mistakes) -> Self {
        if let Some(tune) = &file {
            tune.check(found);
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
