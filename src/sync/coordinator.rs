//! Decides when a worker's step counts and when the worker goes on; one for each training.

use super::counting::{Counted, Ended};
use super::effect::Effect;
use super::fence::Fence;
use super::gradients::Contribution;
use super::policy::Policy;
use super::{Epoch, Membership, Mode, Version};

/// Decides, at the task that holds the global step, when a worker's step counts.
///
/// Every vote gets exactly one answer (an [`Effect::Count`] or an [`Effect::Drop`]) and every
/// commit exactly one [`Effect::Release`], at once or later, even if workers leave or the training
/// is over. So no worker waits for ever.
///
/// Once the end of the training is announced no round is closed any more: open votes and those that
/// still come are dropped. What is under way counts as if there was no end: rounds that are closed,
/// and steps whose updates are applied. A fence waits for these steps, too.
///
/// A worker can put up a fence, for a checkpoint: it is told once every other worker is between two
/// steps, and none of them goes on until it lifts the fence. Meanwhile all variables hold the same
/// whole steps.
///
/// The coordinator reads from the task's [`Membership`] who takes part and whether the training is
/// over.
#[derive(Debug)]
pub(crate) struct Coordinator {
    policy: Box<dyn Policy>,
    /// Whether the shards hold all workers.
    is_barrier: bool,
    /// The epoch of its decisions; contributions of another epoch are dropped.
    epoch: Epoch,
    workers: u32,
    fence: Option<Fence>,
}

impl Coordinator {
    /// Creates the coordinator of a training, in the epoch of `members`.
    pub(crate) fn new(mode: Mode, workers: u32, members: &Membership) -> Self {
        let mut policy = mode.policy(workers);
        for worker in members.departed(workers) {
            let effects = policy.leave(members, worker);
            assert!(effects.is_empty(), "nobody waits in a training that has just begun");
        }
        let is_barrier = mode.needs().is_barrier();
        Self { policy, is_barrier, epoch: members.epoch(), workers, fence: None }
    }

    /// Behind a barrier: `worker` is there, and takes no part in rounds until it is let in.
    pub(crate) fn keep_out(&mut self, members: &Membership, worker: u32) {
        if self.is_barrier {
            let effects = self.policy.leave(members, worker);
            assert!(effects.is_empty(), "nobody waits in a training that has just begun");
        }
    }

    /// The epoch of its decisions.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a gradient of `version` is of this epoch: its variables have had rounds of no other
    /// epoch.
    pub(crate) fn is_current(&self, version: Version) -> bool {
        version.epoch == Epoch(0) || version.epoch == self.epoch
    }

    /// The round under way if workers vote, which is also the next version of the variables.
    pub(crate) fn round(&self) -> Option<Version> {
        self.policy.round().map(|updates| Version { epoch: self.epoch, updates })
    }

    /// Notes the beginning of a worker's step, in a mode that stops late workers: the variables
    /// that it computes from are of this version.
    pub(crate) fn begin(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        let counts =
            self.is_current(one.version) && members.is_live(one.worker) && !members.is_over();
        let begun = if counts { self.policy.begin(one) } else { Vec::new() };
        self.pass(members, None, begun)
    }

