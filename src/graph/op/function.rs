//! The functions that elementwise operations compute.

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

impl Unary {
    /// Whether the gradient is computed from the function's input instead of its result.
    pub(crate) fn gradient_needs_input(self) -> bool {
        matches!(self, Self::Log | Self::Square)
    }

    pub(super) fn kind(self) -> &'static str {
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

    pub(super) fn gradient_kind(self) -> &'static str {
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

impl Binary {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "RealDiv",
        }
    }
}
