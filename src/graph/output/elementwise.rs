//! Functions of each element, of one value or of several.

use super::Output;
use crate::graph::error::GraphError;
use crate::graph::op::{Binary, Comparison, Logical, Op, Unary};

macro_rules! unary {
    ($($method:ident $function:ident $says:literal),* $(,)?) => {
        /// Functions of each element. A function takes f32 and f64, and other types only if its doc
        /// says so; a wrong type is reported when a session takes the graph.
        impl Output {$(
            #[doc = $says]
            #[track_caller]
            pub fn $method(&self) -> Self {
                self.map(Op::Unary(Unary::$function))
            }
        )*}
    };
}
unary! {
    relu Relu "`max(x, 0)`",
    relu6 Relu6 "`min(max(x, 0), 6)`",
    elu Elu "`x`, below 0 `eˣ − 1`.",
    selu Selu "`1.0507 x`, below 0 `1.7581 (eˣ − 1)` (Klambauer et al. 2017).",
    sigmoid Sigmoid "`1 / (1 + e⁻ˣ)`",
    tanh Tanh "`tanh x`",
    softplus Softplus "`ln(1 + eˣ)`",
    softsign Softsign "`x / (1 + |x|)`",
    silu Silu "`x / (1 + e⁻ˣ)`, also called swish.",
    log_sigmoid LogSigmoid "`−ln(1 + e⁻ˣ)`",
    exp Exp "`eˣ`",
    expm1 Expm1 "`eˣ − 1`",
    log Log "`ln x`",
    log1p Log1p "`ln(1 + x)`",
    sqrt Sqrt "`√x`",
    rsqrt Rsqrt "`1 / √x`",
    reciprocal Reciprocal "`1 / x`",
    square Square "`x²`, of integers too.",
    abs Abs "`|x|`, of integers too.",
    sign Sign "1, −1 or 0, of integers too; its gradient is 0.",
    negate Neg "`−x`, of integers too.",
    floor Floor "The integer below; it has no gradient.",
    ceil Ceil "The integer above; it has no gradient.",
    round Round "The nearest integer, of two the even one; it has no gradient.",
    sin Sin "`sin x`",
    cos Cos "`cos x`",
    erf Erf "The error function.",
}

impl Output {
    /// `x`, multiplied by `alpha` if it is below 0 (TensorFlow `tf.nn.leaky_relu`).
    #[track_caller]
    pub fn leaky_relu(&self, alpha: f32) -> Self {
        self.map(Op::Unary(Unary::LeakyRelu(alpha)))
    }

    /// `x Φ(x)`, Φ being the normal distribution; with `approximate`,
    /// `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))` (TensorFlow `tf.nn.gelu`).
    #[track_caller]
    pub fn gelu(&self, approximate: bool) -> Self {
        self.map(Op::Unary(Unary::Gelu { approximate }))
    }

    /// The opposite truth values.
    #[track_caller]
    pub fn logical_not(&self) -> Self {
        self.map(Op::Logical(Logical::Not))
    }

    /// The elements of `a` where these truth values hold, and those of `b` elsewhere; all three are
    /// broadcast (TensorFlow `tf.where`).
    ///
    /// # Errors
    /// If these are not truth values, the types of `a` and `b` differ, or the shapes do not
    /// broadcast.
    #[track_caller]
    pub fn select(&self, a: &Self, b: &Self) -> Result<Self, GraphError> {
        self.with(&[a, b], Op::Select)
    }
}

macro_rules! binary {
    (@ Comparison $function:ident) => {
        Op::Compare(Comparison::$function)
    };
    (@ $op:ident $function:ident) => {
        Op::$op($op::$function)
    };
    ($($method:ident $op:ident $function:ident $says:literal),* $(,)?) => {
        /// Functions of two elements of one type. Shapes are broadcast as NumPy does it: aligned at
        /// the last dimension; a dimension that is 1 or missing takes the size of the other.
        impl Output {$(
            #[doc = $says]
            ///
            /// # Errors
            /// If the element types differ or do not have the function, or the shapes do not
            /// broadcast.
            #[track_caller]
            pub fn $method(&self, other: &Self) -> Result<Self, GraphError> {
                self.with(&[other], binary!(@ $op $function))
            }
        )*}
    };
}
binary! {
    add Binary Add "`a + b`",
    sub Binary Sub "`a − b`",
    mul Binary Mul "`a · b`",
    div Binary Div "`a / b`; of integers, cut towards 0.",
    floor_div Binary FloorDiv "`⌊a / b⌋`; it has no gradient.",
    floor_mod Binary FloorMod
        "What is left of `a` after [`floor_div`](Self::floor_div), of the sign of `b`.",
    pow Binary Pow "`aᵇ`",
    maximum Binary Maximum "The greater; the first has the gradient where they are equal.",
    minimum Binary Minimum "The lesser; the first has the gradient where they are equal.",
    squared_difference Binary SquaredDifference "`(a − b)²`",
    equal Comparison Equal "Where `a = b` (bool); of truth values too.",
    not_equal Comparison NotEqual "Where `a ≠ b` (bool); of truth values too.",
    less Comparison Less "Where `a < b` (bool).",
    less_equal Comparison LessEqual "Where `a ≤ b` (bool).",
    greater Comparison Greater "Where `a > b` (bool).",
    greater_equal Comparison GreaterEqual "Where `a ≥ b` (bool).",
    logical_and Logical And "Where both hold.",
    logical_or Logical Or "Where either or both hold.",
}