    /// Takes the end of a worker's step whose gradients are on their way to the parameter servers:
    /// its vote. It is dropped in a mode without votes.
    ///
    /// # Panics
    /// If the version does not exist yet.
    pub(crate) fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        let worker = one.worker;
        let mut effects = self.lift_own(worker);
        if self.fence.as_ref().is_some_and(|fence| fence.has_answer_for(worker)) {
            return effects;
        }
        let counts = self.is_current(one.version) && members.is_live(worker) && !members.is_over();
        let voted =
            if counts { self.policy.vote(members, one) } else { vec![Effect::Drop { worker }] };
        effects.extend(self.pass(members, Some(worker), voted));
        effects
    }

    /// Takes the end of `worker`'s step in a mode without votes: its updates are applied. Releases
    /// the worker, with bounded staleness perhaps later, and perhaps others with it.
    pub(crate) fn commit(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        let released = if members.is_over() {
            vec![Effect::Release { worker }]
        } else {
            self.policy.commit(worker)
        };
        effects.extend(self.pass(members, Some(worker), released));
        effects
    }

    /// Counts a step whose updates are applied at the global step `now`, before the announced end
    /// or after it. Behind a barrier the shards drop the gradients of a round that the end has cut
    /// off, and such a step does not count.
    pub(crate) fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        self.policy.count(members, now, step)
    }

    /// Whether every commit at once releases its worker and nobody else.
    pub(crate) fn releases_at_once(&self, members: &Membership) -> bool {
        self.fence.is_none() && (members.is_over() || !self.policy.holds_commits())
    }

    /// Whether the shards hold all workers.
    pub(crate) fn is_barrier(&self) -> bool {
        self.is_barrier
    }

    /// The number of gradients that make a round now, if the mode has rounds.
    pub(crate) fn round_size(&self, members: &Membership) -> Option<usize> {
        self.policy.round_size(members)
    }

    /// Takes the departure of `worker`, finished or failed: nobody waits for it from now on, and
    /// its fence is lifted. Its open vote or commit is answered, so that a worker that only seemed
    /// to have failed goes on.
    pub(crate) fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        let left = self.policy.leave(members, worker);
        effects.extend(self.pass(members, None, left));
        effects
    }

    /// `worker` takes no more steps, and has yet to leave. Where each step counts by itself nobody
    /// waits for it from now on.
    pub(crate) fn retire(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        if self.policy.round_size(members).is_some() {
            return Vec::new();
        }
        let let_go = self.policy.leave(members, worker);
        self.pass(members, None, let_go)
    }

    /// Puts up a fence for `worker`, which is between two steps of its own: [`Effect::Fenced`]
    /// tells it when the fence is up. A worker that already has a fence keeps it and is told again.
    /// After the end of the training, too, others may be inside their last steps.
    ///
    /// # Errors
    /// The worker that has another fence.
    pub(crate) fn put_up_fence(
        &mut self,
        members: &Membership,
        worker: u32,
    ) -> Result<Vec<Effect>, u32> {
        match &self.fence {
            Some(fence) if fence.owner != worker => return Err(fence.owner),
            _ => {}
        }
        let resting = self.policy.resting();
        self.fence.get_or_insert_with(|| Fence::new(worker, resting)).ask_again();
        Ok(self.raise(members).into_iter().collect())
    }

    /// Whether `worker`, which makes ready for other steps, must wait until the fence is lifted.
    /// One that takes a step again may do so before the fence goes up: some variables may wait for
    /// its gradient.
    pub(crate) fn holds_off(&self, worker: u32, is_again: bool) -> bool {
        self.fence.as_ref().is_some_and(|fence| {
            fence.owner != worker && !(is_again && fence.is_held_up_by(worker))
        })
    }

    /// Notes that `worker` is between two steps and takes none until the fence is lifted.
    pub(crate) fn rest(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        self.pass(members, Some(worker), Vec::new())
    }

    /// Lifts `worker`'s fence; `None` if it has no fence, or no longer has one.
    pub(crate) fn lift_fence(&mut self, worker: u32) -> Option<Vec<Effect>> {
        let fence = self.fence.take_if(|fence| fence.owner == worker)?;
        // Only behind a fence that is up does its owner wait for what others have learnt.
        let let_go = if fence.is_up() { self.policy.lift() } else { Vec::new() };
        Some([fence.lift(), let_go].concat())
    }

    /// The worker that has a fence, up or still to go up.
    pub(crate) fn fence_owner(&self) -> Option<u32> {
        self.fence.as_ref().map(|fence| fence.owner)
    }

    /// The workers that must end a step before the fence is up, by ascending index.
    pub(crate) fn fence_waits_for(&self, members: &Membership) -> Vec<u32> {
        let Some(fence) = &self.fence else { return Vec::new() };
        let is_inside = |worker: &u32| match self.is_barrier {
            // No round is complete without the owner's gradient: only the last one may go on.
            true => *worker != fence.owner && self.policy.is_to_end(*worker),
            false => fence.waits_for(*worker),
        };
        members.training(self.workers).filter(is_inside).collect()
    }

    /// Lifts `worker`'s own fence, if it has one: it leaves or takes another step.
    fn lift_own(&mut self, worker: u32) -> Vec<Effect> {
        self.lift_fence(worker).unwrap_or_default()
    }

    /// Returns `effects`, caused by a worker that now `rests`, or withholds them until the fence is
    /// lifted.
    fn pass(
        &mut self,
        members: &Membership,
        rests: Option<u32>,
        effects: Vec<Effect>,
    ) -> Vec<Effect> {
        let Some(fence) = &mut self.fence else { return effects };
        fence.withhold(effects);
        if let Some(worker) = rests {
            fence.rest(worker);
        }
        self.raise(members).into_iter().collect()
    }

    /// Tells the fence's owner that the fence is up, once all others rest.
    fn raise(&mut self, members: &Membership) -> Option<Effect> {
        if self.fence_waits_for(members).is_empty() { self.fence.as_mut()?.go_up() } else { None }
    }

    /// Waits again for `worker`, which had left and is back.
    pub(crate) fn rejoin(&mut self, worker: u32) {
        self.policy.rejoin(worker);
    }

    /// Ends the training: who waits for others is let go, behind a fence when it is lifted: its
    /// owner may be reading the variables.
    pub(crate) fn finish(&mut self, members: &Membership) -> Vec<Effect> {
        let let_go = self.policy.finish();
        self.pass(members, None, let_go)
    }

    /// The workers that others wait for here, by ascending index; empty if nobody waits.
    pub(crate) fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        self.policy.waiting_for(members)
    }
}

#[cfg(test)]
mod tests;
