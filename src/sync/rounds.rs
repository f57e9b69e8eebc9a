//! Rounds made of votes: the first gradients of a round make one update, whichever workers sent
//! them.
//!
//! Shared by the modes whose rounds the task of the global step closes.

use std::collections::{BTreeMap, BTreeSet};

use super::gradients::{Arrived, Contribution, RoundPosition, Treatment};
use super::policy::Policy;
use super::{Effect, Membership};

/// The worker that saves the training.
const CHIEF: u32 = 0;

/// How a mode makes its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundRule {
    /// The number of gradients that make a round. If voters wait, it is never more than the live
    /// workers.
    pub(super) size: u32,
    pub(super) voters: Voters,
    pub(super) versions: Versions,
    /// Whether a worker is stopped once its step is too late for the round.
    pub(super) cancels: bool,
}

impl RoundRule {
    /// One update from the first `k` gradients.
    pub(super) fn first(k: u32, voters: Voters, versions: Versions) -> Self {
        Self { size: k, voters, versions, cancels: false }
    }
}

/// A worker's behaviour once it has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voters {
    /// The worker waits until the round is applied, and so has one gradient in it.
    Wait,
    /// The worker goes on, and may have several gradients in one round.
    GoOn,
}

/// The versions of which gradients count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// Only the version of the variables that the round updates.
    Same,
    /// That version and all older ones.
    Any,
}

impl Voters {
    /// The treatment of a gradient at a shard: its place was decided when the worker voted.
    pub(super) fn treat(self, arrived: &Arrived<'_>) -> Treatment {
        match arrived.verdict.and_then(|verdict| verdict.place) {
            Some(place) => Treatment::Collect { place, waits: self == Self::Wait },
            None => Treatment::Drop,
        }
    }
}

/// The rounds of a training (Chen et al., "Revisiting Distributed Synchronous SGD", 2016, for
/// backup workers; Dutta et al., "Slow and Stale Gradients Can Win the Race", 2018, for K-async and
/// the K-batch modes).
#[derive(Debug)]
pub(super) struct Rounds {
    rule: RoundRule,
    workers: u32,
    /// The round under way.
    round: u64,
    /// The workers whose gradients are in it, by place: in the order of their votes. The place of a
    /// worker that is lost is vacant until the next vote.
    votes: Vec<Option<u32>>,
    /// If voters go on: by worker, the place of its last vote in the round under way. The gradients
    /// of its earlier ones have arrived, since it has gone on; that of the last may not have.
    last_places: BTreeMap<u32, usize>,
    /// By worker that computes and is to be stopped if it is late: the version it computes from.
    computing: BTreeMap<u32, u64>,
    /// Once a worker has left in good order: those who have learnt since how far the training has
    /// come.
    informed: Option<BTreeSet<u32>>,
}

impl Rounds {
    pub(super) fn new(rule: RoundRule, workers: u32) -> Self {
        Self {
            rule,
            workers,
            round: 0,
            votes: Vec::new(),
            last_places: BTreeMap::new(),
            computing: BTreeMap::new(),
            informed: None,
        }
    }

    /// The number of gradients that make a round now.
    fn size(&self, members: &Membership) -> usize {
        let wanted = match self.rule.voters {
            Voters::Wait => self.rule.size.min(members.live(self.workers)),
            Voters::GoOn => self.rule.size,
        };
        wanted.max(1) as usize
    }

    /// Drops the open votes: these workers learn how far the training has come, and vote again only
    /// if they train on.
    fn drop_open_votes(&mut self) -> Vec<Effect> {
        let open = self.resting();
        self.votes.clear();
        self.last_places.clear();
        open.into_iter().map(|worker| Effect::Drop { worker }).collect()
    }

    fn close_if_full(&mut self, members: &Membership) -> Vec<Effect> {
        if self.votes.len() < self.size(members) {
            return Vec::new();
        }
        let voters: Option<Vec<u32>> = self.votes.iter().copied().collect();
        let Some(mut contributors) = voters else { return Vec::new() };
        self.votes.clear();
        self.last_places.clear();
        let round = self.round;
        self.round += 1;
        if self.rule.voters == Voters::GoOn {
            let mut effects = vec![Effect::Close { round, contributors }];
            effects.extend(self.stop_late(round));
            return effects;
        }
        // The gradients are summed in the order of the workers, not of their votes.
        contributors.sort_unstable();
        let mut effects = vec![Effect::Close { round, contributors: contributors.clone() }];
        for (worker, index) in contributors.into_iter().zip(0..) {
            effects.push(Effect::Count { worker, place: RoundPosition { round, index } });
        }
        effects.extend(self.stop_late(round));
        effects
    }

