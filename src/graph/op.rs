//! The kinds of operation a graph is made of, and their attributes. Names are TensorFlow's where it has one.

use std::sync::Arc;

use crate::sync::Mode;
use crate::tensor::{DType, PartialShape, Shape, Tensor};

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
    /// Gives the global step after it (i64), the staleness of the worker's gradient [updates] (i64)
    /// and whether it was applied (bool).
    CommitStep(Replica),

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
}

/// The distribution of random values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RandomLaw {
    /// Uniform in `[low, high)`.
    Uniform {
        /// The least value.
        low: f32,
        /// The bound above.
        high: f32,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// Normal, drawn again where farther than two deviations from the mean.
    TruncatedNormal {
        /// The mean.
        mean: f32,
        /// The standard deviation, before truncation.
        deviation: f32,
    },
}

/// What a variable is. Two graphs that name the same one share it.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableSpec {
    /// The name under which graphs share the variable; the operation's own unless another was given.
    pub shared_name: Arc<str>,
    /// The namespace of resources that `Session::reset` clears as one.
    pub container: Arc<str>,
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// Whether an optimizer updates it.
    pub trainable: bool,
}

/// One of the workers that train the same variables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Which one, from 0.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// How they are coordinated.
    pub mode: Mode,
}

/// How a gradient changes a variable: TensorFlow's dense rules, without the learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateRule {
    /// `v -= lr·g`
    GradientDescent,
    /// `m = μ·m + g; v -= lr·m`, with Nesterov `v -= lr·g + lr·μ·m`
    Momentum {
        /// μ.
        momentum: f32,
        /// Look ahead.
        use_nesterov: bool,
    },
    /// `a += g²; v -= lr·g/√a`
    Adagrad {
        /// What `a` begins with.
        initial_accumulator_value: f32,
    },
    /// `m += (g−m)(1−β1); s += (g²−s)(1−β2); v -= lr·√(1−β2ᵗ)/(1−β1ᵗ)·m/(√s+ε)`
    Adam {
        /// β1.
        beta1: f32,
        /// β2.
        beta2: f32,
        /// ε, outside the root ("epsilon hat").
        epsilon: f32,
    },
}

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `max(x, 0)`
    Relu,
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `tanh x`
    Tanh,
    /// `eˣ`
    Exp,
    /// `ln x`
    Log,
    /// `x²`
    Square,
    /// `−x`
    Neg,
}

impl Unary {
    /// Whether the gradient is computed from the function's input instead of its result.
    pub(crate) fn gradient_needs_input(self) -> bool {
        matches!(self, Self::Log | Self::Square)
    }
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a − b`
    Sub,
    /// `a · b`
    Mul,
    /// `a / b`
    Div,
}

/// What becomes of all elements together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

impl Op {
    /// What the kind is called in errors and in names: TensorFlow's word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Placeholder { .. } => "Placeholder",
            Self::Const(_) => "Const",
            Self::Fill { .. } => "Fill",
            Self::Random { law: RandomLaw::Uniform { .. }, .. } => "RandomUniform",
            Self::Random { law: RandomLaw::Normal { .. }, .. } => "RandomStandardNormal",
            Self::Random { law: RandomLaw::TruncatedNormal { .. }, .. } => "TruncatedNormal",
            Self::Variable(_) => "Variable",
            Self::ReadVariable => "ReadVariable",
            Self::Assign => "Assign",
            Self::AssignAdd => "AssignAdd",
            Self::IsVariableInitialized => "IsVariableInitialized",
            Self::AwaitVariable => "AwaitVariable",
            Self::ApplyGradient { rule: UpdateRule::GradientDescent, .. } => "ApplyGradientDescent",
            Self::ApplyGradient { rule: UpdateRule::Momentum { .. }, .. } => "ApplyMomentum",
            Self::ApplyGradient { rule: UpdateRule::Adagrad { .. }, .. } => "ApplyAdagrad",
            Self::ApplyGradient { rule: UpdateRule::Adam { .. }, .. } => "ApplyAdam",
            Self::Vote(_) => "Vote",
            Self::CommitStep(_) => "CommitStep",
            Self::NoOp => "NoOp",
            Self::Identity => "Identity",
            Self::MatMul { .. } => "MatMul",
            Self::BiasAdd => "BiasAdd",
            Self::BiasAddGrad => "BiasAddGrad",
            Self::Unary(unary) => unary.kind(),
            Self::UnaryGrad(unary) => unary.gradient_kind(),
            Self::Binary(Binary::Add) => "Add",
            Self::Binary(Binary::Sub) => "Sub",
            Self::Binary(Binary::Mul) => "Mul",
            Self::Binary(Binary::Div) => "RealDiv",
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
        }
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
        )
    }
}

impl Unary {
    fn kind(self) -> &'static str {
        match self {
            Self::Relu => "Relu",
            Self::Sigmoid => "Sigmoid",
            Self::Tanh => "Tanh",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::Square => "Square",
            Self::Neg => "Neg",
        }
    }

    fn gradient_kind(self) -> &'static str {
        match self {
            Self::Relu => "ReluGrad",
            Self::Sigmoid => "SigmoidGrad",
            Self::Tanh => "TanhGrad",
            Self::Exp => "ExpGrad",
            Self::Log => "LogGrad",
            Self::Square => "SquareGrad",
            Self::Neg => "NegGrad",
        }
    }
}
