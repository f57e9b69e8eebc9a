//! `Policy`: the decisions of one training's mode, at the task of the global step.

use std::collections::BTreeSet;
use std::fmt;

use super::counting::{Counted, Ended, count_each};
use super::gradients::Contribution;
use super::{Effect, Membership};

/// Decides which gradients count and which workers wait, in one training.
///
/// The [`Coordinator`](super::Coordinator) asks it. It passes on no beginning and no vote of
/// another epoch, of a departed worker, or after the end of the training; steps whose updates are
/// applied still count then. Each decision has a default: nobody votes, a step counts by itself
/// when its updates are applied, and its worker goes on at once.
pub(crate) trait Policy: fmt::Debug {
    /// Notes the beginning of a worker's step, if workers vote: others may be late by it.
    fn begin(&mut self, one: Contribution) -> Vec<Effect> {
        let _any = one;
        Vec::new()
    }

    /// Takes a vote: the end of a worker's step, whose gradients are on their way. Without rounds
    /// there is none that it could count in.
    fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        let _any = members;
        vec![Effect::Drop { worker: one.worker }]
    }

    /// Takes the end of `worker`'s step, when its updates are applied or dropped.
    fn commit(&mut self, worker: u32) -> Vec<Effect> {
        vec![Effect::Release { worker }]
    }

    /// Counts a step whose updates are applied.
    fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        let _any = members;
        count_each(now, step)
    }

    /// Takes the departure of `worker`: its open vote or commit is answered, and the remaining
    /// workers may now be enough.
    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = (members, worker);
        Vec::new()
    }

    /// Waits again for `worker`, which had departed. Rounds ask the membership instead.
    fn rejoin(&mut self, worker: u32) {
        let _any = worker;
    }

    /// A fence has been lifted. Those who wait here for its owner have one step more: the owner may
    /// in turn wait to hear what they alone have learnt, which they know once their step has ended.
    fn lift(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// Ends the training: all waiting workers are let go.
    fn finish(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// Behind a barrier: whether the last counted round has a gradient of `worker`, and the end of
    /// that step has yet to be told here.
    fn is_to_end(&self, worker: u32) -> bool {
        let _any = worker;
        false
    }

    /// The workers that wait here, and so are between two steps.
    fn resting(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The workers that others wait for here, by ascending index; empty if nobody waits.
    fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        let _any = members;
        Vec::new()
    }

    /// The number of gradients that make a round now, if the mode has rounds.
    fn round_size(&self, members: &Membership) -> Option<usize> {
        let _any = members;
        None
    }

    /// The round under way if workers vote, which is also the next version of the variables.
    fn round(&self) -> Option<u64> {
        None
    }

    /// Whether a commit may have to wait.
    fn holds_commits(&self) -> bool {
        false
    }
}

/// The policy without waiting: each step adds 1 to the global step.
#[derive(Debug)]
pub(super) struct Free;

impl Policy for Free {}
