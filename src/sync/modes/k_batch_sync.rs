//! `k_batch_sync`: one update from the first `k` gradients of the same version. Nobody waits, so
//! that a fast worker can have several in one update; gradients that come too late are dropped, and
//! with `cancel` not computed to their end (Dutta et al. 2018: K-batch-sync SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::{Problem, Protocol, at_least_1};
use crate::sync::rounds::{RoundRule, Versions, Voters};

/// One update from the first `k` gradients of the same version. Nobody waits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KBatchSync {
    pub(crate) k: u32,
    /// Whether a worker that is too late for a round is stopped, and begins anew with the next one.
    #[serde(default)]
    pub(crate) cancel: bool,
}

impl KBatchSync {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "k_batch_sync";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ k_batch_sync = { k = 4, cancel = true } }";
}

impl Protocol for KBatchSync {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        at_least_1("k", self.k)
    }

    fn rule(&self) -> Option<RoundRule> {
        let rule = RoundRule::first(self.k, Voters::GoOn, Versions::Same);
        Some(RoundRule { cancels: self.cancel, ..rule })
    }
}

impl fmt::Display for KBatchSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-batch-sync{}", self.k, if self.cancel { ", cancelling" } else { "" })
    }
}
