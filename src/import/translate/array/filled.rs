//! Values made from a shape or from numbers: zeros, ones, ranges, one value repeated.

use super::{Importer, Node, NodeProblem, Values, dynamic, sizes_known};
use crate::graph::{Op, Output};
use crate::import::known::Known;
use crate::import::tensor::{known_shape, partial_shape};
use crate::import::value::{SummedTo, Value};
use crate::operations::{Array, Binary, Cast, Change, Dynamic, check_direction};
use crate::tensor::{DType, PartialShape, Tensor};

/// `(start, limit, delta)`
pub(super) fn range(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if let (Ok(start), Ok(limit), Ok(delta)) =
        (node.constant(0), node.constant(1), node.constant(2))
    {
        check_direction(start, limit, delta).map_err(NodeProblem::unsupported)?;
        let [start, limit, delta] = [start, limit, delta].map(Tensor::clone);
        return importer.emit(node, Array::Range { start, limit, delta }, &[]);
    }
    dynamic(importer, node, Change::Range, &[None])
}

/// `(shape, value)`
pub(super) fn fill(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let value = importer.input(node, 1)?;
    let like = node.known(0).ok().and_then(|shape| shape.like.clone());
    match (node.ints(0), like) {
        (Ok(dims), _) => {
            let shape = known_shape(&dims)?;
            if let Some(value) =
                node.value(1)?.constant.clone().filter(|value| value.shape().rank() == 0)
            {
                return importer.emit(node, Op::Fill { shape, value }, &[]);
            }
            importer.emit(node, Array::BroadcastTo(shape.into()), &[value])
        }
        (Err(_), Some(like)) => spread_like(importer, node, &value, &like),
        (Err(_), None) => {
            let shape = PartialShape::checked(&sizes_known(node, 0)?);
            let shape = shape.ok_or(NodeProblem::NotConstant { input: 0 })?;
            let sizes = importer.input(node, 0)?;
            importer.emit(node, Dynamic { change: Change::BroadcastTo, shape }, &[value, sizes])
        }
    }
}

pub(super) fn ones_like(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let one = match x.tensor_type().dtype {
        DType::F32 => Tensor::scalar(1f32),
        DType::I32 => Tensor::scalar(1i32),
        DType::I64 => Tensor::scalar(1i64),
        DType::F64 => Tensor::scalar(1f64),
        dtype => return Err(NodeProblem::unsupported(format!("there are no ones of {dtype}"))),
    };
    let one = importer.helper(node, "one", Op::Const(one), &[])?;
    spread_like(importer, node, &one, &x)
}

/// Zeros of the type of `x` and the shape of `like`.
pub(in crate::import::translate) fn zeros(
    importer: &Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    like: &Output,
) -> Result<Output, NodeProblem> {
    let dtype = x.tensor_type().dtype;
    if like.tensor_type().dtype == dtype {
        return importer.helper(node, "zeros", Array::ZerosLike, &[like]);
    }
    let cast = importer.helper(node, "cast", Cast(dtype), &[like])?;
    importer.helper(node, "zeros", Array::ZerosLike, &[&cast])
}

/// A value whose shape is `shape`.
pub(in crate::import::translate) fn like(
    importer: &Importer<'_>,
    node: &Node<'_>,
    shape: &Known,
) -> Result<Output, NodeProblem> {
    match (&shape.like, shape.ints()) {
        (Some(like), _) => Ok(like.clone()),
        (None, None) => {
            let sizes =
                shape.materialise(importer.graph, &format!("{}/sizes_", node.def.name), 0)?;
            let zero = importer.helper(node, "like", Op::Const(Tensor::scalar(0f32)), &[])?;
            let dims = shape.dims_or_unknown();
            let spread = Dynamic { change: Change::BroadcastTo, shape: partial_shape(&dims)? };
            importer.helper(node, "like", spread, &[&zero, &sizes])
        }
        (None, Some(dims)) => importer.helper(
            node,
            "like",
            Op::Fill { shape: known_shape(&dims)?, value: Tensor::scalar(0f32) },
            &[],
        ),
    }
}

/// The shape that input `i` says; and a value that has it, if only the step knows it.
pub(in crate::import::translate) fn extent(
    importer: &Importer<'_>,
    node: &Node<'_>,
    i: usize,
) -> Result<(PartialShape, Option<Output>), NodeProblem> {
    if let Ok(dims) = node.ints(i) {
        return Ok((known_shape(&dims)?.into(), None));
    }
    if let Some(like) = node.known(i).ok().and_then(|shape| shape.like.clone()) {
        return Ok((like.tensor_type().shape, Some(like)));
    }
    let shape = PartialShape::checked(&sizes_known(node, i)?);
    let shape = shape.ok_or(NodeProblem::NotConstant { input: i })?;
    // Truth values are the smallest, and have numbers even where floats have none.
    let one = importer.helper(node, "like", Op::Const(Tensor::scalar(false)), &[])?;
    let spread = Dynamic { change: Change::BroadcastTo, shape };
    let like = importer.helper(node, "like", spread, &[&one, &importer.input(node, i)?])?;
    Ok((shape, Some(like)))
}

/// Repeats `x` to the shape of `like`, by adding it to zeros of that shape.
pub(super) fn spread_like(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    like: &Output,
) -> Values {
    if x.tensor_type().dtype == DType::Bool {
        let sizes = importer.helper(node, "sizes", Array::Shape(DType::I32), &[like])?;
        let spread = Dynamic { change: Change::BroadcastTo, shape: like.tensor_type().shape };
        return importer.emit(node, spread, &[x.clone(), sizes]);
    }
    let zeros = zeros(importer, node, x, like)?;
    importer.emit(node, Binary::Add, &[zeros, x.clone()])
}

/// `BroadcastGradientArgs` of two shapes that only the step knows: what gradients are summed to.
pub(in crate::import::translate) fn sums_of_the_step(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
) -> Values {
    let both = [sizes_known(node, 0)?, sizes_known(node, 1)?];
    let rank = both.iter().map(Vec::len).max().unwrap_or(0);
    let summed_to = |(i, dims): (usize, Vec<Option<usize>>)| {
        let sizes = importer.input(node, i)?;
        let shape = PartialShape::checked(&dims).ok_or(NodeProblem::NotConstant { input: i })?;
        let zero = importer.helper(node, "zero", Op::Const(Tensor::scalar(0f32)), &[])?;
        let spread = Dynamic { change: Change::BroadcastTo, shape };
        let like = importer.helper(node, "like", spread, &[&zero, &sizes])?;
        Ok(Value { summed_to: Some(SummedTo { like, rank }), ..Value::default() })
    };
    both.into_iter().enumerate().map(summed_to).collect()
}
