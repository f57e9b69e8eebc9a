//! Rounds with backup workers: the first gradients of a round count, the others do not.

use std::collections::BTreeSet;

use super::coordinator::Effect;

/// The rounds of a synchronous training with backups (Chen et al., "Revisiting Distributed
/// Synchronous SGD", 2016): of `workers` the first `workers - backups` close a round.
#[derive(Debug)]
pub(super) struct BackupRounds {
    /// How many contributors a round has while enough workers live.
    wanted: usize,
    live: BTreeSet<u32>,
    /// The round under way.
    round: u64,
    /// Who has voted in it and has no answer yet.
    votes: BTreeSet<u32>,
}

impl BackupRounds {
    pub(super) fn new(workers: u32, backups: u32) -> Self {
        let wanted = workers.saturating_sub(backups) as usize;
        Self { wanted, live: (0..workers).collect(), round: 0, votes: BTreeSet::new() }
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// `worker`'s gradient of `version` is on its way. A worker that votes twice before it is
    /// answered (it restarted) has one vote and gets one answer.
    pub(super) fn vote(&mut self, worker: u32, version: u64) -> Vec<Effect> {
        assert!(version <= self.round, "a vote is for a version that exists: {version}, not {}", self.round);
        if version < self.round || !self.live.contains(&worker) {
            return vec![Effect::Drop { worker }];
        }
        self.votes.insert(worker);
        self.close_if_full().into_iter().collect()
    }

    /// `worker` is gone: its open vote is dropped, and the others may now be enough.
    pub(super) fn leave(&mut self, worker: u32) -> Vec<Effect> {
        self.live.remove(&worker);
        let dropped = self.votes.remove(&worker).then_some(Effect::Drop { worker });
        dropped.into_iter().chain(self.close_if_full()).collect()
    }

    /// `worker` is back.
    pub(super) fn rejoin(&mut self, worker: u32) {
        self.live.insert(worker);
    }

    /// Drops every open vote.
    pub(super) fn drop_votes(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.votes).into_iter().map(|worker| Effect::Drop { worker }).collect()
    }

    /// Who waits for the round under way to close: none of their gradients is applied before.
    pub(super) fn resting(&self) -> &BTreeSet<u32> {
        &self.votes
    }

    /// Who has not voted in the round under way, where somebody waits for it to close.
    pub(super) fn waiting_for(&self) -> Vec<u32> {
        if self.votes.is_empty() { Vec::new() } else { self.live.difference(&self.votes).copied().collect() }
    }

    fn close_if_full(&mut self) -> Option<Effect> {
        let enough = self.wanted.min(self.live.len()).max(1);
        if self.votes.len() < enough {
            return None;
        }
        let contributors = std::mem::take(&mut self.votes).into_iter().collect();
        self.round += 1;
        Some(Effect::Close { round: self.round - 1, contributors })
    }
}
