//! Operations that compare the elements along an axis: which is greatest, which are.

use serde::{Deserialize, Serialize};

use crate::tensor::DType;

/// What is asked about the order of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// `(x)`: where along an axis the greatest element is; the first of equals. A NaN never is.
    ArgMax {
        /// The axis.
        axis: usize,
        /// The type of the positions: i32 or i64.
        dtype: DType,
    },
    /// `(x)`: where along an axis the least element is; the first of equals. A NaN never is.
    ArgMin {
        /// The axis.
        axis: usize,
        /// The type of the positions: i32 or i64.
        dtype: DType,
    },
    /// `(x)`: the greatest elements along the last axis, the greatest first, and where they are
    /// (i32). Of equals the first comes first; NaNs come before numbers (TensorFlow `TopKV2`,
    /// sorted).
    TopK {
        /// How many.
        k: usize,
    },
    /// `(gradient, positions, x)`: the gradient at these positions along the last axis, and 0
    /// elsewhere.
    TopKGrad,
    /// `(predictions [rows, classes], targets [rows])`: whether fewer than `k` predictions of a row
    /// are greater than that of its target. False where the target names no class, or a prediction
    /// met on the way is not finite (TensorFlow `InTopKV2`).
    InTopK {
        /// How many.
        k: usize,
    },
}

impl Order {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::ArgMax { .. } => "ArgMax",
            Self::ArgMin { .. } => "ArgMin",
            Self::TopK { .. } => "TopKV2",
            Self::TopKGrad => "TopKGrad",
            Self::InTopK { .. } => "InTopKV2",
        }
    }
}
