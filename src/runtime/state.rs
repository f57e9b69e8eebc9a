//! Operations on a task's state: what its worker asks its parameter server, and the answers.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::LocalDevice;
use crate::graph::{Replica, ResourceAction, ResourceSpec, UpdateRule};
use crate::optimizer::Delta;
use crate::sync::{Epoch, Verdict, Version};
use crate::tensor::Tensor;
use crate::transport::PeerId;

use crate::runtime::error::Result;
use crate::runtime::messages::{Origin, Scope, StepId};

/// The values that an operation on state takes or gives: a learning rate, a gradient and what the
/// mode needs; the end of a step gives three.
pub(crate) type StateValues = SmallVec<[Tensor; 3]>;

/// A variable of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VariableId(pub(crate) u32);

/// The name of what a task keeps: the session, if it is that session's own; container; shared name.
pub(crate) type StateName = (Option<Scope>, Arc<str>, Arc<str>);

/// Whether `container` is one of `named`; if none is named, the default one is meant.
pub(crate) fn is_among(container: &str, named: &[String]) -> bool {
    match named {
        [] => container.is_empty(),
        named => named.iter().any(|name| name == container),
    }
}

/// The variables of a partition at their task, and the epoch of the operations on them.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) variables: Vec<VariableId>,
    pub(crate) epoch: Epoch,
}

/// An operation of a step that a parameter server has been asked to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) step: StepId,
    /// The task's device that runs the node's part of the step.
    pub(crate) device: LocalDevice,
    pub(crate) node: u32,
}

/// The answer to a [`StateRequest`].
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Result<StateValues>,
}

/// An operation on a task's state.
#[derive(Debug)]
pub(crate) struct StateRequest {
    pub(crate) ticket: Ticket,
    /// The epoch in which the request's partition was made ready.
    pub(crate) epoch: Epoch,
    pub(crate) action: Action,
}

/// The effect of an operation on a task's state.
#[derive(Debug)]
pub(crate) enum Action {
    /// Gives the value, and the version if a mode asks for it.
    Read {
        variable: VariableId,
        with_version: bool,
        origin: Option<Origin>,
    },
    /// Gives the rows of these numbers.
    Gather {
        variable: VariableId,
        ids: Tensor,
        origin: Option<Origin>,
    },
    IsInitialized(VariableId),
    /// Waits until the variable has a value.
    Await(VariableId),
    Assign(VariableId, Tensor),
    AssignAdd(VariableId, Tensor),
    Apply(ApplyGradient),
    Begin(Begin),
    Commit(Commit),
    /// Waits until all other workers are held between two of their steps.
    PutUpFence {
        global_step: VariableId,
        replica: Replica,
    },
    LiftFence {
        global_step: VariableId,
        replica: Replica,
    },
    /// Waits until all other workers that train have departed.
    AwaitDepartures {
        global_step: VariableId,
        replica: Replica,
    },
    OnResource(Box<OnResource>),
}

/// A training step and the task that takes it, in any attempt: identifies the work that a parameter
/// server has done for the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The task that takes it.
    pub(crate) task: PeerId,
    pub(crate) origin: Origin,
}

impl Taken {
    /// Whether both are attempts at the same step.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.training() == other.training() && self.origin.number == other.origin.number
    }

    fn training(self) -> (PeerId, Option<u64>, u64) {
        (self.task, self.origin.owner, self.origin.training)
    }
}

impl StateRequest {
    /// Whether it is void in any epoch but its own: a part of a training, or what a step of one
    /// writes.
    pub(crate) fn is_of_epoch(&self) -> bool {
        let writes = matches!(self.action, Action::Assign(..) | Action::AssignAdd(..));
        self.action.is_of_training() || writes && self.ticket.step.trains
    }
}

impl Action {
    /// Marks the action as part of a training step: a change is done once, however often the step
    /// is taken.
    pub(crate) fn originate(&mut self, step: Taken) {
        match self {
            Self::Apply(ApplyGradient { taken, .. })
            | Self::Begin(Begin { taken, .. })
            | Self::Commit(Commit { taken, .. }) => *taken = Some(step),
            Self::OnResource(asked) => asked.taken = Some(step),
            Self::Read { origin, .. } | Self::Gather { origin, .. } => *origin = Some(step.origin),
            Self::IsInitialized(_)
            | Self::Await(_)
            | Self::Assign(..)
            | Self::AssignAdd(..)
            | Self::PutUpFence { .. }
            | Self::LiftFence { .. }
            | Self::AwaitDepartures { .. } => {}
        }
    }

    /// Whether the action is part of a training.
    fn is_of_training(&self) -> bool {
        match self {
            Self::Apply(_)
            | Self::Begin(_)
            | Self::Commit(_)
            | Self::PutUpFence { .. }
            | Self::LiftFence { .. }
            | Self::AwaitDepartures { .. } => true,
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

/// An operation on a queue or an accumulator.
#[derive(Debug)]
pub(crate) struct OnResource {
    pub(crate) scope: Option<Scope>,
    pub(crate) spec: Arc<ResourceSpec>,
    pub(crate) action: ResourceAction,
    pub(crate) inputs: StateValues,
    pub(crate) taken: Option<Taken>,
}

/// The beginning of a worker's step, in a mode that stops late workers.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) global_step: VariableId,
    pub(crate) replica: Replica,
    /// The least version of a variable that the step computes from.
    pub(crate) version: Version,
    pub(crate) taken: Option<Taken>,
}

/// The end of a worker's step; in a mode with votes, its gradients are then still on their way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) global_step: VariableId,
    pub(crate) replica: Replica,
    /// The global step that the worker's step began at.
    pub(crate) read: i64,
    /// The least version of a variable that the gradients were computed from, if the worker votes.
    pub(crate) version: Option<Version>,
    /// What a vote sets once it has its verdict.
    pub(crate) set: SetValues,
    pub(crate) taken: Option<Taken>,
}

/// Variables beside the global step, each with its next value.
pub(crate) type SetValues = SmallVec<[(VariableId, Tensor); 1]>;

/// A gradient for a variable.
#[derive(Debug)]
pub(crate) struct ApplyGradient {
    /// The variable, then its slots.
    pub(crate) variables: SmallVec<[VariableId; 5]>,
    pub(crate) rule: UpdateRule,
    pub(crate) learning_rate: f32,
    pub(crate) gradient: Delta,
    /// The replica, and the version that the gradient was computed from, if its mode decides what
    /// becomes of it.
    pub(crate) of: Option<(Replica, Version)>,
    /// The verdict on whether the gradient counts, if workers vote.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) taken: Option<Taken>,
}

impl ApplyGradient {
    /// Whether the gradient waits for others of its round.
    pub(crate) fn has_round(&self) -> bool {
        self.of.is_some_and(|(replica, _)| replica.mode.needs().has_rounds())
    }
}
