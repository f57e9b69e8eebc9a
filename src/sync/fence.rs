//! A fence: while it is up nobody but the worker behind it goes on, so that the variables hold
//! whole steps.

use std::collections::BTreeSet;

use super::effect::Effect;

/// The fence of one worker, from its being asked for to its lift.
#[derive(Debug)]
pub(super) struct Fence {
    /// Who asked for it, and is not held by it.
    pub(super) owner: u32,
    /// Whether the owner has been told that it is up.
    is_up: bool,
    /// Who is between two steps, and stays there until the lift.
    resting: BTreeSet<u32>,
    /// What the others are answered at the lift, in order.
    withheld: Vec<Effect>,
}

impl Fence {
    pub(super) fn new(owner: u32, resting: BTreeSet<u32>) -> Self {
        Self { owner, is_up: false, resting, withheld: Vec::new() }
    }

    /// `worker` is between two steps.
    pub(super) fn rest(&mut self, worker: u32) {
        self.resting.insert(worker);
    }

    pub(super) fn withhold(&mut self, effects: Vec<Effect>) {
        self.withheld.extend(effects);
    }

    /// Whether a vote of `worker` has an answer that is withheld.
    pub(super) fn has_answer_for(&self, worker: u32) -> bool {
        self.withheld.iter().any(|effect| effect.answers_vote_of(worker))
    }

    /// Whether `worker`, which trains, may be inside a step.
    pub(super) fn waits_for(&self, worker: u32) -> bool {
        worker != self.owner && !self.resting.contains(&worker)
    }

    /// The owner wants to be told anew.
    pub(super) fn ask_again(&mut self) {
        self.is_up = false;
    }

    /// The fence is up, unless it was: tells the owner so.
    pub(super) fn go_up(&mut self) -> Option<Effect> {
        let was_up = std::mem::replace(&mut self.is_up, true);
        (!was_up).then_some(Effect::Fenced { worker: self.owner })
    }

    /// What the others are answered now.
    pub(super) fn lift(self) -> Vec<Effect> {
        self.withheld
    }
}
