//! `bounded_staleness`: asynchronous, but a worker that is too far ahead of the slowest waits for
//! it (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
//! Server", 2013).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::{Needs, Policy, Protocol};
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
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        let clocks = (0..workers).map(|worker| (worker, 0)).collect();
        Box::new(Bound { slack: self.slack.into(), clocks, held: BTreeSet::new() })
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
    /// The workers that wait for the slowest.
    held: BTreeSet<u32>,
}

impl Bound {
    /// Releases, by ascending index, the workers that are at most `slack` ahead of the slowest.
    fn release_the_near(&mut self) -> Vec<Effect> {
        let Some(slowest) = self.slowest() else { return Vec::new() };
        let is_near = |worker: &u32| self.clocks[worker] - slowest <= self.slack;
        let (near, far) = std::mem::take(&mut self.held).into_iter().partition(is_near);
        self.held = far;
        BTreeSet::into_iter(near).map(|worker| Effect::Release { worker }).collect()
    }

    fn slowest(&self) -> Option<u64> {
        self.clocks.values().min().copied()
    }
}

impl Policy for Bound {
    /// Releases a worker that has left at once: nobody counts on its clock.
    fn commit(&mut self, _members: &Membership, worker: u32) -> Vec<Effect> {
        let Some(clock) = self.clocks.get_mut(&worker) else {
            return vec![Effect::Release { worker }];
        };
        *clock += 1;
        self.held.insert(worker);
        self.release_the_near()
    }

    fn leave(&mut self, _members: &Membership, worker: u32) -> Vec<Effect> {
        self.clocks.remove(&worker);
        let mut effects = Vec::new();
        if self.held.remove(&worker) {
            effects.push(Effect::Release { worker });
        }
        effects.extend(self.release_the_near());
        effects
    }

    /// Starts the worker's clock at the slowest, so that it neither holds up others nor runs ahead.
    fn rejoin(&mut self, worker: u32) {
        let clock = self.slowest().unwrap_or(0);
        self.clocks.entry(worker).or_insert(clock);
    }

    fn finish(&mut self) -> Vec<Effect> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|worker| Effect::Release { worker }).collect()
    }

    fn resting(&self) -> BTreeSet<u32> {
        self.held.clone()
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
