//! What a parameter server is asked to do with its task's state, and what it answers.

use smallvec::SmallVec;

use crate::graph::{Replica, UpdateRule};
use crate::optimizer::Delta;
use crate::tensor::Tensor;

use super::{Origin, StepId, Values, Verdict};
use crate::runtime::error::Result;
use crate::runtime::parameter_server::resources::OnResource;

/// A variable of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VariableId(pub(crate) u32);

/// An operation of a step that a parameter server has been asked to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) step: StepId,
    /// Which of the task's devices runs the part of the step that the node is of.
    pub(crate) device: u32,
    pub(crate) node: u32,
}

/// The answer to a [`StateRequest`].
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Result<Values>,
}

/// An operation on a task's state.
#[derive(Debug)]
pub(crate) struct StateRequest {
    pub(crate) ticket: Ticket,
    pub(crate) action: Action,
}

/// What an operation does to a task's state.
#[derive(Debug)]
pub(crate) enum Action {
    Read {
        variable: VariableId,
        with_version: bool,
    },
    Gather {
        variable: VariableId,
        ids: Tensor,
    },
    IsInitialized(VariableId),
    Await(VariableId),
    Assign(VariableId, Tensor),
    AssignAdd(VariableId, Tensor),
    Apply(ApplyGradient),
    Vote {
        global_step: VariableId,
        replica: Replica,
        versions: SmallVec<[i64; 8]>,
        origin: Option<Origin>,
    },
    Commit(Commit),
    PutUpFence {
        global_step: VariableId,
        replica: Replica,
    },
    LiftFence {
        global_step: VariableId,
        replica: Replica,
    },
    OnResource(Box<OnResource>),
}

impl Action {
    /// The same, of a step of a training: done once, however often that step is taken.
    pub(crate) fn originate(&mut self, of: Origin) {
        match self {
            Self::Apply(ApplyGradient { origin, .. })
            | Self::Vote { origin, .. }
            | Self::Commit(Commit { origin, .. }) => *origin = Some(of),
            _ => {}
        }
    }
}

/// The end of a worker's step.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) global_step: VariableId,
    pub(crate) replica: Replica,
    /// The global step that it began at.
    pub(crate) read: i64,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) origin: Option<Origin>,
}

/// A gradient for a variable.
#[derive(Debug)]
pub(crate) struct ApplyGradient {
    /// The variable, then its slots.
    pub(crate) variables: SmallVec<[VariableId; 5]>,
    pub(crate) rule: UpdateRule,
    pub(crate) learning_rate: f32,
    pub(crate) gradient: Delta,
    /// Whose it is and the version that it was computed from, where its mode says what becomes of
    /// it.
    pub(crate) of: Option<(Replica, u64)>,
    /// Where workers vote: whether it counts.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) origin: Option<Origin>,
}

impl ApplyGradient {
    /// Whether it waits for others of its round.
    pub(crate) fn has_round(&self) -> bool {
        self.of.is_some_and(|(replica, _)| replica.mode.has_rounds())
    }
}
