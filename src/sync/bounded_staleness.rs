//! Bounded staleness: a worker that is too far ahead of the slowest waits for it.

use std::collections::{BTreeMap, BTreeSet};

use super::coordinator::Effect;

/// The clocks of the workers (Ho et al., "More Effective Distributed ML via a Stale Synchronous
/// Parallel Parameter Server", 2013): a worker goes on while it is at most `slack` steps ahead of
/// the slowest live one.
#[derive(Debug)]
pub(super) struct StalenessBound {
    slack: u64,
    /// The steps that each live worker has committed.
    clocks: BTreeMap<u32, u64>,
    /// Who waits for the slowest.
    held: BTreeSet<u32>,
}

impl StalenessBound {
    pub(super) fn new(workers: u32, slack: u32) -> Self {
        let clocks = (0..workers).map(|worker| (worker, 0)).collect();
        Self { slack: u64::from(slack), clocks, held: BTreeSet::new() }
    }

    /// `worker` has finished a step. One that has left goes on at once: nobody counts on its clock.
    pub(super) fn commit(&mut self, worker: u32) -> Vec<Effect> {
        let Some(clock) = self.clocks.get_mut(&worker) else {
            return vec![Effect::Release { worker }];
        };
        *clock += 1;
        self.held.insert(worker);
        self.release_the_near()
    }

    /// `worker` is gone: it waits no more, and nobody waits for it.
    pub(super) fn leave(&mut self, worker: u32) -> Vec<Effect> {
        self.clocks.remove(&worker);
        let released = self.held.remove(&worker).then_some(Effect::Release { worker });
        released.into_iter().chain(self.release_the_near()).collect()
    }

    /// `worker` is back. It begins beside the slowest, so that it neither holds up others nor runs
    /// ahead of them.
    pub(super) fn rejoin(&mut self, worker: u32) {
        let clock = self.slowest().unwrap_or(0);
        self.clocks.entry(worker).or_insert(clock);
    }

    /// Releases whoever waits, however far ahead.
    pub(super) fn release_all(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.held)
            .into_iter()
            .map(|worker| Effect::Release { worker })
            .collect()
    }

    /// Who is held between two steps.
    pub(super) fn resting(&self) -> &BTreeSet<u32> {
        &self.held
    }

    /// The slowest live workers, where somebody waits for them.
    pub(super) fn waiting_for(&self) -> Vec<u32> {
        let slowest = self.slowest();
        let at_slowest = self
            .clocks
            .iter()
            .filter(|(_, clock)| Some(**clock) == slowest)
            .map(|(worker, _)| *worker);
        if self.held.is_empty() { Vec::new() } else { at_slowest.collect() }
    }

    /// Releases, by ascending index, those who are at most `slack` ahead of the slowest.
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
