//! Arithmetic on shapes, as `tf.gradients` and `tf.reshape` write it, done when the graph is
//! imported.

mod arithmetic;
mod arrays;
mod broadcast;

use super::known::{Element, Known, MOST};
use super::node::Node;
use super::tensor::dtype;
use super::value::Value;
use super::wire::Value as Attribute;
use crate::tensor::{DType, PartialShape};
use arithmetic::{cast, elementwise, product};
use arrays::{
    concat, concat_offsets, gather, joined, list_diff, range, reshape, slice, stitch,
    strided_slice, transpose,
};
use broadcast::{broadcast_args, broadcast_gradient_args};

pub(super) use broadcast::depends_on_the_step;

/// The outputs of `node`, if it computes with integers that are known or belong to a shape.
pub(super) fn fold(node: &Node<'_>) -> Option<Vec<Known>> {
    match node.def.op.as_str() {
        "Shape" | "ShapeN" => {
            return node.inputs.iter().map(|input| shape(node, input)).collect();
        }
        "Size" => return size(node).map(|size| vec![size]),
        "Rank" => {
            let rank = shape(node, node.inputs.first()?)?.elements.len();
            return Some(vec![Known::scalar(DType::I32, Element::Known(rank as i64))]);
        }
        _ => {}
    }
    let inputs: Vec<&Known> =
        node.inputs.iter().map(|input| input.known.as_ref()).collect::<Option<_>>()?;
    match node.def.op.as_str() {
        "BroadcastGradientArgs" => return broadcast_gradient_args(&inputs),
        "ListDiff" => return list_diff(&inputs),
        "ConcatOffset" => return concat_offsets(&inputs),
        _ => {}
    }
    one(node, &inputs).filter(fits).map(|known| vec![known])
}

/// Whether there is a tensor of these integers, and they are few enough to be followed.
fn fits(known: &Known) -> bool {
    let dims: Vec<Option<usize>> = known.dims.iter().copied().map(Some).collect();
    let shape = PartialShape::checked(&dims).and_then(|shape| shape.known());
    shape.is_some_and(|shape| shape.elements() == known.elements.len())
        && known.elements.len() <= MOST
}

/// Whether operations of this kind are computed by the importer alone.
pub(super) fn knows(kind: &str) -> bool {
    const KINDS: &[&str] = &[
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "BroadcastGradientArgs",
        "ConcatOffset",
        "DynamicStitch",
        "InvertPermutation",
        "BroadcastArgs",
    ];
    KINDS.contains(&kind)
}

fn out_type(node: &Node<'_>, name: &str) -> Option<DType> {
    match node.def.attr.get(name).and_then(|attribute| attribute.value.as_ref()) {
        None => Some(DType::I32),
        Some(Attribute::Type(number)) => dtype(*number).filter(|dtype| dtype.is_integer()),
        Some(_) => None,
    }
}

fn shape(node: &Node<'_>, value: &Value) -> Option<Known> {
    let dtype = out_type(node, "out_type")?;
    match (&value.output, &value.known) {
        (Some(output), _) => Some(Known::shape_of(output, dtype)),
        (None, Some(known)) => {
            let dims = known.dims.iter().map(|dim| Element::Known(*dim as i64));
            Some(Known::vector(dtype, dims.collect()))
        }
        (None, None) => None,
    }
}

fn size(node: &Node<'_>) -> Option<Known> {
    let shape = shape(node, node.inputs.first()?)?;
    Some(Known::scalar(shape.dtype, product(&shape)))
}

/// The output of a node that has only one.
fn one(node: &Node<'_>, inputs: &[&Known]) -> Option<Known> {
    let kind = node.def.op.as_str();
    match (kind, inputs) {
        ("Identity" | "StopGradient" | "PreventGradient" | "Snapshot", [x]) => Some((*x).clone()),
        ("Cast", [_]) if node.def.must_be("Truncate", false).is_err() => None,
        ("Cast", [x]) => Some(cast(x, out_type(node, "DstT")?)),
        ("Reshape", [x, shape]) => reshape(x, shape),
        ("ExpandDims", [x, _]) if x.dims.is_empty() => {
            Some(Known { dims: vec![1], ..(*x).clone() })
        }
        ("Squeeze", [x]) if x.dims == [1] && node.def.ints("squeeze_dims").is_ok() => {
            Some(Known { dims: vec![], like: None, ..(*x).clone() })
        }
        ("Pack", [first, ..]) if node.def.int("axis", 0).ok()? == 0 => {
            let dims = [&[inputs.len()], first.dims.as_slice()].concat();
            Some(Known { dims, elements: joined(inputs), like: None, dtype: first.dtype })
        }
        ("ConcatV2", [parts @ .., axis]) => concat(parts, axis),
        ("Transpose", [x, order]) => transpose(x, order),
        ("StridedSlice", [x, begin, end, strides]) => strided_slice(node, x, [begin, end, strides]),
        ("Slice", [x, begin, size]) => slice(x, begin, size),
        ("GatherV2" | "Gather", [x, indices, ..]) if node.def.int("batch_dims", 0).ok()? == 0 => {
            gather(x, indices)
        }
        ("Range", [start, limit, delta]) => range(start, limit, delta),
        ("Fill", [dims, value]) => {
            let one = value.elements.first()?.clone();
            let count = dims.ints()?.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim))?;
            let dims = dims
                .ints()?
                .iter()
                .map(|dim| usize::try_from(*dim).ok())
                .collect::<Option<Vec<_>>>()?;
            let elements = (count <= MOST as i64).then(|| vec![one; count as usize])?;
            Some(Known { dtype: value.dtype, dims, elements, like: None })
        }
        ("Prod", [x, axes]) => reduce(node, x, axes, product),
        ("DynamicStitch", parts) => stitch(parts),
        ("BroadcastArgs", [a, b]) => Some(broadcast_args(a, b)),
        ("InvertPermutation", [x]) => {
            let order = x.sizes()?;
            let place = |i: usize| {
                order.iter().position(|from| *from == i).map(|at| Element::Known(at as i64))
            };
            Some(Known::vector(x.dtype, (0..order.len()).map(place).collect::<Option<_>>()?))
        }
        (_, [a, b]) => elementwise(kind, a, b),
        _ => None,
    }
}

/// A reduction of all elements of a vector or scalar, or of no axes.
fn reduce(
    node: &Node<'_>,
    x: &Known,
    axes: &Known,
    all: impl Fn(&Known) -> Element,
) -> Option<Known> {
    let keep = node.def.flag("keep_dims").ok()?;
    match (x.dims.len(), axes.elements.len()) {
        (0, _) | (_, 0) => Some(x.clone()),
        (1, 1) => {
            Some(Known { dims: vec![1; usize::from(keep)], ..Known::scalar(x.dtype, all(x)) })
        }
        _ => None,
    }
}
