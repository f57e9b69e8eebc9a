//! Operations that find elements by indices that are values.

use serde::{Deserialize, Serialize};

use crate::tensor::{Shape, Tensor};

/// What is done at the indices (i32 or i64), which count from 0.
///
/// The last dimension of `Nd` indices is a position along the first axes of what they point into,
/// and the slice there, of the axes left, is what is moved. Where indices repeat, they count in
/// their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Indexed {
    /// `(params, indices)`: the slices at the indices along an axis, which takes the indices' shape
    /// (TensorFlow `GatherV2` without batch dimensions).
    Gather {
        /// The axis.
        axis: usize,
    },
    /// `(gradient, params, indices)`: zeros of the shape of `params`, whose values are not used,
    /// and each slice of the gradient added where it was gathered.
    GatherGrad {
        /// The axis.
        axis: usize,
    },
    /// `(params, indices)`: the slices at the indices.
    GatherNd,
    /// `(indices, updates)`: zeros of this shape, and the updates added at the indices.
    ScatterNd(Shape),
    /// `(x, indices, updates)`: `x`, and the updates added at the indices.
    TensorScatterAdd,
    /// `(x, indices, updates)`: `x`, and the updates in its place at the indices; the last of
    /// several.
    TensorScatterUpdate,
    /// `(indices)`: `on` at the index along a new axis and `off` elsewhere, everywhere for an index
    /// that is no position.
    OneHot {
        /// The size of the new axis.
        depth: usize,
        /// The axis before which it is.
        axis: usize,
        /// A scalar.
        on: Tensor,
        /// A scalar of the same type.
        off: Tensor,
    },
}

impl Indexed {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Gather { .. } => "GatherV2",
            Self::GatherGrad { .. } => "GatherGrad",
            Self::GatherNd => "GatherNd",
            Self::ScatterNd(_) => "ScatterNd",
            Self::TensorScatterAdd => "TensorScatterAdd",
            Self::TensorScatterUpdate => "TensorScatterUpdate",
            Self::OneHot { .. } => "OneHot",
        }
    }
}
