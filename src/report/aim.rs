//! Aims: what each run trains, to which accuracy, and how long it took to that.

use std::collections::BTreeMap;

use super::Run;

/// What a run of a report trains, and how far.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    /// The run's name in the scenario.
    pub(crate) run: String,
    /// The swept values.
    pub(crate) settings: BTreeMap<String, serde_json::Value>,
    /// The program by number: runs with the same can be ranked.
    pub(crate) program: usize,
    /// The accuracy that it is to reach.
    pub(crate) target: Option<f64>,
}

impl Run {
    /// The time from the first step to the target accuracy \[s\]; none if it was not reached. What
    /// comes before the first step no mode decides, and of a launch no model predicts: processes
    /// begin.
    pub(crate) fn training_seconds_to_target(&self) -> Option<f64> {
        self.seconds_to_target.map(|seconds| (seconds - self.start_seconds).max(0.0))
    }

    /// The time from the first step to the end \[s\].
    pub(super) fn training_seconds(&self) -> f64 {
        (self.seconds - self.start_seconds).max(0.0)
    }
}
