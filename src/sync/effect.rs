//! The effects of a coordinator's decisions.

use super::gradients::RoundPosition;

/// An action that the runtime carries out for a [`Coordinator`](super::Coordinator), in the order
/// given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Tell every accumulator that the gradients of these workers make `round`.
    Close {
        /// The round, consecutive from 0.
        round: u64,
        /// The contributing workers, by place.
        contributors: Vec<u32>,
    },
    /// The gradient that `worker` voted for counts; the shards may add it to its round.
    Count {
        /// The worker.
        worker: u32,
        /// The place where the gradient counts.
        place: RoundPosition,
    },
    /// The step that `worker` voted for does not count. The worker may go on, from a later version,
    /// which is already applied or on its way.
    Drop {
        /// The worker.
        worker: u32,
    },
    /// The step that `worker` has begun is too late to count: stop it.
    Stop {
        /// The worker.
        worker: u32,
    },
    /// `worker`, whose step is committed, may go on.
    Release {
        /// The worker.
        worker: u32,
    },
    /// The fence of `worker` is up.
    Fenced {
        /// The worker.
        worker: u32,
    },
}

impl Effect {
    /// Whether this effect answers a vote of `worker`.
    pub(super) fn answers_vote_of(&self, worker: u32) -> bool {
        match self {
            Self::Count { worker: voter, .. } | Self::Drop { worker: voter } => *voter == worker,
            Self::Close { .. } | Self::Stop { .. } | Self::Release { .. } | Self::Fenced { .. } => {
                false
            }
        }
    }
}
