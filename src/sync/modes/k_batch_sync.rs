//! `k_batch_sync`: one update from the first `k` gradients of the same version. Nobody waits, so
//! that a fast worker can have several in one update; gradients that come too late are dropped, and
//! with `cancel` not computed to their end (Dutta et al. 2018: K-batch-sync SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::gradients::{Arrived, Treatment};
use crate::sync::policy::Policy;
use crate::sync::protocol::{Needs, Problem, Protocol};
use crate::sync::rounds::{RoundRule, Rounds, Versions, Voters};

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

    fn rule(&self) -> RoundRule {
        RoundRule::first(self.k, Voters::GoOn, Versions::Same)
    }
}

impl Protocol for KBatchSync {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        if self.k == 0 { Err(("k", "0 must be at least 1".to_owned())) } else { Ok(()) }
    }

    fn needs(&self) -> Needs {
        Needs::Votes { cancel: self.cancel }
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        self.rule().voters.treat(arrived)
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        Box::new(Rounds::new(self.rule(), workers))
    }

    fn steps_of_a_worker(&self, global_step: u64, workers: u32) -> u64 {
        self.rule().steps_of_a_worker(global_step, workers)
    }

    fn left_over(&self, counted: u64, updates: u64) -> u64 {
        self.rule().left_over(counted, updates)
    }
}

impl fmt::Display for KBatchSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-batch-sync{}", self.k, if self.cancel { ", cancelling" } else { "" })
    }
}
