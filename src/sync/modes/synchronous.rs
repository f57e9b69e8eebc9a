//! `sync`: one update a round, from one gradient of each worker, all of the same version of the
//! variables. With backups only the first gradients of a round count.
//!
//! Without backups the shards are the barrier: each collects the gradients of all live workers, and
//! nobody has to ask. With backups the task of the global step decides who is in time, and if late
//! workers are to be cancelled it stops those who are not (Dutta et al. 2018: K-sync SGD).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::sync::counting::{Counted, Ended};
use crate::sync::gradients::{Arrived, RoundPosition, Treatment};
use crate::sync::policy::Policy;
use crate::sync::protocol::{Needs, Problem, Protocol};
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
            0 => Needs::Barrier,
            _ => Needs::Votes { cancel: self.cancel },
        }
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        if self.backups > 0 {
            return Voters::Wait.treat(arrived);
        }
        let place = RoundPosition { round: arrived.version, index: arrived.worker };
        Treatment::Collect { place, waits: true }
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        if self.backups == 0 {
            return Box::new(Barrier::new(workers));
        }
        let size = workers.saturating_sub(self.backups);
        let rule = RoundRule::first(size, Voters::Wait, Versions::Same);
        Box::new(Rounds::new(RoundRule { cancels: self.cancel, ..rule }, workers))
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
    /// The global step before the first step that has ended.
    first: i64,
    /// The global step after the last step that has ended, if one has.
    latest: Option<i64>,
    /// By worker that has not left since: its last step that has ended.
    ended: BTreeMap<u32, Last>,
    /// The workers that have departed at some time: rounds may have been made without them.
    departed: BTreeSet<u32>,
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

impl Barrier {
    fn new(workers: u32) -> Self {
        let (ended, departed) = (BTreeMap::new(), BTreeSet::new());
        Self { workers, first: 0, latest: None, ended, departed }
    }

    /// Whether others have counted the round of `step`, which has a gradient of it.
    ///
    /// No round is made without a worker that has not departed, so its step is of the round after
    /// that of its last step, or of the first round. If it has read a later global step, others had
    /// ended that round before: its message to this task may come later than those to the
    /// variables.
    fn is_made(&self, step: &Ended) -> bool {
        match self.last_before(step) {
            Some(last) => last.is_next_made.unwrap_or(true),
            None if self.ended.contains_key(&step.worker) => false,
            None => !self.departed.contains(&step.worker) && self.first < step.read,
        }
    }

    /// Whether others will count the round of `step`. A step that is taken again after a loss is,
    /// as long as rounds wait for others, of such a round.
    fn is_under_way(&self, step: &Ended) -> bool {
        step.is_again && step.has_others && self.last_before(step).is_some()
    }

    /// The last step of the worker of `step`, in the same life, if others have ended a round since.
    fn last_before(&self, step: &Ended) -> Option<&Last> {
        let last = self.ended.get(&step.worker)?;
        (last.master == step.master && last.reached < step.read).then_some(last)
    }
}

