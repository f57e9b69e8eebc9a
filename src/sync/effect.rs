//! The effects that a coordinator's decisions have.

use super::protocol::Place;

/// What the runtime has to do for a [`Coordinator`](super::Coordinator), in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The gradients of these workers make `round`: every accumulator has to know.
    Close {
        /// The round, consecutive from 0.
        round: u64,
        /// Who contributes, by place.
        contributors: Vec<u32>,
    },
    /// The gradient that `worker` voted for counts; it may send it.
    Count {
        /// The worker.
        worker: u32,
        /// Where it counts.
        place: Place,
    },
    /// The step that `worker` voted for does not count; it may go on, and does so from a later
    /// version, which is applied already or on its way.
    Drop {
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
    /// Whether it is the answer to a vote of `worker`.
    pub(super) fn answers_vote_of(&self, worker: u32) -> bool {
        match self {
            Self::Count { worker: voter, .. } | Self::Drop { worker: voter } => *voter == worker,
            Self::Close { .. } | Self::Release { .. } | Self::Fenced { .. } => false,
        }
    }
}
