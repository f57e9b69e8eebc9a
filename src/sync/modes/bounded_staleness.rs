//! `bounded_staleness`: asynchronous, but a worker that is too far ahead of the slowest waits for
//! it (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
//! Server", 2013).
//!
//! A checkpoint lets those who wait take one step more, since it has what a worker alone has learnt
//! (`top_k`) only once the worker's step has ended.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::sync::policy::Policy;
use crate::sync::protocol::Protocol;
use crate::sync::{Effect, Membership};

/// Asynchronous, but a worker waits when it is more than `slack` steps ahead of the slowest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoundedStaleness {
    pub(crate) slack: u32,
}

impl BoundedStaleness {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "bounded_staleness";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ bounded_staleness = { slack = 4 } }";
}

impl Protocol for BoundedStaleness {
    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        let clocks = (0..workers).map(|worker| (worker, 0)).collect();
        let at = (workers > 0).then_some((0, workers)).into_iter().collect();
        let bound = Bound { slack: self.slack.into(), clocks, at, held: BTreeSet::new() };
        Box::new(bound)
    }
}

impl fmt::Display for BoundedStaleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bounded staleness, slack {}", self.slack)
    }
}

/// Lets a worker go on while it is at most `slack` steps ahead of the slowest live one.
#[derive(Debug)]
struct Bound {
    slack: u64,
    /// The number of steps that each live worker has committed.
    clocks: BTreeMap<u32, u64>,
    /// The number of live workers at each clock that any is at.
    at: BTreeMap<u64, u32>,
    /// The workers that wait for the slowest, each after its clock.
    held: BTreeSet<(u64, u32)>,
}

impl Bound {
    /// Releases, by ascending index, the workers that are at most `slack` ahead of the slowest.
    fn release_the_near(&mut self) -> Vec<Effect> {
        let Some(slowest) = self.slowest() else { return Vec::new() };
        let far = self.held.split_off(&(slowest.saturating_add(self.slack + 1), 0));
        release(std::mem::replace(&mut self.held, far))
    }

    fn slowest(&self) -> Option<u64> {
        self.at.first_key_value().map(|(clock, _)| *clock)
    }

    /// Takes a worker away from `clock`.
    fn leave_clock(&mut self, clock: u64) {
        let workers = self.at.get_mut(&clock).expect("a worker is at its clock");
        *workers -= 1;
        if *workers == 0 {
            self.at.remove(&clock);
        }
    }
}

/// Releases `held`, by ascending index.
fn release(held: BTreeSet<(u64, u32)>) -> Vec<Effect> {
    let mut workers: Vec<u32> = held.into_iter().map(|(_, worker)| worker).collect();
    workers.sort_unstable();
    workers.into_iter().map(|worker| Effect::Release { worker }).collect()
}

impl Policy for Bound {
    /// Releases a worker that has left at once: nobody counts on its clock.
    fn commit(&mut self, worker: u32) -> Vec<Effect> {
        let Some(clock) = self.clocks.get_mut(&worker) else {
            return vec![Effect::Release { worker }];
        };
        let before = *clock;
        *clock += 1;
        self.held.remove(&(before, worker));
        self.held.insert((before + 1, worker));
        *self.at.entry(before + 1).or_default() += 1;
        self.leave_clock(before);
        self.release_the_near()
    }

    fn leave(&mut self, _members: &Membership, worker: u32) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(clock) = self.clocks.remove(&worker) {
            self.leave_clock(clock);
            if self.held.remove(&(clock, worker)) {
                effects.push(Effect::Release { worker });
            }
        }
        effects.extend(self.release_the_near());
        effects
    }

    /// Starts the worker's clock at the slowest, so that it neither holds up others nor runs ahead.
    fn rejoin(&mut self, worker: u32) {
        let clock = self.slowest().unwrap_or(0);
        if let Entry::Vacant(vacant) = self.clocks.entry(worker) {
            vacant.insert(clock);
            *self.at.entry(clock).or_default() += 1;
        }
    }

    /// Releases all. They don't get farther ahead with each fence: before the next one is up, the
    /// slowest ends a step, too, unless it has not begun one.
    fn lift(&mut self) -> Vec<Effect> {
        release(std::mem::take(&mut self.held))
    }

    fn finish(&mut self) -> Vec<Effect> {
        release(std::mem::take(&mut self.held))
    }

    fn resting(&self) -> BTreeSet<u32> {
        self.held.iter().map(|(_, worker)| *worker).collect()
    }

    fn waiting_for(&self, _members: &Membership) -> Vec<u32> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let slowest = self.slowest();
        let is_slowest = |(_, clock): &(&u32, &u64)| Some(**clock) == slowest;
        self.clocks.iter().filter(is_slowest).map(|(worker, _)| *worker).collect()
    }

    fn holds_commits(&self) -> bool {
        true
    }
}
