//! `k_async`: one update from the first `k` gradients, of as many workers, each of any version.
//! Those workers wait for the update, the others compute on (Dutta et al. 2018: K-async SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::{Problem, Protocol, at_least_1};
use crate::sync::rounds::{RoundRule, Versions, Voters};

/// One update from the first `k` gradients, of as many workers, of any version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KAsync {
    pub(crate) k: u32,
}

impl KAsync {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "k_async";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ k_async = { k = 3 } }";
}

impl Protocol for KAsync {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        at_least_1("k", self.k)?;
        let k = self.k;
        if k <= workers {
            return Ok(());
        }
        Err(("k", format!("{k} workers are to be in each update, but there are {workers}")))
    }

    fn rule(&self) -> Option<RoundRule> {
        Some(RoundRule::first(self.k, Voters::Wait, Versions::Any))
    }
}

impl fmt::Display for KAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-async", self.k)
    }
}
