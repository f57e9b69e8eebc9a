//! When a worker's step counts and when the worker goes on: one decision maker for each training.

use super::effect::Effect;
use super::fence::Fence;
use super::protocol::{Contribution, Counted, Ended, Policy, Version};
use super::{Epoch, Membership, Mode};

/// Decides, at the task that holds the global step, when a worker's step counts.
///
/// Every vote gets exactly one answer (an [`Effect::Count`] or an [`Effect::Drop`]) and every
/// commit exactly one [`Effect::Release`], at once or later, also where workers leave or the
/// training is over: so no worker waits for ever.
///
/// A worker can put up a fence, for a checkpoint: once every other one is between two steps it is
/// told so, and until it lifts the fence none of them goes on. Then all variables hold the same
/// whole steps.
///
/// Who takes part, and whether the training is over, it reads from the task's [`Membership`].
#[derive(Debug)]
pub struct Coordinator {
    policy: Box<dyn Policy>,
    /// Whose decisions these are. What is of another epoch is dropped.
    epoch: Epoch,
    workers: u32,
    fence: Option<Fence>,
}

impl Coordinator {
    /// The coordinator of a training in the epoch that `members` are in.
    pub fn new(mode: Mode, workers: u32, members: &Membership) -> Self {
        let mut policy = mode.policy(workers);
        for worker in members.departed(workers) {
            let effects = policy.leave(members, worker);
            assert!(effects.is_empty(), "nobody waits in a training that has just begun");
        }
        Self { policy, epoch: members.epoch(), workers, fence: None }
    }

    /// The epoch of its decisions.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a gradient of `version` is of this epoch: its variables have had rounds of no other.
    pub fn is_current(&self, version: Version) -> bool {
        version.epoch == Epoch(0) || version.epoch == self.epoch
    }

    /// Where workers vote: the round under way, and so the version of the variables that comes
    /// next.
    pub fn round(&self) -> Option<u64> {
        self.policy.round()
    }

    /// A worker says that its gradients are on their way to the parameter servers.
    ///
    /// # Panics
    /// If the mode is one without votes, or if there is no such version yet.
    pub fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
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

    /// The updates of `worker`'s step are applied or dropped. Releases the worker, with bounded
    /// staleness perhaps later, and perhaps others with it.
    pub fn commit(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        let released = if members.is_over() {
            vec![Effect::Release { worker }]
        } else {
            self.policy.commit(members, worker)
        };
        effects.extend(self.pass(members, Some(worker), released));
        effects
    }

    /// What a step counts for, whose updates are applied or dropped at the global step `now`.
    pub(crate) fn count(
        &mut self,
        members: &Membership,
        now: &mut i64,
        step: &Ended<'_>,
    ) -> Counted {
        if members.is_over() || step.verdict.is_some_and(|verdict| verdict.epoch != self.epoch) {
            return Counted::dropped(*now, step);
        }
        self.policy.count(now, step)
    }

    /// Whether every commit releases its worker at once, and nobody else.
    pub fn releases_at_once(&self, members: &Membership) -> bool {
        self.fence.is_none() && (members.is_over() || !self.policy.holds_commits())
    }

    /// Whether a step that is taken again is another contribution.
    pub(crate) fn takes_steps_again(&self) -> bool {
        self.policy.takes_steps_again()
    }

    /// How many gradients make a round now, where they make rounds.
    pub fn round_size(&self, members: &Membership) -> Option<usize> {
        self.policy.round_size(members)
    }

    /// `worker` is gone, finished or failed: it is not waited for from now on, and its fence is
    /// lifted. What it had open is answered, which tells a worker that only seemed to fail to go
    /// on.
    pub fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        let left = self.policy.leave(members, worker);
        effects.extend(self.pass(members, None, left));
        effects
    }

    /// `worker`, which is between two steps of its own, puts up a fence: [`Effect::Fenced`] tells
    /// when it is up. A worker that has one already has the same, and is told again.
    ///
    /// # Errors
    /// The worker that has another fence.
    pub fn put_up_fence(&mut self, members: &Membership, worker: u32) -> Result<Vec<Effect>, u32> {
        match &self.fence {
            _ if members.is_over() => return Ok(vec![Effect::Fenced { worker }]),
            Some(fence) if fence.owner != worker => return Err(fence.owner),
            _ => {}
        }
        let resting = self.policy.resting();
        self.fence.get_or_insert_with(|| Fence::new(worker, resting)).ask_again();
        Ok(self.raise(members).into_iter().collect())
    }

    /// `worker` is between two steps, and takes none until the fence is lifted: it makes ready for
    /// others.
    pub fn rest(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        self.pass(members, Some(worker), Vec::new())
    }

    /// Lifts `worker`'s fence; none where it has none, or no more.
    pub fn lift_fence(&mut self, worker: u32) -> Option<Vec<Effect>> {
        self.fence.take_if(|fence| fence.owner == worker).map(Fence::lift)
    }

    /// Who has a fence, up or still to go up.
    pub fn fence_owner(&self) -> Option<u32> {
        self.fence.as_ref().map(|fence| fence.owner)
    }

    /// Who has to come to the end of a step before the fence is up, by ascending index.
    pub fn fence_waits_for(&self, members: &Membership) -> Vec<u32> {
        match &self.fence {
            // The barrier holds them all: no round is complete without the owner's gradient.
            Some(fence) if !self.policy.is_barrier() => {
                let training = members.training(self.workers);
                training.filter(|worker| fence.waits_for(*worker)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A worker that leaves, or takes another step of its own, has no fence any more.
    fn lift_own(&mut self, worker: u32) -> Vec<Effect> {
        self.lift_fence(worker).unwrap_or_default()
    }

    /// Gives `effects`, which a worker that now `rests` has brought about, or keeps them until the
    /// fence is lifted.
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

    /// Tells the owner of the fence that it is up, once everybody else rests.
    fn raise(&mut self, members: &Membership) -> Option<Effect> {
        if self.fence_waits_for(members).is_empty() { self.fence.as_mut()?.go_up() } else { None }
    }

    /// `worker`, which had left, is back: it is waited for again.
    pub fn rejoin(&mut self, worker: u32) {
        self.policy.rejoin(worker);
    }

    /// The training is over: whoever waits is let go.
    pub fn finish(&mut self) -> Vec<Effect> {
        let up = self.fence.as_mut().and_then(Fence::go_up);
        let withheld = self.fence.take().map(Fence::lift).unwrap_or_default();
        up.into_iter().chain(withheld).chain(self.policy.finish()).collect()
    }

    /// Whom those who wait here wait for, by ascending index; empty where nobody waits.
    pub fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        self.policy.waiting_for(members)
    }
}

#[cfg(test)]
mod tests;
