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
            return Box::new(Barrier { workers, latest: 0, ended: BTreeMap::new() });
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
    /// The global step after the last step that has ended.
    latest: i64,
    /// By worker that has not left since: its last step that has ended.
    ended: BTreeMap<u32, Last>,
}

/// The last step of a worker.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// The master that ordered it.
    master: u64,
    /// The global step after it.
    reached: i64,
    /// If the worker was lost since: whether others had then ended a round after this step. That
    /// round has the worker's next gradient, since none was made without it before the loss.
    is_next_made: Option<bool>,
}

impl Policy for Barrier {
    /// Counts a round when the first of its steps ends. A step that is taken again after others
    /// have gone on counts none: its round is one that they have counted or, as long as there are
    /// others, will count.
    fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        let is_of_others = |last: &Last| {
            let may_be = last.is_next_made.unwrap_or(true) || members.live(self.workers) > 1;
            last.master == step.master && last.reached < step.read && may_be
        };
        let is_counted = step.is_again && self.ended.get(&step.worker).is_some_and(is_of_others);
        *now += i64::from(*now == step.read && !is_counted);
        self.latest = *now;
        let last = Last { master: step.master, reached: *now, is_next_made: None };
        self.ended.insert(step.worker, last);
        // Of a round that others have not ended yet, the step is as new as theirs.
        let staleness = (*now - 1 - step.read).max(0);
        Counted { global_step: *now, staleness, applied: true }
    }

    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        if members.has_left(worker) {
            self.ended.remove(&worker);
        } else if let Some(last) = self.ended.get_mut(&worker) {
            last.is_next_made.get_or_insert(last.reached < self.latest);
        }
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