impl Policy for Barrier {
    /// Counts a round when the first of its steps ends.
    fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        if self.latest != Some(*now) {
            // The training begins, or the global step was set from outside of it.
            self.first = *now;
            self.ended.clear();
        }
        let is_made = self.is_made(step);
        let is_of_others = is_made || self.is_under_way(step);
        if members.is_cut_off() && *now == step.read && !is_of_others {
            return Counted::dropped(*now, step.read); // the end has cut off its round
        }
        let is_ahead = *now == step.read && is_of_others && step.is_again;
        *now += i64::from(*now == step.read && !is_of_others);
        self.latest = Some(*now);
        let reached = *now + i64::from(is_ahead);
        let last = Last { master: step.master, reached, is_next_made: None };
        self.ended.insert(step.worker, last);
        // Of a round that others have not ended yet, the step is as new as theirs.
        let staleness = (*now - 1 - step.read).max(0);
        let is_earlier = is_made && step.is_again;
        Counted { global_step: *now, staleness, applied: true, is_ahead, is_earlier }
    }

    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        self.departed.insert(worker);
        if members.has_left(worker) {
            self.ended.remove(&worker);
        } else if let Some(last) = self.ended.get_mut(&worker) {
            let have_others_ended = self.latest.is_some_and(|latest| last.reached < latest);
            last.is_next_made.get_or_insert(have_others_ended);
        }
        Vec::new()
    }

    fn is_to_end(&self, worker: u32) -> bool {
        let Some(latest) = self.latest else { return false };
        match self.ended.get(&worker) {
            // Once it was lost, rounds may be made without it.
            Some(last) => last.reached < latest && last.is_next_made.is_none(),
            None => self.first < latest && !self.departed.contains(&worker),
        }
    }

    fn round_size(&self, members: &Membership) -> Option<usize> {
        Some(members.live(self.workers) as usize)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The global step after a step of `worker` that has read `read` ends at the global step `now`.
    fn after(barrier: &mut Barrier, worker: u32, (now, read): (i64, i64)) -> i64 {
        let (mut now, members) = (now, Membership::default());
        let (is_again, has_others) = (false, true);
        let step = Ended { worker, master: worker.into(), is_again, has_others, read };
        barrier.count(&members, &mut now, &step);
        now
    }

    #[test]
    fn a_round_counts_once_though_a_worker_reads_the_global_step_after_others_have_ended_it() {
        let mut barrier = Barrier::new(3);
        assert_eq!(after(&mut barrier, 0, (4, 4)), 5);
        assert_eq!(after(&mut barrier, 1, (5, 4)), 5);
        assert_eq!(after(&mut barrier, 2, (5, 5)), 5, "its first step, which read late");
        assert_eq!(after(&mut barrier, 0, (5, 5)), 6);
        assert_eq!(after(&mut barrier, 2, (6, 6)), 6, "its second step");
        assert_eq!(after(&mut barrier, 1, (6, 5)), 6);
        assert_eq!(after(&mut barrier, 1, (6, 6)), 7, "whoever is first");
    }

    #[test]
    fn a_global_step_that_was_set_from_outside_is_where_rounds_go_on() {
        let mut barrier = Barrier::new(2);
        assert_eq!(after(&mut barrier, 0, (4, 4)), 5);
        assert_eq!(after(&mut barrier, 1, (100, 100)), 101);
        assert_eq!(after(&mut barrier, 0, (101, 100)), 101);
    }

    #[test]
    fn a_worker_that_was_gone_counts_the_round_that_it_reads_first() {
        let (mut barrier, mut members) = (Barrier::new(2), Membership::default());
        assert_eq!(after(&mut barrier, 0, (4, 4)), 5);
        assert_eq!(after(&mut barrier, 1, (5, 4)), 5);
        members.lose(Some(1), &[]);
        barrier.leave(&members, 1);
        assert_eq!(after(&mut barrier, 0, (5, 5)), 6);
        let mut now = 6;
        let (is_again, has_others) = (false, true);
        let new_life = Ended { worker: 1, master: 99, is_again, has_others, read: 6 };
        barrier.count(&members, &mut now, &new_life);
        assert_eq!(now, 7);
    }

    #[test]
    fn a_round_of_a_step_that_is_taken_again_counts_at_once_if_nobody_else_is_in_it() {
        for has_others in [true, false] {
            let (mut barrier, mut members) = (Barrier::new(3), Membership::default());
            assert_eq!(after(&mut barrier, 0, (4, 4)), 5);
            members.lose(Some(0), &[]);
            barrier.leave(&members, 0);
            assert_eq!(after(&mut barrier, 1, (5, 4)), 5);
            assert_eq!(after(&mut barrier, 1, (5, 5)), 6);
            let again = Ended { worker: 0, master: 0, is_again: true, has_others, read: 6 };
            let mut now = 6;
            let counted = barrier.count(&members, &mut now, &again);
            assert_eq!((now, counted.is_ahead), if has_others { (6, true) } else { (7, false) });
            assert!(!counted.is_earlier, "no round was made with the earlier attempt");
        }
    }

    #[test]
    fn a_step_that_is_taken_again_after_others_have_ended_its_round_is_in_it_by_an_earlier_attempt()
    {
        for (read, is_earlier) in [(6, true), (5, false)] {
            let (mut barrier, members) = (Barrier::new(2), Membership::default());
            assert_eq!(after(&mut barrier, 0, (4, 4)), 5);
            assert_eq!(after(&mut barrier, 1, (5, 4)), 5);
            assert_eq!(after(&mut barrier, 1, (5, 5)), 6);
            let again = Ended { worker: 0, master: 0, is_again: true, has_others: true, read };
            let mut now = 6;
            assert_eq!(barrier.count(&members, &mut now, &again).is_earlier, is_earlier);
            assert_eq!(now, 6);
        }
    }
}
