//! A `[[fault]]` as it is typed: when, what, and for how long.

use serde::Deserialize;

use crate::units::Span;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment::scenario) struct FaultFile {
    pub(in crate::experiment::scenario) at: Option<Span>,
    pub(in crate::experiment::scenario) crash: Option<String>,
    pub(in crate::experiment::scenario) restart_after: Option<Span>,
    pub(in crate::experiment::scenario) freeze: Option<String>,
    pub(in crate::experiment::scenario) partition: Option<Vec<String>>,
    pub(in crate::experiment::scenario) slow_link: Option<Vec<String>>,
    pub(in crate::experiment::scenario) slow_task: Option<String>,
    pub(in crate::experiment::scenario) factor: Option<f64>,
    #[serde(rename = "for")]
    pub(in crate::experiment::scenario) lasts: Option<Span>,
}
