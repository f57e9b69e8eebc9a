//! `k_batch_async`: one update from the first `k` gradients, of any version. Nobody waits (Dutta et
//! al. 2018: K-batch-async SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::gradients::{Arrived, Treatment};
use crate::sync::policy::Policy;
use crate::sync::protocol::{Needs, Problem, Protocol};
use crate::sync::rounds::{RoundRule, Rounds, Versions, Voters};

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

    fn rule(&self) -> RoundRule {
        RoundRule::first(self.k, Voters::GoOn, Versions::Any)
    }
}

impl Protocol for KBatchAsync {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        if self.k == 0 { Err(("k", "0 must be at least 1".to_owned())) } else { Ok(()) }
    }

    fn needs(&self) -> Needs {
        Needs::Votes { cancel: false }
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

impl fmt::Display for KBatchAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-batch-async", self.k)
    }
}
