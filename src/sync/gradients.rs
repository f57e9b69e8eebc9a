//! A gradient on its way: computed from a version, announced, given its place, and treated.

use super::{Contributors, Epoch, Version};

/// A worker's announcement of a gradient, at the task of the global step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// The worker that computed the gradient.
    pub(crate) worker: u32,
    /// The version of the variables that the gradient was computed from, the least if they differ.
    pub(crate) version: Version,
}

/// The place where a gradient counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoundPosition {
    /// The round.
    pub(crate) round: u64,
    /// The index in that round's sum, from 0: behind a barrier of all workers the worker's index.
    pub(crate) index: u32,
}

/// The decision on a vote by the task of the global step, for the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The epoch of the decision. Rounds are counted from 0 in each epoch.
    pub(crate) epoch: Epoch,
    /// The place where the gradient counts, if it does.
    pub(crate) place: Option<RoundPosition>,
    /// The rounds that some variable may still wait for, with their contributors by place. So a
    /// variable learns of its rounds even if their contributors are lost.
    pub(crate) closed: Vec<(u64, Contributors)>,
}

/// A gradient at a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) worker: u32,
    /// The version that the gradient was computed from.
    pub(crate) version: u64,
    /// The number of updates that the variable has had.
    pub(crate) now: u64,
    pub(crate) verdict: Option<&'a Verdict>,
}

/// The treatment of a gradient at a shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Treatment {
    /// The gradient is applied at once.
    Apply(Correction),
    /// The gradient counts in a round.
    Collect {
        place: RoundPosition,
        /// Whether the worker's step waits until the round is applied.
        waits: bool,
    },
    /// The gradient does not count.
    Drop,
}

/// The correction for staleness of a gradient that is applied at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The divisor of the learning rate.
    pub(crate) divisor: u64,
    /// The weight, in the gradient, of the variable's change since the worker read it.
    pub(crate) lambda: Option<f32>,
}

impl Default for Correction {
    fn default() -> Self {
        Self { divisor: 1, lambda: None }
    }
}
