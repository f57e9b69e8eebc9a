//! `k_batch_async`: one update from the first `k` gradients, of any version. Nobody waits (Dutta et
//! al. 2018: K-batch-async SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::{Problem, Protocol, at_least_1};
use crate::sync::rounds::{RoundRule, Versions, Voters};

/// One update from the first `k` gradients, of any version. Nobody waits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KBatchAsync {
    pub(crate) k: u32,
}

impl KBatchAsync {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "k_batch_async";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ k_batch_async = { k = 4 } }";
}

impl Protocol for KBatchAsync {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        at_least_1("k", self.k)
    }

    fn rule(&self) -> Option<RoundRule> {
        Some(RoundRule::first(self.k, Voters::GoOn, Versions::Any))
    }
}

impl fmt::Display for KBatchAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-batch-async", self.k)
    }
}
