//! A `[[fault]]` as it is typed: when, what, and for how long.

use serde::Deserialize;

use crate::units::Span;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::simulation::scenario) struct FaultFile {
    pub(in crate::simulation::scenario) at: Option<Span>,
    pub(in crate::simulation::scenario) crash: Option<String>,
    pub(in crate::simulation::scenario) restart_after: Option<Span>,
    pub(in crate::simulation::scenario) freeze: Option<String>,
    pub(in crate::simulation::scenario) partition: Option<Vec<String>>,
    pub(in crate::simulation::scenario) slow_link: Option<Vec<String>>,
    pub(in crate::simulation::scenario) slow_task: Option<String>,
    pub(in crate::simulation::scenario) factor: Option<f64>,
    #[serde(rename = "for")]
    pub(in crate::simulation::scenario) lasts: Option<Span>,
}
