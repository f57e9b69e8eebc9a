//! Operations that move elements without changing them, and the gradients of those that use an
//! element twice.

mod attributes;
mod build;
mod compute;
mod gradient;
mod infer;
mod range;
mod slices;
mod views;

use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    Mirror, OpDef, Output, OutputTypes, Outputs, Subscript, TensorType, bytes,
};
use crate::tensor::{DType, PartialShape, Tensor};

pub(super) use attributes::kinds;
pub(crate) use infer::MAX_PARTS;
pub(crate) use range::check_direction;

/// A change of the elements' shape or order. Axes count from 0, the outermost.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// `(x)`, its elements in this shape; one dimension may be `None`, and follows from the others
    /// (TensorFlow `Reshape`, where it is -1).
    Reshape(PartialShape),
    /// `(x, like)`: the elements of `x` in the shape of `like`, whose values are not used.
    ReshapeLike,
    /// `(x)` with a new axis of size 1 before this axis.
    ExpandDims(usize),
    /// `(x)` without these axes, which are of size 1.
    Squeeze(Vec<usize>),
    /// `(x)`: axis `i` of the result is this axis of `x`.
    Transpose(Vec<usize>),
    /// `(x, …)`: all inputs, concatenated along an axis (TensorFlow `ConcatV2`).
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
    /// are not used. The gradient of a concatenation whose sizes only the step knows.
    SplitLike {
        /// The axis.
        axis: usize,
    },
    /// `(x, …)` of one shape: all inputs along a new axis before `axis` (TensorFlow `Pack`).
    Stack {
        /// The axis.
        axis: usize,
    },
    /// `(x)`: an output for each position of an axis, without that axis (TensorFlow `Unpack`).
    Unstack {
        /// The axis.
        axis: usize,
    },
    /// `(x)`: the part that begins at a position.
    Slice {
        /// The first position, for each axis.
        begin: Vec<usize>,
        /// Its size, for each axis; `None` for the rest of the axis (TensorFlow: -1).
        size: Vec<Option<usize>>,
    },
    /// `(x)`: the part that the subscripts take, with the whole of each axis after them.
    StridedSlice(Vec<Subscript>),
    /// `(gradient, x)`: zeros of the shape of `x`, with the gradient where the slice was taken.
    StridedSliceGrad(Vec<Subscript>),
    /// `(x)` with a value before and after it along each axis (TensorFlow `PadV2`).
    Pad {
        /// The number of elements before and after, for each axis.
        paddings: Vec<(usize, usize)>,
        /// The value, a scalar of the type of `x`.
        value: Tensor,
    },
    /// `(x)` with its own elements, mirrored, before and after it along each axis.
    MirrorPad {
        /// The number of elements before and after, for each axis.
        paddings: Vec<(usize, usize)>,
        /// The position of the mirror.
        mirror: Mirror,
    },
    /// `(gradient)`: each element of the padded value, added to the element that it was copied
    /// from.
    MirrorPadGrad {
        /// The paddings of the `MirrorPad`.
        paddings: Vec<(usize, usize)>,
        /// The mirror of the `MirrorPad`.
        mirror: Mirror,
    },
    /// `(x)`, repeated this many times along each axis.
    Tile(Vec<usize>),
    /// `(gradient)`: the sum of the tiles.
    TileGrad(Vec<usize>),
    /// `(x)` repeated to fill this shape, by the rules of NumPy; `None` keeps the size of `x`.
    BroadcastTo(PartialShape),
    /// `(x)` in the opposite order along these axes (TensorFlow `ReverseV2`).
    Reverse(Vec<usize>),
    /// `(x)`: the sums of all elements up to each along an axis.
    Cumsum {
        /// The axis.
        axis: usize,
        /// Whether each sum leaves out the element itself.
        exclusive: bool,
        /// Whether the sums begin at the end.
        reverse: bool,
    },
    /// `(x)`: zeros of its type and shape.
    ZerosLike,
    /// `()`: `start`, `start + delta`, … below `limit` (above it where `delta` is negative).
    Range {
        /// The first value, a scalar.
        start: Tensor,
        /// The limit that the values do not reach, of the same type.
        limit: Tensor,
        /// The difference between a value and the one before, of the same type.
        delta: Tensor,
    },
    /// `(x)`: the size of each of its dimensions (i32 or i64).
    Shape(DType),
    /// `(x)`: the number of its elements (i32 or i64).
    Size(DType),
    /// `(x)`: the number of its dimensions (i32).
    Rank,
}

impl OpDef for Array {
    fn kind(&self) -> &'static str {
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
            Self::Reverse(_) => "ReverseV2",
            Self::Cumsum { .. } => "Cumsum",
            Self::ZerosLike => "ZerosLike",
            Self::Range { .. } => "Range",
            Self::Shape(_) => "Shape",
            Self::Size(_) => "Size",
            Self::Rank => "Rank",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        attributes::given(self, given).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        infer::infer(self, inputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        gradient::gradient(self, of)
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let (read, written) = (bytes(inputs), bytes(outputs));
        let first = || bytes(&inputs[..1]);
        match self {
            Self::Reshape(_) | Self::ReshapeLike | Self::ExpandDims(_) | Self::Squeeze(_) => {
                Cost::default()
            }
            Self::Shape(_) | Self::Size(_) | Self::Rank => Cost::default(),
            Self::ZerosLike | Self::Range { .. } => Cost::moved(written),
            Self::Slice { .. } | Self::StridedSlice(_) => Cost::moved(2 * written),
            Self::TileGrad(_) | Self::MirrorPadGrad { .. } | Self::Cumsum { .. } => {
                Cost::work(inputs[0].1.elements(), first() + written)
            }
            // The second input is only looked at for its shape.
            Self::StridedSliceGrad(_) | Self::SplitLike { .. } => Cost::moved(first() + written),
            _ => Cost::moved(read + written),
        }
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::ExpandDims(_)
            | Self::Squeeze(_)
            | Self::MirrorPad { .. }
            | Self::MirrorPadGrad { .. }
            | Self::TileGrad(_)
            | Self::Cumsum { .. }
            | Self::Range { .. }
            | Self::Shape(_)
            | Self::Size(_)
            | Self::Rank => KernelKind::Elementwise,
            _ => KernelKind::Movement,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(compute::call(self, inputs))
    }

    fn needs_values(&self) -> bool {
        !matches!(self, Self::Shape(_) | Self::Size(_) | Self::Rank)
    }
}
