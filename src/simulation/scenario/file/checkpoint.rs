//! `[checkpoint]` as it is typed: how often, where, and which are kept.

use serde::Deserialize;

use crate::units::Span;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::simulation::scenario) struct CheckpointFile {
    pub(in crate::simulation::scenario) every_steps: Option<u64>,
    pub(in crate::simulation::scenario) every: Option<Span>,
    pub(in crate::simulation::scenario) directory: Option<String>,
    pub(in crate::simulation::scenario) keep: Option<usize>,
    pub(in crate::simulation::scenario) keep_every: Option<Span>,
    pub(in crate::simulation::scenario) fuzzy: bool,
}
