//! What a parameter server is asked to do with its task's state, and what it answers.

use smallvec::SmallVec;

use crate::graph::{Replica, UpdateRule};
use crate::optimizer::Delta;
use crate::sync::{Epoch, Verdict, Version};
use crate::tensor::Tensor;
use crate::transport::PeerId;

use super::{Origin, StepId, Values};
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
    /// The epoch that its partition was made ready in.
    pub(crate) epoch: Epoch,
    pub(crate) action: Action,
}

/// What an operation does to a task's state.
#[derive(Debug)]
pub(crate) enum Action {
    Read { variable: VariableId, with_version: bool },
    Gather { variable: VariableId, ids: Tensor },
    IsInitialized(VariableId),
    Await(VariableId),
    Assign(VariableId, Tensor),
    AssignAdd(VariableId, Tensor),
    Apply(ApplyGradient),
    Vote(Vote),
    Commit(Commit),
    PutUpFence { global_step: VariableId, replica: Replica },
    LiftFence { global_step: VariableId, replica: Replica },
    OnResource(Box<OnResource>),
}

/// A step of a training as a task takes it, however often: by it a parameter server knows what it
/// has done for the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The task that takes it.
    pub(crate) task: PeerId,
    pub(crate) origin: Origin,
}

impl Action {
    /// The same, of a step of a training: done once, however often that step is taken.
    pub(crate) fn originate(&mut self, step: Taken) {
        match self {
            Self::Apply(ApplyGradient { taken, .. })
            | Self::Vote(Vote { taken, .. })
            | Self::Commit(Commit { taken, .. }) => *taken = Some(step),
            Self::OnResource(asked) => asked.taken = Some(step),
            _ => {}
        }
    }

    /// Whether it is a part of a training, and void in another epoch than its own.
    pub(crate) fn is_of_training(&self) -> bool {
        match self {
            Self::Apply(_)
            | Self::Vote(_)
            | Self::Commit(_)
            | Self::PutUpFence { .. }
            | Self::LiftFence { .. } => true,
            Self::Read { .. }
            | Self::Gather { .. }
            | Self::IsInitialized(_)
            | Self::Await(_)
            | Self::Assign(..)
            | Self::AssignAdd(..)
            | Self::OnResource(_) => false,
        }
    }
}

/// A worker's gradients are on their way.
#[derive(Debug)]
pub(crate) struct Vote {
    pub(crate) global_step: VariableId,
    pub(crate) replica: Replica,
    /// The least version of a variable that they were computed from.
    pub(crate) version: Version,
    pub(crate) taken: Option<Taken>,
}

/// The end of a worker's step.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) global_step: VariableId,
    pub(crate) replica: Replica,
    /// The global step that it began at.
    pub(crate) read: i64,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) taken: Option<Taken>,
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
    pub(crate) of: Option<(Replica, Version)>,
    /// Where workers vote: whether it counts.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) taken: Option<Taken>,
}

impl ApplyGradient {
    /// Whether it waits for others of its round.
    pub(crate) fn has_round(&self) -> bool {
        self.of.is_some_and(|(replica, _)| replica.mode.needs().rounds)
    }
}
