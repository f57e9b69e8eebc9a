//! The attributes of operations that move elements, and one operation of each kind.

use super::Array;
use crate::graph::{Attributes, Defined, Mirror, Subscript};
use crate::tensor::{DType, PartialShape, Tensor};

/// One of each kind.
pub(in crate::operations) fn kinds() -> Vec<Defined> {
    let (number, shape) = (|| Tensor::scalar(0f32), PartialShape::new(&[]));
    [
        Array::Reshape(shape),
        Array::ReshapeLike,
        Array::ExpandDims(0),
        Array::Squeeze(vec![]),
        Array::Transpose(vec![]),
        Array::Concat { axis: 0 },
        Array::Split { axis: 0, sizes: vec![] },
        Array::SplitLike { axis: 0 },
        Array::Stack { axis: 0 },
        Array::Unstack { axis: 0 },
        Array::Slice { begin: vec![], size: vec![] },
        Array::StridedSlice(vec![]),
        Array::StridedSliceGrad(vec![]),
        Array::Pad { paddings: vec![], value: number() },
        Array::MirrorPad { paddings: vec![], mirror: Mirror::Reflect },
        Array::MirrorPadGrad { paddings: vec![], mirror: Mirror::Reflect },
        Array::Tile(vec![]),
        Array::TileGrad(vec![]),
        Array::BroadcastTo(shape),
        Array::Reverse(vec![]),
        Array::Cumsum { axis: 0, exclusive: false, reverse: false },
        Array::ZerosLike,
        Array::Range { start: number(), limit: number(), delta: number() },
        Array::Shape(DType::I32),
        Array::Size(DType::I32),
        Array::Rank,
    ]
    .map(Defined::from)
    .into()
}

/// The same operation with the attributes that are `given`.
pub(super) fn given(own: &Array, given: &mut Attributes) -> Array {
    match own {
        Array::Reshape(shape) => Array::Reshape(given.dims("shape", *shape)),
        Array::ExpandDims(axis) => Array::ExpandDims(given.size("axis", *axis)),
        Array::Squeeze(axes) => Array::Squeeze(given.sizes("axes", axes)),
        Array::Transpose(order) => Array::Transpose(given.sizes("order", order)),
        Array::Concat { axis } => Array::Concat { axis: given.size("axis", *axis) },
        Array::Split { axis, sizes } => {
            Array::Split { axis: given.size("axis", *axis), sizes: given.sizes("sizes", sizes) }
        }
        Array::SplitLike { axis } => Array::SplitLike { axis: given.size("axis", *axis) },
        Array::Stack { axis } => Array::Stack { axis: given.size("axis", *axis) },
        Array::Unstack { axis } => Array::Unstack { axis: given.size("axis", *axis) },
        Array::Slice { begin, size } => {
            Array::Slice { begin: given.sizes("begin", begin), size: sizes_or_rest(given, size) }
        }
        Array::StridedSlice(own) => Array::StridedSlice(subscripts(given, own)),
        Array::StridedSliceGrad(own) => Array::StridedSliceGrad(subscripts(given, own)),
        Array::Pad { paddings: own, value } => Array::Pad {
            paddings: paddings(given, own),
            value: given.tensor("value", value.clone()),
        },
        Array::MirrorPad { paddings: own, mirror: at } => {
            Array::MirrorPad { paddings: paddings(given, own), mirror: mirror(given, *at) }
        }
        Array::MirrorPadGrad { paddings: own, mirror: at } => {
            Array::MirrorPadGrad { paddings: paddings(given, own), mirror: mirror(given, *at) }
        }
        Array::Tile(multiples) => Array::Tile(given.sizes("multiples", multiples)),
        Array::TileGrad(multiples) => Array::TileGrad(given.sizes("multiples", multiples)),
        Array::BroadcastTo(shape) => Array::BroadcastTo(given.dims("shape", *shape)),
        Array::Reverse(axes) => Array::Reverse(given.sizes("axes", axes)),
        Array::Cumsum { axis, exclusive, reverse } => Array::Cumsum {
            axis: given.size("axis", *axis),
            exclusive: given.flag("exclusive", *exclusive),
            reverse: given.flag("reverse", *reverse),
        },
        Array::Range { start, limit, delta } => Array::Range {
            start: given.tensor("start", start.clone()),
            limit: given.tensor("limit", limit.clone()),
            delta: given.tensor("delta", delta.clone()),
        },
        Array::Shape(dtype) => Array::Shape(given.dtype("out_type", *dtype)),
        Array::Size(dtype) => Array::Size(given.dtype("out_type", *dtype)),
        Array::ReshapeLike | Array::ZerosLike | Array::Rank => own.clone(),
    }
}

/// −1 stands for the rest of an axis.
fn sizes_or_rest(given: &mut Attributes, own: &[Option<usize>]) -> Vec<Option<usize>> {
    let ints = own.iter().map(|size| size.map_or(-1, |size| size as i64)).collect();
    let size = |int: &i64| match int {
        -1 => Some(None),
        size => usize::try_from(*size).ok().map(Some),
    };
    let read = |ints: &[i64]| ints.iter().map(size).collect();
    given.as_ints("size", ints, read).unwrap_or_else(|| own.to_vec())
}

fn paddings(given: &mut Attributes, own: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let ints = own.iter().flat_map(|(before, after)| [*before as i64, *after as i64]).collect();
    let read = |ints: &[i64]| {
        let pair = |pair: &[i64]| match *pair {
            [before, after] => Some((usize::try_from(before).ok()?, usize::try_from(after).ok()?)),
            _ => None,
        };
        ints.chunks(2).map(pair).collect()
    };
    given.as_ints("paddings", ints, read).unwrap_or_else(|| own.to_vec())
}

fn mirror(given: &mut Attributes, own: Mirror) -> Mirror {
    let is_symmetric = given.flag("symmetric", own == Mirror::Symmetric);
    if is_symmetric { Mirror::Symmetric } else { Mirror::Reflect }
}

/// Four integers each: what it is, begin, end and stride.
fn subscripts(given: &mut Attributes, own: &[Subscript]) -> Vec<Subscript> {
    const AT: i64 = 4;
    const NEW_AXIS: i64 = 5;
    let write = |subscript: &Subscript| match *subscript {
        Subscript::Every { begin, end, stride } => {
            let ends = i64::from(begin.is_some()) + 2 * i64::from(end.is_some());
            [ends, begin.unwrap_or(0), end.unwrap_or(0), stride]
        }
        Subscript::At(position) => [AT, position, 0, 0],
        Subscript::NewAxis => [NEW_AXIS, 0, 0, 0],
    };
    let one = |ints: &[i64]| match *ints {
        [ends @ 0..=3, begin, end, stride] => Some(Subscript::Every {
            begin: (ends & 1 != 0).then_some(begin),
            end: (ends & 2 != 0).then_some(end),
            stride,
        }),
        [AT, position, 0, 0] => Some(Subscript::At(position)),
        [NEW_AXIS, 0, 0, 0] => Some(Subscript::NewAxis),
        _ => None,
    };
    let read = |ints: &[i64]| ints.chunks(4).map(one).collect();
    let ints = own.iter().flat_map(write).collect();
    given.as_ints("subscripts", ints, read).unwrap_or_else(|| own.to_vec())
}