    /// Stops all who compute and may be stopped.
    fn stop_all(&mut self) -> impl Iterator<Item = Effect> + use<> {
        self.stop_late(u64::MAX)
    }

    /// Stops those who compute from the version `last` or an older one.
    fn stop_late(&mut self, last: u64) -> impl Iterator<Item = Effect> + use<> {
        let is_late = |version: u64| version <= last;
        let late = self.computing.iter().filter(|(_, version)| is_late(**version));
        let late: Vec<u32> = late.map(|(worker, _)| *worker).collect();
        self.computing.retain(|_, version| !is_late(*version));
        late.into_iter().map(|worker| Effect::Stop { worker })
    }
}

impl Policy for Rounds {
    /// A worker can read variables before they have had the update of the last round. It is not
    /// stopped before another has read them all with it: until then it might begin anew in vain.
    fn begin(&mut self, one: Contribution) -> Vec<Effect> {
        let version = one.version.updates;
        self.computing.insert(one.worker, version);
        match version.checked_sub(1) {
            Some(before) => self.stop_late(before).collect(),
            None => Vec::new(),
        }
    }

    /// Takes a vote. A worker that votes twice before it is answered (it restarted) has one vote
    /// and gets one answer.
    fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        let (worker, version) = (one.worker, one.version.updates);
        self.computing.remove(&worker);
        assert!(
            version <= self.round,
            "a vote is for a version that exists: {version}, not {}",
            self.round
        );
        if self.rule.versions == Versions::Same && version < self.round {
            return vec![Effect::Drop { worker }];
        }
        if self.informed.as_mut().is_some_and(|informed| informed.insert(worker)) {
            return vec![Effect::Drop { worker }];
        }
        match self.rule.voters {
            Voters::Wait if self.votes.contains(&Some(worker)) => Vec::new(),
            Voters::Wait => {
                self.votes.push(Some(worker));
                self.close_if_full(members)
            }
            Voters::GoOn => {
                let vacant = self.votes.iter().position(Option::is_none);
                let index = vacant.unwrap_or(self.votes.len());
                match self.votes.get_mut(index) {
                    Some(voter) => *voter = Some(worker),
                    None => self.votes.push(Some(worker)),
                }
                self.last_places.insert(worker, index);
                let place = RoundPosition { round: self.round, index: index as u32 };
                let mut effects = self.close_if_full(members);
                effects.push(Effect::Count { worker, place });
                effects
            }
        }
    }

    /// Drops the open vote of `worker`; the other votes may now be enough. If voters go on there is
    /// no open vote: the place of the worker's last one in the round under way goes to another if
    /// it is lost, and the shards know that its gradients may be missing in earlier rounds.
    ///
    /// A worker that leaves in good order may be the first to see the end of the training. Each of
    /// the others has its next vote dropped, and goes on only if what it then learns is not the end
    /// for it, too: else the training would end with an update too many, of too few gradients.
    ///
    /// The chief's end is that of all: who may be stopped then is, and need not end its step.
    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        self.computing.remove(&worker);
        let last = self.last_places.remove(&worker);
        if let Some(place) = last.filter(|_| !members.has_left(worker)) {
            self.votes[place] = None;
        }
        let mut effects = Vec::new();
        if self.resting().contains(&worker) {
            self.votes.retain(|voter| *voter != Some(worker));
            effects.push(Effect::Drop { worker });
        }
        let has_begun = self.round > 0 || !self.votes.is_empty();
        if self.rule.voters == Voters::Wait && has_begun && members.has_left(worker) {
            self.informed = Some(self.resting());
            effects.extend(self.drop_open_votes());
        }
        if worker == CHIEF && members.has_left(worker) {
            effects.extend(self.stop_all());
        }
        effects.extend(self.close_if_full(members));
        effects
    }

    /// Gives up the round under way: drops every open vote, and stops who may be stopped.
    fn finish(&mut self) -> Vec<Effect> {
        let mut effects = self.drop_open_votes();
        effects.extend(self.stop_all());
        effects
    }

    /// The workers that wait for the round under way to close: none of their gradients is applied
    /// before.
    fn resting(&self) -> BTreeSet<u32> {
        match self.rule.voters {
            Voters::Wait => self.votes.iter().copied().flatten().collect(),
            Voters::GoOn => BTreeSet::new(),
        }
    }

    fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        let open = self.resting();
        if open.is_empty() {
            return Vec::new();
        }
        let is_missing = |worker: &u32| members.is_live(*worker) && !open.contains(worker);
        (0..self.workers).filter(is_missing).collect()
    }

    fn round_size(&self, members: &Membership) -> Option<usize> {
        Some(self.size(members))
    }

    fn round(&self) -> Option<u64> {
        Some(self.round)
    }
}
