//! `[checkpoint]` as it is typed: how often, where, and which are kept.

use serde::Deserialize;

use crate::units::Span;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::experiment::scenario) struct CheckpointFile {
    pub(in crate::experiment::scenario) every_steps: Option<u64>,
    pub(in crate::experiment::scenario) every: Option<Span>,
    pub(in crate::experiment::scenario) directory: Option<String>,
    pub(in crate::experiment::scenario) keep: Option<usize>,
    pub(in crate::experiment::scenario) keep_every: Option<Span>,
    pub(in crate::experiment::scenario) fuzzy: bool,
}
