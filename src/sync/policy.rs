//! `Policy`: the decisions of one training's mode, at the task of the global step.

use std::collections::BTreeSet;
use std::fmt;

use super::counting::{Counted, Ended, count_each};
use super::gradients::Contribution;
use super::rounds::Rounds;
use super::{Effect, Membership};

/// Decides which gradients count and which workers wait, in one training.
///
/// The [`Coordinator`](super::Coordinator) asks it. It never passes on a contribution of another
/// epoch or of a departed worker, nor any once the training is over.
#[derive(Debug)]
pub(crate) enum Policy {
    /// Nobody votes: a worker's step ends when its updates are applied.
    Commits(Box<dyn CommitPolicy>),
    /// Workers vote: a step ends when its gradients are on their way.
    Votes(Rounds),
}

/// The decisions of a mode without votes. Each has a default: a step counts by itself, and its
/// worker goes on at once.
pub(crate) trait CommitPolicy: fmt::Debug {
    /// Takes the end of `worker`'s step, when its updates are applied.
    fn commit(&mut self, worker: u32) -> Vec<Effect> {
        vec![Effect::Release { worker }]
    }

    /// Counts a step.
    fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        let _any = members;
        count_each(now, step)
    }

    /// Takes the departure of `worker`: its open commit is answered, and the remaining workers may
    /// now be enough.
    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = (members, worker);
        Vec::new()
    }

    /// Waits again for `worker`, which had departed.
    fn rejoin(&mut self, worker: u32) {
        let _any = worker;
    }

    /// Ends the training: all waiting workers are let go.
    fn finish(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// The workers that wait here, and so are between two steps.
    fn resting(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The workers that others wait for here, by ascending index; empty if nobody waits.
    fn waiting_for(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The number of gradients that make a round now, if the mode has rounds.
    fn round_size(&self, members: &Membership) -> Option<usize> {
        let _any = members;
        None
    }

    /// Whether a commit may have to wait.
    fn holds_commits(&self) -> bool {
        false
    }
}

impl Policy {
    /// Notes the beginning of a worker's step, if workers vote: others may be late by it.
    pub(super) fn begin(&mut self, one: Contribution) -> Vec<Effect> {
        match self {
            Self::Commits(_) => Vec::new(),
            Self::Votes(rounds) => rounds.begin(one),
        }
    }

    /// Takes a vote: the end of a worker's step, whose gradients are on their way. Without rounds
    /// there is none that it could count in.
    pub(super) fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        match self {
            Self::Commits(_) => vec![Effect::Drop { worker: one.worker }],
            Self::Votes(rounds) => rounds.vote(members, one),
        }
    }

    /// Takes the end of `worker`'s step, when its updates are applied or dropped.
    pub(super) fn commit(&mut self, worker: u32) -> Vec<Effect> {
        match self {
            Self::Commits(policy) => policy.commit(worker),
            Self::Votes(_) => vec![Effect::Release { worker }],
        }
    }

    /// Counts a step whose updates are applied.
    pub(super) fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        match self {
            Self::Commits(policy) => policy.count(members, now, step),
            Self::Votes(_) => count_each(now, step),
        }
    }

    /// Takes the departure of `worker`: its open vote or commit is answered, and the remaining
    /// workers may now be enough.
    pub(super) fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        match self {
            Self::Commits(policy) => policy.leave(members, worker),
            Self::Votes(rounds) => rounds.leave(members, worker),
        }
    }

    /// Waits again for `worker`, which had departed. Rounds ask the membership instead.
    pub(super) fn rejoin(&mut self, worker: u32) {
        if let Self::Commits(policy) = self {
            policy.rejoin(worker);
        }
    }

    /// Ends the training: all waiting workers are let go.
    pub(super) fn finish(&mut self) -> Vec<Effect> {
        match self {
            Self::Commits(policy) => policy.finish(),
            Self::Votes(rounds) => rounds.finish(),
        }
    }

    /// The workers that wait here, and so are between two steps.
    pub(super) fn resting(&self) -> BTreeSet<u32> {
        match self {
            Self::Commits(policy) => policy.resting(),
            Self::Votes(rounds) => rounds.resting(),
        }
    }

    /// The workers that others wait for here, by ascending index; empty if nobody waits.
    pub(super) fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        match self {
            Self::Commits(policy) => policy.waiting_for(),
            Self::Votes(rounds) => rounds.waiting_for(members),
        }
    }

    /// The number of gradients that make a round now, if the mode has rounds.
    pub(super) fn round_size(&self, members: &Membership) -> Option<usize> {
        match self {
            Self::Commits(policy) => policy.round_size(members),
            Self::Votes(rounds) => Some(rounds.size(members)),
        }
    }

    /// The round under way if workers vote, which is also the next version of the variables.
    pub(super) fn round(&self) -> Option<u64> {
        match self {
            Self::Commits(_) => None,
            Self::Votes(rounds) => Some(rounds.round()),
        }
    }

    /// Whether a commit may have to wait.
    pub(super) fn holds_commits(&self) -> bool {
        match self {
            Self::Commits(policy) => policy.holds_commits(),
            Self::Votes(_) => false,
        }
    }

    /// Whether a step that is taken again is a new contribution, to the round under way by then;
    /// else it counts once.
    pub(super) fn takes_steps_again(&self) -> bool {
        match self {
            Self::Commits(_) => false,
            Self::Votes(rounds) => rounds.takes_steps_again(),
        }
    }
}
