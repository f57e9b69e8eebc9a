//! The kinds of operation a graph is made of, and their attributes. Names are TensorFlow's, if it
//! has one.

mod array;
mod attribute;
mod attributes;
mod binary;
mod definition;
mod learning_rate;
mod loss;
mod norm;
mod range;
mod reduce;
mod resource;
mod sparse;
mod subscript;
mod unary;
mod update_rule;
mod window;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub use array::Array;
pub use attribute::{Attribute, Attributes};
pub use attributes::{RandomLaw, Replica, VariableSpec};
pub use binary::{Binary, Comparison, Logical};
pub use definition::{ComputeError, Defined, Known, OpDef, Outputs};
pub use learning_rate::{LearningRate, Schedule};
pub use loss::Loss;
pub use norm::Norm;
pub(crate) use range::range_len;
pub use reduce::{Axes, Reduce, Reduction};
pub use resource::{ResourceAction, ResourceKind, ResourceSpec};
pub use sparse::{ShardStrategy, Sharding, Sparse};
pub use subscript::{Mirror, Subscript};
pub(crate) use unary::Seen;
pub use unary::Unary;
pub(crate) use update_rule::RowsAt;
pub use update_rule::{
    FirstValue, Parameter, ParameterValue, Parameters, Range, Rule, RuleState, Slot, UpdateRule,
};
pub use window::{Channels, Convolution, Padding, Pool, Sliding, Window};

/// The kind of an operation, with its attributes.
///
/// Inputs are listed as `(a, b)`. Variables are listed apart from inputs, because a variable is a
/// place on a parameter server and not a value that travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Random values that depend on the two seeds alone, and not on the device.
    Random {
        /// Their distribution.
        law: RandomLaw,
        /// The shape.
        shape: Shape,
        /// The graph's seed, and the operation's own.
        seeds: (u64, u64),
        /// The position of the first one in the sequence of these seeds: a part of a larger value
        /// can be made by itself.
        offset: usize,
    },

    /// A place for a value that outlives the step (TensorFlow: `VarHandleOp`). A declaration: it is
    /// not run.
    Variable(VariableSpec),
    /// The variable's value, and its version: how many updates it has had (i64).
    ReadVariable,
    /// The rows `(ids […])` of the variable, and its version. Only these rows are copied and
    /// travel.
    ResourceGather,
    /// Stores `(value)`; gives the value.
    Assign,
    /// Adds `(delta)`; gives the new value.
    AssignAdd,
    /// Whether the variable has a value yet.
    IsVariableInitialized,
    /// Completes once the variable has a value, however long that takes; at once if it has one.
    AwaitVariable,
    /// Updates a variable by a gradient: `(learning_rate, gradient)`; with a replica
    /// `(…, versions read…)`; if the replica's mode has votes `(…, verdict, versions read…)`. The
    /// least version counts. Variables: the variable, then its slots.
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
    /// The vote of modes with backup workers, of K-async and of K-batch: tells the coordinator that
    /// the worker's gradients are on their way. `(version read from each parameter server…)`; gives
    /// the verdict: the gradient's place in a round, if it has one, and the contributors of the
    /// last rounds (i64 vector).
    Vote(Replica),
    /// Ends a worker's step, after its updates: `(global step read)`; in a mode with votes
    /// `(…, verdict)`. Gives the global step after it (i64), the staleness of the worker's gradient
    /// \[updates\] (i64) and whether it was applied (bool).
    CommitStep(Replica),
    /// Completes once every other worker of the training is between two steps, where each stays
    /// until the fence is lifted. Meanwhile all variables hold the same whole steps.
    Fence(Replica),
    /// Lifts the worker's fence. Fails if the fence was lifted before: the others may have gone on.
    LiftFence(Replica),

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
    /// `(a, b)`: the matrix product; either matrix can be transposed first.
    MatMul {
        /// Multiply by `a` transposed.
        transpose_a: bool,
        /// Multiply by `b` transposed.
        transpose_b: bool,
    },
    /// `(x […, m, k], y […, k, n])`: the product of each pair of matrices, either of which can be
    /// transposed first; the dimensions before them are repeated by the rules of NumPy (TensorFlow
    /// `BatchMatMulV2`).
    BatchMatMul {
        /// Multiply by `x` transposed.
        adj_x: bool,
        /// Multiply by `y` transposed.
        adj_y: bool,
    },
    /// `(x […, columns], bias [columns])`
    BiasAdd,
    /// `(gradient […, columns])`: the sum over all dimensions but the last.
    BiasAddGrad,
    /// One function of each element of `(x)`.
    Unary(Unary),
    /// The gradient of a unary function: `(gradient, x)` or `(gradient, y)`, by the function.
    UnaryGrad(Unary),
    /// One function of each pair of elements of `(a, b)`, broadcast.
    Binary(Binary),
    /// The comparison of each pair of elements of `(a, b)`, broadcast (bool).
    Compare(Comparison),
    /// One function of truth values, broadcast.
    Logical(Logical),
    /// `(condition, a, b)`, broadcast: an element of `a` where the condition holds, else of `b`
    /// (TensorFlow `SelectV2`).
    Select,
    /// `(gradient, x)`: the gradient summed over the dimensions that `x` was broadcast along, to
    /// the shape of `x`.
    SumToLike,
    /// The sum of all inputs, in their order.
    AddN,
    /// `(x, factor [rows])`: each row of `x` times its factor.
    ScaleRows,
    /// A reduction of the elements of `(x)` along some axes.
    Reduce(Reduce),
    /// `(gradient, x)`, and `y` if the reduction is `Max` or `Min`: the gradient, spread over the
    /// shape of `x`.
    ReduceGrad(Reduce),
    /// Softmax, or a loss.
    Loss(Loss),
    /// Normalisation, or dropout.
    Norm(Norm),
    /// `(x)` cast to another element type.
    Cast(DType),
    /// The same elements in another shape or order.
    Array(Array),
    /// Rows found by their number.
    Sparse(Sparse),
    /// Windows over images.
    Window(Window),
    /// An operation with an [`OpDef`], of the library or of the program.
    Defined(Defined),
}

