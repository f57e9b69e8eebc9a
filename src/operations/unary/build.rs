//! The methods of `Output` that build functions of one element.

use super::Unary;
use crate::graph::Output;

macro_rules! unary {
    ($($method:ident $function:ident $says:literal),* $(,)?) => {
        /// Functions of each element. A function takes f32 and f64, and other types only if its doc
        /// says so; a wrong type is reported when a session takes the graph.
        impl Output {$(
            #[doc = $says]
            #[track_caller]
            pub fn $method(&self) -> Self {
                self.map(Unary::$function)
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
        self.map(Unary::LeakyRelu(alpha))
    }

    /// `x Φ(x)`, Φ being the normal distribution; with `approximate`,
    /// `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))` (TensorFlow `tf.nn.gelu`).
    #[track_caller]
    pub fn gelu(&self, approximate: bool) -> Self {
        self.map(Unary::Gelu { approximate })
    }
}
