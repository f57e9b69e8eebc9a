//! Functions of one element.

use serde::{Deserialize, Serialize};

/// A function of one real number (f32, f64), or also of an integer if its doc says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Unary {
    /// `max(x, 0)`
    Relu,
    /// `min(max(x, 0), 6)`
    Relu6,
    /// `x`, multiplied by this factor if it is below 0.
    LeakyRelu(f32),
    /// `x`, or `eˣ − 1` below 0.
    Elu,
    /// `1.0507 x`, or `1.7581 (eˣ − 1)` below 0 (Klambauer et al. 2017).
    Selu,
    /// `x Φ(x)`, Φ being the normal distribution (TensorFlow `tf.nn.gelu`; Hendrycks and Gimpel
    /// 2016).
    Gelu {
        /// Whether it is `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))` instead.
        approximate: bool,
    },
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `tanh x`
    Tanh,
    /// `ln(1 + eˣ)`
    Softplus,
    /// `x / (1 + |x|)`
    Softsign,
    /// `x / (1 + e⁻ˣ)` (TensorFlow `tf.nn.silu`).
    Silu,
    /// `−ln(1 + e⁻ˣ)` (TensorFlow `tf.math.log_sigmoid`).
    LogSigmoid,
    /// `eˣ`
    Exp,
    /// `eˣ − 1`
    Expm1,
    /// `ln x`
    Log,
    /// `ln(1 + x)`
    Log1p,
    /// `√x`
    Sqrt,
    /// `1 / √x`
    Rsqrt,
    /// `1 / x`
    Reciprocal,
    /// `x²`, of integers too.
    Square,
    /// `|x|`, of integers too.
    Abs,
    /// 1, −1 or 0, of integers too.
    Sign,
    /// `−x`, of integers too.
    Neg,
    /// The integer below.
    Floor,
    /// The integer above.
    Ceil,
    /// The nearest integer; of two equally near, the even one.
    Round,
    /// `sin x`
    Sin,
    /// `cos x`
    Cos,
    /// The error function.
    Erf,
}

/// The value that a function's gradient is computed from, besides the gradient of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The function's input.
    Input,
    /// Its result.
    Output,
}

impl Unary {
    /// The value that the gradient is computed from; `None` if the gradient needs no kernel of its
    /// own: that of `Neg`, and of the functions through which no gradient passes back.
    pub(crate) fn gradient_sees(self) -> Option<Seen> {
        match self {
            Self::Neg | Self::Floor | Self::Ceil | Self::Round => None,
            Self::Relu | Self::Relu6 | Self::Elu | Self::Selu | Self::Sigmoid | Self::Tanh => {
                Some(Seen::Output)
            }
            Self::Exp | Self::Sqrt | Self::Rsqrt | Self::Reciprocal | Self::Sign => {
                Some(Seen::Output)
            }
            _ => Some(Seen::Input),
        }
    }

    /// Whether the function takes integers too.
    pub(crate) fn takes_integers(self) -> bool {
        matches!(self, Self::Square | Self::Abs | Self::Sign | Self::Neg)
    }

    pub(super) fn kind(self) -> &'static str {
        self.kinds().0
    }

    pub(super) fn gradient_kind(self) -> &'static str {
        self.kinds().1
    }

    /// The kinds of the function and of its gradient.
    fn kinds(self) -> (&'static str, &'static str) {
        match self {
            Self::Relu => ("Relu", "ReluGrad"),
            Self::Relu6 => ("Relu6", "Relu6Grad"),
            Self::LeakyRelu(_) => ("LeakyRelu", "LeakyReluGrad"),
            Self::Elu => ("Elu", "EluGrad"),
            Self::Selu => ("Selu", "SeluGrad"),
            Self::Gelu { .. } => ("Gelu", "GeluGrad"),
            Self::Sigmoid => ("Sigmoid", "SigmoidGrad"),
            Self::Tanh => ("Tanh", "TanhGrad"),
            Self::Softplus => ("Softplus", "SoftplusGrad"),
            Self::Softsign => ("Softsign", "SoftsignGrad"),
            Self::Silu => ("Silu", "SiluGrad"),
            Self::LogSigmoid => ("LogSigmoid", "LogSigmoidGrad"),
            Self::Exp => ("Exp", "ExpGrad"),
            Self::Expm1 => ("Expm1", "Expm1Grad"),
            Self::Log => ("Log", "LogGrad"),
            Self::Log1p => ("Log1p", "Log1pGrad"),
            Self::Sqrt => ("Sqrt", "SqrtGrad"),
            Self::Rsqrt => ("Rsqrt", "RsqrtGrad"),
            Self::Reciprocal => ("Reciprocal", "ReciprocalGrad"),
            Self::Square => ("Square", "SquareGrad"),
            Self::Abs => ("Abs", "AbsGrad"),
            Self::Sign => ("Sign", "SignGrad"),
            Self::Neg => ("Neg", "NegGrad"),
            Self::Floor => ("Floor", "FloorGrad"),
            Self::Ceil => ("Ceil", "CeilGrad"),
            Self::Round => ("Round", "RoundGrad"),
            Self::Sin => ("Sin", "SinGrad"),
            Self::Cos => ("Cos", "CosGrad"),
            Self::Erf => ("Erf", "ErfGrad"),
        }
    }
}
