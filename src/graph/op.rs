//! The kinds of operation a graph is made of, and their attributes. Names are TensorFlow's where it has one.

mod array;
mod attributes;
mod function;
mod indexed;
mod range;
mod resource;
mod subscript;

use std::sync::Arc;

use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub use array::Array;
pub use attributes::{RandomLaw, Replica, UpdateRule, VariableSpec};
pub use function::{Binary, Reduction, Unary};
pub use indexed::Indexed;
pub(crate) use range::range_len;
pub use resource::{ResourceAction, ResourceKind, ResourceSpec};
pub use subscript::{Mirror, Subscript};

/// What an operation does.
///
/// Inputs are listed as `(a, b)`; an operation that touches variables lists them apart, because a
/// variable is a place on a parameter server and not a value that travels.
#[derive(Clone, Debug, PartialEq)]
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
    /// One value everywhere, made where it is used.
    Fill {
        /// The shape.
        shape: Shape,
        /// The value.
        value: f32,
    },
    /// Random values that depend on the two seeds alone, not on where they are made.
    Random {
        /// Their distribution.
        law: RandomLaw,
        /// The shape.
        shape: Shape,
        /// The graph's seed, and the operation's own.
        seeds: (u64, u64),
    },

    /// A place for a value that outlives the step (TensorFlow: `VarHandleOp`). Not run itself.
    Variable(VariableSpec),
    /// The variable's value, and its version: how many updates it has had (i64).
    ReadVariable,
    /// Stores `(value)`; gives the value.
    Assign,
    /// Adds `(delta)`; gives the new value.
    AssignAdd,
    /// Whether the variable has a value yet.
    IsVariableInitialized,
    /// Completes once the variable has a value, however long that takes; at once where it has.
    AwaitVariable,
    /// Updates a variable by a gradient: `(learning_rate, gradient)`, and where gradients are
    /// aggregated `(…, version read)` or, with backup workers, `(…, version read, verdict)`.
    /// Variables: the variable, then its slots.
    ApplyGradient {
        /// The update rule.
        rule: UpdateRule,
        /// With synchronous training: wait for the other workers' gradients and apply their mean.
        aggregate: Option<Replica>,
    },
    /// With backup workers: tells the coordinator that the worker's gradients are on their way.
    /// `(version read from each parameter server…)`; gives the verdict: the contributors of the
    /// round, none where this worker's gradient came too late (i64 vector).
    Vote(Replica),
    /// Ends a worker's step, after its updates: `(global step read)`, with backup workers `(…, verdict)`.
    /// Gives the global step after it (i64), the staleness of the worker's gradient \[updates\] (i64)
    /// and whether it was applied (bool).
    CommitStep(Replica),

    /// A queue or an accumulator, which outlives the step. Not run itself.
    Resource(Arc<ResourceSpec>),
    /// What is done to one.
    OnResource {
        /// Which.
        resource: Arc<ResourceSpec>,
        /// What.
        action: ResourceAction,
    },

    /// Does nothing; runs after its control inputs (TensorFlow: `NoOp`, made by `group`).
    NoOp,
    /// `(x)`
    Identity,
    /// `(a, b)`: the matrix product, of either matrix transposed where asked.
    MatMul {
        /// Multiply by `a` transposed.
        transpose_a: bool,
        /// Multiply by `b` transposed.
        transpose_b: bool,
    },
    /// `(x [rows, columns], bias [columns])`
    BiasAdd,
    /// `(gradient [rows, columns])`: the sum over rows.
    BiasAddGrad,
    /// One function of each element of `(x)`.
    Unary(Unary),
    /// The gradient of a unary function: `(gradient, y)`, or `(gradient, x)` where the function says.
    UnaryGrad(Unary),
    /// `(a, b)`: of equal shapes, or one of them a scalar.
    Binary(Binary),
    /// The sum of all inputs, in their order.
    AddN,
    /// `(x, factor [rows])`: each row of `x` times its factor.
    ScaleRows,
    /// The sum or mean of all elements of `(x)`.
    Reduce(Reduction),
    /// `(gradient, x)`: the gradient of a reduction, spread over the shape of `x`.
    ReduceGrad(Reduction),
    /// `(logits [rows, classes])`
    Softmax,
    /// `(logits [rows, classes], labels [rows])`: the loss of each row, and its gradient by the logits.
    SparseSoftmaxCrossEntropyWithLogits,
    /// `(x [rows, columns])`: the column of each row's greatest value (i64); the first of equals.
    ArgMax,
    /// `(a, b)`: where they are equal (bool).
    Equal,
    /// `(x)` as another element type.
    Cast(DType),
    /// The same elements in another shape or order.
    Array(Array),
    /// Elements found by indices.
    Indexed(Indexed),
}

impl Op {
    /// What the kind is called in errors and in names: TensorFlow's word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Placeholder { .. } => "Placeholder",
            Self::Const(_) => "Const",
            Self::Fill { .. } => "Fill",
            Self::Random { law, .. } => law.kind(),
            Self::Variable(_) => "Variable",
            Self::ReadVariable => "ReadVariable",
            Self::Assign => "Assign",
            Self::AssignAdd => "AssignAdd",
            Self::IsVariableInitialized => "IsVariableInitialized",
            Self::AwaitVariable => "AwaitVariable",
            Self::ApplyGradient { rule, .. } => rule.kind(),
            Self::Vote(_) => "Vote",
            Self::CommitStep(_) => "CommitStep",
            Self::Resource(spec) => spec.kind.name(),
            Self::OnResource { action, .. } => action.kind(),
            Self::NoOp => "NoOp",
            Self::Identity => "Identity",
            Self::MatMul { .. } => "MatMul",
            Self::BiasAdd => "BiasAdd",
            Self::BiasAddGrad => "BiasAddGrad",
            Self::Unary(unary) => unary.kind(),
            Self::UnaryGrad(unary) => unary.gradient_kind(),
            Self::Binary(binary) => binary.kind(),
            Self::AddN => "AddN",
            Self::ScaleRows => "ScaleRows",
            Self::Reduce(Reduction::Sum) => "Sum",
            Self::Reduce(Reduction::Mean) => "Mean",
            Self::ReduceGrad(Reduction::Sum) => "SumGrad",
            Self::ReduceGrad(Reduction::Mean) => "MeanGrad",
            Self::Softmax => "Softmax",
            Self::SparseSoftmaxCrossEntropyWithLogits => "SparseSoftmaxCrossEntropyWithLogits",
            Self::ArgMax => "ArgMax",
            Self::Equal => "Equal",
            Self::Cast(_) => "Cast",
            Self::Array(array) => array.kind(),
            Self::Indexed(indexed) => indexed.kind(),
        }
    }

    /// Whether it only says that something is there, and is not run.
    pub(crate) fn is_declaration(&self) -> bool {
        matches!(self, Self::Variable(_) | Self::Resource(_))
    }

    /// Whether the operation reads or changes what outlives the step, so that its task's parameter server runs it.
    pub fn is_stateful(&self) -> bool {
        matches!(
            self,
            Self::ReadVariable
                | Self::Assign
                | Self::AssignAdd
                | Self::IsVariableInitialized
                | Self::AwaitVariable
                | Self::ApplyGradient { .. }
                | Self::Vote(_)
                | Self::CommitStep(_)
                | Self::OnResource { .. }
        )
    }
}
