//! `sync`: one update a round, from one gradient of each worker, all of the same version of the
//! variables. With backups only the first gradients of a round count.
//!
//! Without backups the shards are the barrier: each collects the gradients of all live workers, and
//! nobody has to ask. With backups the task of the global step decides who is in time, and if late
//! workers are to be cancelled it stops those who are not (Dutta et al. 2018: K-sync SGD).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::sync::counting::{Counted, Ended};
use crate::sync::protocol::{Arrived, Needs, Place, Policy, Problem, Protocol, Treatment};
use crate::sync::rounds::{RoundRule, Rounds, Versions, Voters};
use crate::sync::{Effect, Membership};

/// One update a round, from the first `workers - backups` gradients of one version.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sync {
    pub(crate) backups: u32,
    /// Whether a worker that is too late for a round is stopped, and begins anew with the next one.
    pub(crate) cancel: bool,
}

impl Sync {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "sync";
    /// Examples, as they are typed.
    pub(super) const EXAMPLE: &str = "\"sync\", { sync = { backups = 1, cancel = true } }";
}

impl Protocol for Sync {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        let backups = self.backups;
        if self.cancel && backups == 0 {
            let problem = "without backups nobody is late: give some, or leave it out".to_owned();
            return Err(("cancel", problem));
        }
        if backups < workers {
            return Ok(());
        }
        let problem = format!("{backups} backups of {workers} workers leave nobody to wait for");
        Err(("backups", problem))
    }

    fn needs(&self) -> Needs {
        match self.backups {
            0 => Needs::BARRIER,
            _ => Needs { cancel: self.cancel, ..Needs::VOTE },
        }
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
            return Box::new(Barrier { workers, reached: BTreeMap::new() });
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

    fn gradients_of_a_step(&self, workers: u32) -> u64 {
        u64::from(workers.saturating_sub(self.backups))
    }
}

/// The policy of a barrier in the shards: nobody waits at the global step.
#[derive(Debug)]
struct Barrier {
    workers: u32,
    /// By worker that has not departed since: the global step after its last step.
    reached: BTreeMap<u32, i64>,
}

impl Policy for Barrier {
    /// Counts a round with the first step of it that ends. If a step is taken again after others
    /// of its round have ended, it is of the round before the global step that it has read.
    fn count(&mut self, now: &mut i64, step: &Ended) -> Counted {
        let before = self.reached.get(&step.worker).copied();
        let is_counted = step.is_again && before.is_some_and(|before| before + 1 == step.read);
        *now += i64::from(*now == step.read && !is_counted);
        self.reached.insert(step.worker, *now);
        let read = step.read - i64::from(is_counted);
        Counted { global_step: *now, staleness: *now - 1 - read, applied: true }
    }

    /// Others go on without `worker`: its next step is of whichever round it then reads.
    fn leave(&mut self, _: &Membership, worker: u32) -> Vec<Effect> {
        self.reached.remove(&worker);
        Vec::new()
    }

    fn round_size(&self, members: &Membership) -> Option<usize> {
        Some(members.live(self.workers) as usize)
    }

    fn is_barrier(&self) -> bool {
        true
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backups {
            0 => f.write_str("sync"),
            1 => f.write_str("sync, 1 backup"),
            backups => write!(f, "sync, {backups} backups"),
        }?;
        f.write_str(if self.cancel { ", cancelling" } else { "" })
    }
}
