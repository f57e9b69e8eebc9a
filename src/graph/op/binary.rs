//! Functions of two elements, comparisons, and functions of truth values.

use serde::{Deserialize, Serialize};

/// A function of two elements of one type: f32, f64, i32 or i64. Shapes are broadcast as NumPy does
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binary {
    /// `a + b` (TensorFlow `AddV2`).
    Add,
    /// `a − b`
    Sub,
    /// `a · b`
    Mul,
    /// `a / b`; of integers, rounded towards 0 (TensorFlow `RealDiv`; of integers `Div`).
    Div,
    /// `⌊a / b⌋`
    FloorDiv,
    /// The remainder of [`FloorDiv`](Self::FloorDiv), with the sign of `b`.
    FloorMod,
    /// `aᵇ`
    Pow,
    /// The greater.
    Maximum,
    /// The lesser.
    Minimum,
    /// `(a − b)²`
    SquaredDifference,
}

/// A comparison of two elements of one type of numbers. Shapes are broadcast as NumPy does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// `a = b`, of truth values too. A NaN equals nothing.
    Equal,
    /// `a ≠ b`, of truth values too.
    NotEqual,
    /// `a < b`
    Less,
    /// `a ≤ b`
    LessEqual,
    /// `a > b`
    Greater,
    /// `a ≥ b`
    GreaterEqual,
}

/// A function of truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Logical {
    /// `(a, b)`: both, broadcast.
    And,
    /// `(a, b)`: either or both, broadcast.
    Or,
    /// `(a)`: the opposite.
    Not,
}

impl Binary {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "RealDiv",
            Self::FloorDiv => "FloorDiv",
            Self::FloorMod => "FloorMod",
            Self::Pow => "Pow",
            Self::Maximum => "Maximum",
            Self::Minimum => "Minimum",
            Self::SquaredDifference => "SquaredDifference",
        }
    }
}

impl Comparison {
    /// Whether the comparison takes truth values.
    pub(crate) fn takes_truth(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::NotEqual => "NotEqual",
            Self::Less => "Less",
            Self::LessEqual => "LessEqual",
            Self::Greater => "Greater",
            Self::GreaterEqual => "GreaterEqual",
        }
    }
}

impl Logical {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::And => "LogicalAnd",
            Self::Or => "LogicalOr",
            Self::Not => "LogicalNot",
        }
    }
}
