//! `k_async`: one update from the first `k` gradients, of as many workers, each of any version.
//! Those workers wait for the update, the others compute on (Dutta et al. 2018: K-async SGD).

use std::fmt;

use serde::Deserialize;

use crate::sync::gradients::{Arrived, Treatment};
use crate::sync::policy::Policy;
use crate::sync::protocol::{Needs, Problem, Protocol};
use crate::sync::rounds::{RoundRule, Rounds, Versions, Voters};

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

    fn rule(&self) -> RoundRule {
        RoundRule::first(self.k, Voters::Wait, Versions::Any)
    }
}

impl Protocol for KAsync {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        match self.k {
            0 => Err(("k", "0 must be at least 1".to_owned())),
            k if k > workers => {
                let problem =
                    format!("{k} workers are to be in each update, but there are {workers}");
                Err(("k", problem))
            }
            _ => Ok(()),
        }
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
}

impl fmt::Display for KAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-async", self.k)
    }
}
