//! Operations that move elements, and change none; and the gradients of those that use an element
//! twice.

use serde::{Deserialize, Serialize};

use super::{Mirror, Subscript};
use crate::tensor::{DType, PartialShape, Tensor};

/// What becomes of the elements' shape or order. Axes count from 0, the outermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Array {
    /// `(x)`, its elements in this shape; one dimension may be `None`, and is what the others leave
    /// (TensorFlow `Reshape`, where it is -1).
    Reshape(PartialShape),
    /// `(x, like)`: the elements of `x` in the shape of `like`, whose values are not used.
    ReshapeLike,
    /// `(x)` with a new axis of size 1 before this one.
    ExpandDims(usize),
    /// `(x)` without these axes, which are of size 1.
    Squeeze(Vec<usize>),
    /// `(x)`: axis `i` of the result is this axis of `x`.
    Transpose(Vec<usize>),
    /// `(x, …)`: one after the other along an axis (TensorFlow `ConcatV2`).
    Concat {
        /// The axis.
        axis: usize,
    },
    /// `(x)`: an output for each of these sizes along an axis (TensorFlow `SplitV`).
    Split {
        /// The axis.
        axis: usize,
        /// The sizes, which add up to that of the axis.
        sizes: Vec<usize>,
    },
    /// `(x, like, …)`: `x` cut along an axis into outputs of the shapes of the others, whose values
    /// are not used: the gradient of a concatenation whose sizes only the step knows.
    SplitLike {
        /// The axis.
        axis: usize,
    },
    /// `(x, …)` of one shape: along a new axis before this one (TensorFlow `Pack`).
    Stack {
        /// The axis.
        axis: usize,
    },
    /// `(x)`: an output for each position of an axis, without it (TensorFlow `Unpack`).
    Unstack {
        /// The axis.
        axis: usize,
    },
    /// `(x)`: the part that begins at a position.
    Slice {
        /// Where it begins, for each axis.
        begin: Vec<usize>,
        /// Its size, for each axis; `None` for all that is left (TensorFlow: -1).
        size: Vec<Option<usize>>,
    },
    /// `(x)`: what the subscripts take; all of each axis after them.
    StridedSlice(Vec<Subscript>),
    /// `(gradient, x)`: zeros of the shape of `x`, and the gradient where the slice was taken.
    StridedSliceGrad(Vec<Subscript>),
    /// `(x)` with a value before and after it along each axis (TensorFlow `PadV2`).
    Pad {
        /// How many before and how many after, for each axis.
        paddings: Vec<(usize, usize)>,
        /// The value, a scalar of the type of `x`.
        value: Tensor,
    },
    /// `(x)` with its own elements, mirrored, before and after it along each axis.
    MirrorPad {
        /// How many before and how many after, for each axis.
        paddings: Vec<(usize, usize)>,
        /// Where the mirror stands.
        mirror: Mirror,
    },
    /// `(gradient)`: each element of the padded, added to the one that it came from.
    MirrorPadGrad {
        /// As those of the padding.
        paddings: Vec<(usize, usize)>,
        /// As that of the padding.
        mirror: Mirror,
    },
    /// `(x)`, repeated so many times along each axis.
    Tile(Vec<usize>),
    /// `(gradient)`: the sum of the tiles.
    TileGrad(Vec<usize>),
    /// `(x)` repeated to fill this shape, by the rules of NumPy; `None` keeps the size that `x`
    /// has.
    BroadcastTo(PartialShape),
    /// `(gradient, x)`: the sum over all that each element of `x` became.
    BroadcastToGrad,
    /// `(x)` in the opposite order along these axes (TensorFlow `ReverseV2`).
    Reverse(Vec<usize>),
    /// `(x)`: the sums of all elements up to each along an axis.
    Cumsum {
        /// The axis.
        axis: usize,
        /// Without the element itself.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },
    /// `(x)`: zeros of its type and shape.
    ZerosLike,
    /// `()`: `start`, `start + delta`, … below `limit` (above it where `delta` is negative).
    Range {
        /// The first value, a scalar.
        start: Tensor,
        /// What the values do not reach, of the same type.
        limit: Tensor,
        /// What each is more than the one before, of the same type.
        delta: Tensor,
    },
    /// `(x)`: the size of each of its dimensions (i32 or i64).
    Shape(DType),
    /// `(x)`: how many elements it has (i32 or i64).
    Size(DType),
    /// `(x)`: how many dimensions it has (i32).
    Rank,
}

impl Array {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Reshape(_) => "Reshape",
            Self::ReshapeLike => "ReshapeLike",
            Self::ExpandDims(_) => "ExpandDims",
            Self::Squeeze(_) => "Squeeze",
            Self::Transpose(_) => "Transpose",
            Self::Concat { .. } => "ConcatV2",
            Self::Split { .. } => "SplitV",
            Self::SplitLike { .. } => "SplitLike",
            Self::Stack { .. } => "Pack",
            Self::Unstack { .. } => "Unpack",
            Self::Slice { .. } => "Slice",
            Self::StridedSlice(_) => "StridedSlice",
            Self::StridedSliceGrad(_) => "StridedSliceGrad",
            Self::Pad { .. } => "PadV2",
            Self::MirrorPad { .. } => "MirrorPad",
            Self::MirrorPadGrad { .. } => "MirrorPadGrad",
            Self::Tile(_) => "Tile",
            Self::TileGrad(_) => "TileGrad",
            Self::BroadcastTo(_) => "BroadcastTo",
            Self::BroadcastToGrad => "BroadcastToGrad",
            Self::Reverse(_) => "ReverseV2",
            Self::Cumsum { .. } => "Cumsum",
            Self::ZerosLike => "ZerosLike",
            Self::Range { .. } => "Range",
            Self::Shape(_) => "Shape",
            Self::Size(_) => "Size",
            Self::Rank => "Rank",
        }
    }
}
