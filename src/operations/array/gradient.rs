//! The gradients of operations that move elements: the gradient's elements move back.

use super::Array;
use crate::graph::{Backprop, GraphError, Output, Subscript};
use crate::operations::Broadcast;

/// The gradients for the inputs of `op`.
pub(super) fn gradient(op: &Array, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
    Ok(match op {
        Array::Split { axis, .. } | Array::SplitLike { axis } => {
            let whole = joined(Array::Concat { axis: *axis }, of)?;
            std::iter::once(Some(whole)).chain((1..of.inputs()).map(|_| None)).collect()
        }
        Array::Unstack { axis } => vec![Some(joined(Array::Stack { axis: *axis }, of)?)],
        Array::Concat { axis } => wanted(of, &parts(*axis, of)?),
        Array::Stack { axis } => {
            wanted(of, &of.only_arrived()?.with(&[], Array::Unstack { axis: *axis })?)
        }
        Array::ReshapeLike => {
            let back = || of.only_arrived()?.with(&[&of.input(0)], Array::ReshapeLike);
            vec![of.for_input(0, back)?, None]
        }
        Array::StridedSliceGrad(subscripts) => {
            let back = || of.only_arrived()?.with(&[], Array::StridedSlice(subscripts.clone()));
            vec![of.for_input(0, back)?, None]
        }
        // The result has no elements: its gradient does not say how many `x` has.
        Array::Tile(multiples) if multiples.contains(&0) => {
            vec![Some(of.input(0).with(&[], Array::ZerosLike)?)]
        }
        Array::BroadcastTo(_) => {
            vec![Some(of.only_arrived()?.with(&[&of.input(0)], Broadcast::SumToLike)?)]
        }
        Array::ZerosLike | Array::Shape(_) | Array::Size(_) | Array::Rank => vec![None],
        op => match moved_back(op) {
            Some((back, true)) => vec![Some(of.only_arrived()?.with(&[&of.input(0)], back)?)],
            Some((back, false)) => vec![Some(of.only_arrived()?.with(&[], back)?)],
            None => return Err(of.no_gradient()),
        },
    })
}

/// The gradients of all outputs, joined by `join`; zeros for an output at which none has arrived.
fn joined(join: Array, of: &Backprop<'_>) -> Result<Output, GraphError> {
    let zeros = |i| of.output(i).with(&[], Array::ZerosLike);
    let all: Vec<Output> = (0..of.outputs())
        .map(|i| of.arrived(i).map_or_else(|| zeros(i), Ok))
        .collect::<Result<_, _>>()?;
    all[0].with(&all[1..].iter().collect::<Vec<_>>(), join)
}

/// The outputs of the operation of `first` as the gradients of those inputs whose gradient is
/// wanted.
fn wanted(of: &Backprop<'_>, first: &Output) -> Vec<Option<Output>> {
    (0..of.inputs()).map(|i| of.wants(i).then(|| first.sibling(i as u32))).collect()
}

/// The first of the parts of the gradient that belong to the inputs, which were concatenated along
/// `axis`.
fn parts(axis: usize, of: &Backprop<'_>) -> Result<Output, GraphError> {
    let dy = of.only_arrived()?;
    let inputs: Vec<Output> = (0..of.inputs()).map(|i| of.input(i)).collect();
    let size = |x: &Output| x.tensor_type().shape.dims()[axis];
    let sizes: Option<Vec<usize>> = inputs.iter().map(size).collect();
    match sizes {
        Some(sizes) => dy.with(&[], Array::Split { axis, sizes }),
        None => dy.with(&inputs.iter().collect::<Vec<_>>(), Array::SplitLike { axis }),
    }
}

/// The operation that moves the gradient of an operation of one input back, and whether it needs
/// that input's shape.
fn moved_back(array: &Array) -> Option<(Array, bool)> {
    let strided = |subscripts| Some((Array::StridedSliceGrad(subscripts), true));
    let alone = |op| Some((op, false));
    match array {
        Array::Reshape(_) | Array::ExpandDims(_) | Array::Squeeze(_) => {
            Some((Array::ReshapeLike, true))
        }
        Array::Transpose(order) => {
            let inverse = (0..order.len()).map(|axis| order.iter().position(|from| *from == axis));
            alone(Array::Transpose(inverse.collect::<Option<_>>()?))
        }
        Array::Slice { begin, size } => {
            let taken = begin.iter().zip(size).map(|(begin, size)| Subscript::Every {
                begin: Some(*begin as i64),
                end: size.map(|size| (begin + size) as i64),
                stride: 1,
            });
            strided(taken.collect())
        }
        Array::StridedSlice(subscripts) => strided(subscripts.clone()),
        Array::Pad { paddings, .. } => {
            let inner = paddings.iter().map(|(before, after)| Subscript::Every {
                begin: Some(*before as i64),
                end: (*after > 0).then_some(-(*after as i64)),
                stride: 1,
            });
            alone(Array::StridedSlice(inner.collect()))
        }
        Array::MirrorPad { paddings, mirror } => {
            alone(Array::MirrorPadGrad { paddings: paddings.clone(), mirror: *mirror })
        }
        Array::MirrorPadGrad { paddings, mirror } => {
            alone(Array::MirrorPad { paddings: paddings.clone(), mirror: *mirror })
        }
        Array::Tile(multiples) => alone(Array::TileGrad(multiples.clone())),
        Array::TileGrad(multiples) => alone(Array::Tile(multiples.clone())),
        Array::Reverse(axes) => alone(Array::Reverse(axes.clone())),
        Array::Cumsum { axis, exclusive, reverse } => {
            alone(Array::Cumsum { axis: *axis, exclusive: *exclusive, reverse: !reverse })
        }
        _ => None,
    }
}
