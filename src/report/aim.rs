//! Aims: what each run trains, and to which accuracy.

use std::collections::BTreeMap;

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
