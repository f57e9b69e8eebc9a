//! A fence: while it is up only its owner goes on, so that the variables hold whole steps.

use std::collections::BTreeSet;

use super::effect::Effect;

/// The fence of one worker, from the request to the lift.
#[derive(Debug)]
pub(super) struct Fence {
    /// The worker that asked for the fence, and is not held by it.
    pub(super) owner: u32,
    /// Whether the owner has been told that it is up.
    is_up: bool,
    /// The workers that are between two steps, and stay there until the lift.
    resting: BTreeSet<u32>,
    /// The answers that the other workers get at the lift, in order.
    withheld: Vec<Effect>,
}

impl Fence {
    pub(super) fn new(owner: u32, resting: BTreeSet<u32>) -> Self {
        Self { owner, is_up: false, resting, withheld: Vec::new() }
    }

    /// Notes that `worker` is between two steps.
    pub(super) fn rest(&mut self, worker: u32) {
        self.resting.insert(worker);
    }

    pub(super) fn withhold(&mut self, effects: Vec<Effect>) {
        self.withheld.extend(effects);
    }

    /// Whether an answer to a vote of `worker` is withheld.
    pub(super) fn has_answer_for(&self, worker: u32) -> bool {
        self.withheld.iter().any(|effect| effect.answers_vote_of(worker))
    }

    /// Whether `worker`, which trains, may still be inside a step.
    pub(super) fn waits_for(&self, worker: u32) -> bool {
        worker != self.owner && !self.resting.contains(&worker)
    }

    /// Whether the fence can't go up before `worker`, which trains, has ended its step.
    pub(super) fn is_held_up_by(&self, worker: u32) -> bool {
        !self.is_up && self.waits_for(worker)
    }

    /// Has the owner told again that the fence is up.
    pub(super) fn ask_again(&mut self) {
        self.is_up = false;
    }

    /// Puts the fence up and tells the owner so, unless it was up before.
    pub(super) fn go_up(&mut self) -> Option<Effect> {
        let was_up = std::mem::replace(&mut self.is_up, true);
        (!was_up).then_some(Effect::Fenced { worker: self.owner })
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Lifts the fence and returns the withheld answers.
    pub(super) fn lift(self) -> Vec<Effect> {
        self.withheld
    }
}
