//! The kinds of operation a graph is made of, and their attributes. Names are TensorFlow's, if it
//! has one.

mod attribute;
mod attributes;
mod definition;
mod learning_rate;
mod reduce;
mod resource;
mod sparse;
mod subscript;
mod update_rule;
mod window;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::graph::KernelKind;
use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub use attribute::{Attribute, Attributes};
pub use attributes::{RandomLaw, Replica, VariableSpec};
pub use definition::{ComputeError, Defined, Known, OpDef, Outputs};
pub(crate) use definition::{Elementwise, bytes};
pub use learning_rate::{LearningRate, Schedule};
pub use reduce::{Axes, Reduction};
pub use resource::{ResourceAction, ResourceKind, ResourceSpec};
pub use sparse::{ShardStrategy, Sharding};
pub use subscript::{Mirror, Subscript};
pub(crate) use update_rule::RowsAt;
pub use update_rule::{
    FirstValue, Parameter, ParameterValue, Parameters, Range, Rule, RuleState, Slot, UpdateRule,
};
pub use window::{Padding, Sliding};

/// The kind of an operation, with its attributes.
///
/// Inputs are listed as `(a, b)`. Variables are listed apart from inputs, because a variable is a
/// place on a parameter server and not a value that travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// A value that each step is fed.
    Placeholder {
        /// The element type to feed.
        dtype: DType,
        /// The shape to feed.
        shape: PartialShape,
    },
    /// The same value in each step.
    Const(Tensor),
    /// A tensor with one value everywhere, made where it is used.
    Fill {
        /// The shape.
        shape: Shape,
        /// The value, a scalar.
        value: Tensor,
    },

    /// A place for a value that outlives the step (TensorFlow: `VarHandleOp`). A declaration: it is
    /// not run.
    Variable(VariableSpec),
    /// The variable's value, and its version: how many updates it has had (i64).
    ReadVariable,
    /// The rows `(ids […])` of the variable, and its version. Only these rows are copied and
    /// travel.
    ResourceGather,
    /// Stores `(value)`; gives the value. With a guard, `(value, guard)`, a bool scalar, it is
    /// carried out only where that holds, and gives the variable's value.
    Assign,
    /// Adds `(delta)`; gives the new value. It may have a guard, too.
    AssignAdd,
    /// Whether the variable has a value yet.
    IsVariableInitialized,
    /// Completes once the variable has a value, however long that takes; at once if it has one.
    AwaitVariable,
    /// Updates a variable by a gradient: `(learning_rate, gradient)`; with a replica
    /// `(…, versions read…)`; if the replica's mode has votes `(…, verdict, versions read…)`. The
    /// least version counts. Variables: the variable, then its slots. Without a replica it may have
    /// a guard: `(learning_rate, gradient, guard)`.
    ApplyGradient {
        /// The update rule.
        rule: UpdateRule,
        /// Whether the gradient is of some rows, `(learning_rate, rows [n, row…], ids [n], …)`; if
        /// a row occurs more than once, its gradient is the sum.
        is_sparse: bool,
        /// The gradient's replica, if its mode coordinates the update: the gradient waits for the
        /// others of its round, whose mean is applied, or its staleness is compensated.
        replica: Option<Replica>,
    },
    /// Begins a worker's step, in a mode that stops late workers: `(versions read…)`. Completes
    /// with the verdict on the step; fails once the step is too late to count.
    BeginStep(Replica),
    /// Ends a worker's step: `(global step read)`. Gives the global step after it (i64), the
    /// staleness of the worker's gradient \[updates\] (i64) and whether it counts (bool). It runs
    /// after the step's updates.
    ///
    /// In modes with backup workers, K-async and K-batch it is the worker's vote, too:
    /// `(…, values…, versions read…)`. It then runs while the worker's gradients are on their way,
    /// and also gives the verdict: the gradient's place in a round, if it has one, and the
    /// contributors of the last rounds (i64 vector). With the verdict it stores the values, one for
    /// each of its variables after the global step.
    CommitStep(Replica),
    /// Completes once every other worker of the training is between two steps, where each stays
    /// until the fence is lifted. Meanwhile all variables hold the same whole steps.
    Fence(Replica),
    /// Lifts the worker's fence. Fails if the fence was lifted before: the others may have gone on.
    LiftFence(Replica),
    /// Completes once every other worker that trains has left the training, or is lost. The worker
    /// takes no more steps: where each step counts by itself nobody waits for it meanwhile.
    AwaitDepartures(Replica),

    /// A queue or an accumulator, which outlives the step. A declaration: it is not run.
    Resource(Arc<ResourceSpec>),
    /// An action on a queue or an accumulator.
    OnResource {
        /// The queue or accumulator.
        resource: Arc<ResourceSpec>,
        /// The action.
        action: ResourceAction,
    },

    /// `(global step)`: the learning rate of that step.
    LearningRate(Arc<LearningRate>),
    /// Does nothing; runs after its control inputs (TensorFlow: `NoOp`, made by `group`).
    NoOp,
    /// `(x)`
    Identity,
    /// An operation with an [`OpDef`]: all others, of the library or of the program.
    Defined(Defined),
}