impl Op {
    /// The kind's name in errors and in operations' names: TensorFlow's word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Placeholder { .. } => "Placeholder",
            Self::Const(_) => "Const",
            Self::Fill { .. } => "Fill",
            Self::Random { law, .. } => law.kind(),
            Self::Variable(_) => "Variable",
            Self::ReadVariable => "ReadVariable",
            Self::ResourceGather => "ResourceGather",
            Self::Assign => "Assign",
            Self::AssignAdd => "AssignAdd",
            Self::IsVariableInitialized => "IsVariableInitialized",
            Self::AwaitVariable => "AwaitVariable",
            Self::ApplyGradient { rule, is_sparse, .. } => rule.kind(*is_sparse),
            Self::Vote(_) => "Vote",
            Self::CommitStep(_) => "CommitStep",
            Self::Fence(_) => "Fence",
            Self::LiftFence(_) => "LiftFence",
            Self::Resource(spec) => spec.kind.name(),
            Self::OnResource { action, .. } => action.kind(),
            Self::LearningRate(_) => "LearningRate",
            Self::NoOp => "NoOp",
            Self::Identity => "Identity",
            Self::MatMul { .. } => "MatMul",
            Self::BatchMatMul { .. } => "BatchMatMulV2",
            Self::BiasAdd => "BiasAdd",
            Self::BiasAddGrad => "BiasAddGrad",
            Self::Unary(unary) => unary.kind(),
            Self::UnaryGrad(unary) => unary.gradient_kind(),
            Self::Binary(binary) => binary.kind(),
            Self::Compare(comparison) => comparison.kind(),
            Self::Logical(logical) => logical.kind(),
            Self::Select => "SelectV2",
            Self::SumToLike => "SumToLike",
            Self::AddN => "AddN",
            Self::ScaleRows => "ScaleRows",
            Self::Reduce(reduce) => reduce.reduction.kind(),
            Self::ReduceGrad(reduce) => reduce.reduction.gradient_kind(),
            Self::Loss(loss) => loss.kind(),
            Self::Norm(norm) => norm.kind(),
            Self::Cast(_) => "Cast",
            Self::Array(array) => array.kind(),
            Self::Sparse(sparse) => sparse.kind(),
            Self::Window(window) => window.kind(),
            Self::Defined(op) => op.definition().kind(),
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
                | Self::Vote(_)
                | Self::CommitStep(_)
                | Self::Fence(_)
                | Self::LiftFence(_)
                | Self::OnResource { .. }
        )
    }
}
