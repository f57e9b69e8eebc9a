//! Rounds made of votes: the first gradients of a round are one update, whoever's they are.

use std::collections::BTreeSet;

use super::Place;
use super::coordinator::Effect;

/// How a mode makes its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundRule {
    /// How many gradients make a round. Where voters wait, never more than there are live workers.
    pub(crate) size: u32,
    pub(crate) voters: Voters,
    pub(crate) versions: Versions,
}

/// What a worker does once it has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voters {
    /// It waits until the round is applied, and so has one gradient in it.
    Wait,
    /// It goes on, and may have several gradients in one round.
    GoOn,
}

/// Which gradients count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Those computed from the version of the variables that the round updates.
    Same,
    /// Those of older versions too.
    Any,
}

/// The rounds of a training (Chen et al., "Revisiting Distributed Synchronous SGD", 2016, for
/// backup workers; Dutta et al., "Slow and Stale Gradients Can Win the Race", 2018, for K-async and
/// the K-batch modes).
#[derive(Debug)]
pub(super) struct Rounds {
    rule: RoundRule,
    live: BTreeSet<u32>,
    /// The round under way.
    round: u64,
    /// Whose gradients are in it, in the order of the votes.
    votes: Vec<u32>,
}

impl Rounds {
    pub(super) fn new(rule: RoundRule, workers: u32) -> Self {
        Self { rule, live: (0..workers).collect(), round: 0, votes: Vec::new() }
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// How many gradients make a round now.
    pub(super) fn size(&self) -> usize {
        let wanted = self.rule.size as usize;
        match self.rule.voters {
            Voters::Wait => wanted.min(self.live.len()).max(1),
            Voters::GoOn => wanted.max(1),
        }
    }

    /// `worker`'s gradient of `version` is on its way. A worker that votes twice before it is
    /// answered (it restarted) has one vote and gets one answer.
    pub(super) fn vote(&mut self, worker: u32, version: u64) -> Vec<Effect> {
        assert!(
            version <= self.round,
            "a vote is for a version that exists: {version}, not {}",
            self.round
        );
        let is_late = self.rule.versions == Versions::Same && version < self.round;
        if is_late || !self.live.contains(&worker) {
            return vec![Effect::Drop { worker }];
        }
        match self.rule.voters {
            Voters::Wait if self.votes.contains(&worker) => Vec::new(),
            Voters::Wait => {
                self.votes.push(worker);
                self.close_if_full()
            }
            Voters::GoOn => {
                let place = Place { round: self.round, index: self.votes.len() as u32 };
                self.votes.push(worker);
                let mut effects = self.close_if_full();
                effects.push(Effect::Count { worker, place });
                effects
            }
        }
    }

    /// `worker` is gone: its open vote is dropped, and the others may now be enough. Where voters
    /// go on it has none: its places stay, and those who collect the gradients know that it is
    /// gone.
    pub(super) fn leave(&mut self, worker: u32) -> Vec<Effect> {
        self.live.remove(&worker);
        let open = self.resting().contains(&worker);
        if open {
            self.votes.retain(|voter| *voter != worker);
        }
        let dropped = open.then_some(Effect::Drop { worker });
        dropped.into_iter().chain(self.close_if_full()).collect()
    }

    /// `worker` is back.
    pub(super) fn rejoin(&mut self, worker: u32) {
        self.live.insert(worker);
    }

    /// Gives up the round under way: drops every open vote.
    pub(super) fn drop_votes(&mut self) -> Vec<Effect> {
        let open = self.resting();
        self.votes.clear();
        open.into_iter().map(|worker| Effect::Drop { worker }).collect()
    }

    /// Who waits for the round under way to close: none of their gradients is applied before.
    pub(super) fn resting(&self) -> BTreeSet<u32> {
        match self.rule.voters {
            Voters::Wait => self.votes.iter().copied().collect(),
            Voters::GoOn => BTreeSet::new(),
        }
    }

    /// Who has not voted in the round under way, where somebody waits for it to close.
    pub(super) fn waiting_for(&self) -> Vec<u32> {
        let open = self.resting();
        if open.is_empty() { Vec::new() } else { self.live.difference(&open).copied().collect() }
    }

    fn close_if_full(&mut self) -> Vec<Effect> {
        if self.votes.len() < self.size() {
            return Vec::new();
        }
        let mut contributors = std::mem::take(&mut self.votes);
        let round = self.round;
        self.round += 1;
        if self.rule.voters == Voters::GoOn {
            return vec![Effect::Close { round, contributors }];
        }
        // They are summed in the order of the workers, not in that of their votes.
        contributors.sort_unstable();
        let counted = contributors.clone().into_iter().zip(0..);
        let counted =
            counted.map(|(worker, index)| Effect::Count { worker, place: Place { round, index } });
        std::iter::once(Effect::Close { round, contributors }).chain(counted).collect()
    }
}