impl Op {
    /// The kind's name in errors and in operations' names: TensorFlow's word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Placeholder { .. } => "Placeholder",
            Self::Const(_) => "Const",
            Self::Fill { .. } => "Fill",
            Self::Variable(_) => "Variable",
            Self::ReadVariable => "ReadVariable",
            Self::ResourceGather => "ResourceGather",
            Self::Assign => "Assign",
            Self::AssignAdd => "AssignAdd",
            Self::IsVariableInitialized => "IsVariableInitialized",
            Self::AwaitVariable => "AwaitVariable",
            Self::ApplyGradient { rule, is_sparse, .. } => rule.kind(*is_sparse),
            Self::BeginStep(_) => "BeginStep",
            Self::CommitStep(_) => "CommitStep",
            Self::Fence(_) => "Fence",
            Self::LiftFence(_) => "LiftFence",
            Self::AwaitDepartures(_) => "AwaitDepartures",
            Self::Resource(spec) => spec.kind.name(),
            Self::OnResource { action, .. } => action.kind(),
            Self::LearningRate(_) => "LearningRate",
            Self::NoOp => "NoOp",
            Self::Identity => "Identity",
            Self::Defined(op) => op.definition().kind(),
        }
    }

    /// The kind of its kernel.
    pub(crate) fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::Defined(op) => op.definition().kernel_kind(),
            Self::Fill { .. } => KernelKind::Movement,
            _ => KernelKind::Elementwise,
        }
    }

    /// The operation as a link of a chain, if it can be one.
    pub(crate) fn elementwise(&self) -> Option<&dyn Elementwise> {
        match self {
            Self::Defined(op) => op.definition().elementwise(),
            _ => None,
        }
    }

    /// The position of the operation's guard, the input that says whether it is carried out; `None`
    /// if it can have none. It follows all other inputs, and may be absent.
    pub(crate) fn guard_at(&self) -> Option<usize> {
        match self {
            Self::Assign | Self::AssignAdd => Some(1),
            Self::ApplyGradient { is_sparse, replica: None, .. } => {
                Some(2 + usize::from(*is_sparse))
            }
            _ => None,
        }
    }

    /// Whether it only declares a variable or a resource, and is not run.
    pub(crate) fn is_declaration(&self) -> bool {
        matches!(self, Self::Variable(_) | Self::Resource(_))
    }

    /// Whether the operation reads or changes state that outlives the step, so that its task's
    /// parameter server runs it.
    pub fn is_stateful(&self) -> bool {
        matches!(
            self,
            Self::ReadVariable
                | Self::ResourceGather
                | Self::Assign
                | Self::AssignAdd
                | Self::IsVariableInitialized
                | Self::AwaitVariable
                | Self::ApplyGradient { .. }
                | Self::BeginStep(_)
                | Self::CommitStep(_)
                | Self::Fence(_)
                | Self::LiftFence(_)
                | Self::AwaitDepartures(_)
                | Self::OnResource { .. }
        )
    }
}
