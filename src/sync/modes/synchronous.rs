//! `sync`: one update a round, from one gradient of each worker, all of the same version of the
//! variables. With backups only the first gradients of a round count.
//!
//! Without backups the shards are the barrier: each collects the gradients of all live workers, and
//! nobody has to ask. With backups the task of the global step decides who is in time.

use std::fmt;

use serde::Deserialize;

use crate::sync::Membership;
use crate::sync::protocol::{
    Arrived, Counted, Ended, Needs, Place, Policy, Problem, Protocol, Treatment,
};
use crate::sync::rounds::{RoundRule, Rounds, Versions, Voters};

/// One update a round, from the first `workers - backups` gradients of one version.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sync {
    pub(crate) backups: u32,
}

impl Sync {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "sync";
    /// Examples, as they are typed.
    pub(super) const EXAMPLE: &str = "\"sync\", { sync = { backups = 1 } }";
}

impl Protocol for Sync {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        let backups = self.backups;
        if backups < workers {
            return Ok(());
        }
        let problem = format!("{backups} backups of {workers} workers leave nobody to wait for");
        Err(("backups", problem))
    }

    fn needs(&self) -> Needs {
        if self.backups == 0 { Needs::BARRIER } else { Needs::VOTE }
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        if self.backups > 0 {
            return Voters::Wait.treat(arrived);
        }
        let place = Place { round: arrived.version, index: arrived.worker };
        Treatment::Collect { place, waits: true }
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        if self.backups == 0 {
            return Box::new(Barrier { workers });
        }
        let rule = RoundRule {
            size: workers.saturating_sub(self.backups),
            voters: Voters::Wait,
            versions: Versions::Same,
            takes_steps_again: true,
        };
        Box::new(Rounds::new(rule, workers))
    }

    fn steps_of_a_worker(&self, global_step: u64, _workers: u32) -> u64 {
        global_step
    }
}

/// The policy of a barrier in the shards: nobody waits at the global step.
#[derive(Debug)]
struct Barrier {
    workers: u32,
}

impl Policy for Barrier {
    /// Counts a round with the first step of it that ends.
    fn count(&mut self, now: &mut i64, step: &Ended<'_>) -> Counted {
        *now += i64::from(*now == step.read);
        Counted { global_step: *now, staleness: *now - 1 - step.read, applied: true }
    }

    fn round_size(&self, members: &Membership) -> Option<usize> {
        Some(members.live(self.workers) as usize)
    }

    fn is_barrier(&self) -> bool {
        true
    }

    fn takes_steps_again(&self) -> bool {
        true
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backups {
            0 => f.write_str("sync"),
            1 => f.write_str("sync, 1 backup"),
            backups => write!(f, "sync, {backups} backups"),
        }
    }
}
