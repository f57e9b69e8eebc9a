//! Operations that move elements: TensorFlow's other inputs become attributes.

use super::{Importer, Node, NodeProblem, Translate, Values, plain, with_attributes};
use crate::graph::{Mirror, Op, Output, Subscript};
use crate::import::known::Known;
use crate::import::node::axis;
use crate::import::tensor::{known_shape, partial_shape};
use crate::operations::{Array, Binary, Cast};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Reshape" => Box::new(reshape),
        "ExpandDims" => {
            of_first(|node, x| Ok(Array::ExpandDims(axis(node.int(1)?, x.rank() + 1)?)))
        }
        "Squeeze" => of_first(squeeze),
        "Transpose" => of_first(|node, x| Ok(Array::Transpose(axes(&node.ints(1)?, x.rank())?))),
        "ConcatV2" => {
            Box::new(|importer, node| concat(importer, node, node.inputs.len().saturating_sub(1)))
        }
        "Concat" => Box::new(|importer, node| concat(importer, node, 0)),
        "Split" => Box::new(split),
        "SplitV" => of_first(split_v),
        "Pack" => Box::new(|importer, node| {
            let rank = importer.input(node, 0)?.tensor_type().shape.rank();
            let axis = axis(node.def.int("axis", 0)?, rank + 1)?;
            let inputs = importer.inputs(node)?;
            importer.emit(node, Array::Stack { axis }, &inputs)
        }),
        "Unpack" => of_first(|node, x| {
            Ok(Array::Unstack { axis: axis(node.def.int("axis", 0)?, x.rank())? })
        }),
        "Slice" => of_first(slice),
        "StridedSlice" => {
            of_first(|node, x| Ok(Array::StridedSlice(subscripts(node, 1, x.rank())?)))
        }
        "StridedSliceGrad" => Box::new(strided_slice_grad),
        "Pad" | "PadV2" => of_first(pad),
        "MirrorPad" => of_first(|node, _| {
            let (paddings, mirror) = mirrored(node)?;
            Ok(Array::MirrorPad { paddings, mirror })
        }),
        "MirrorPadGrad" => of_first(|node, _| {
            let (paddings, mirror) = mirrored(node)?;
            Ok(Array::MirrorPadGrad { paddings, mirror })
        }),
        "Tile" => Box::new(tile),
        "BroadcastTo" => Box::new(broadcast_to),
        "ReverseV2" => of_first(|node, x| Ok(Array::Reverse(axes(&node.ints(1)?, x.rank())?))),
        "Cumsum" => of_first(|node, x| {
            let (exclusive, reverse) = (node.def.flag("exclusive")?, node.def.flag("reverse")?);
            Ok(Array::Cumsum { axis: axis(node.int(1)?, x.rank())?, exclusive, reverse })
        }),
        "ZerosLike" => plain(Array::ZerosLike),
        "OnesLike" => Box::new(ones_like),
        "Range" => Box::new(range),
        "Fill" => Box::new(fill),
        "Shape" => with_attributes(|def| {
            Ok(Array::Shape(def.optional_dtype("out_type")?.unwrap_or(DType::I32)))
        }),
        _ => return None,
    })
}

/// The translation to the operation that `array` makes of the node and its first input's shape;
/// that input is its only one.
fn of_first(
    array: impl Fn(&Node<'_>, PartialShape) -> Result<Array, NodeProblem> + 'static,
) -> Translate {
    Box::new(move |importer, node| {
        let x = importer.input(node, 0)?;
        let array = array(node, x.tensor_type().shape)?;
        importer.emit(node, array, &[x])
    })
}

fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>, NodeProblem> {
    given.iter().map(|at| axis(*at, rank)).collect()
}

fn sizes(given: &[i64]) -> Result<Vec<usize>, NodeProblem> {
    Ok(given
        .iter()
        .map(|size| known_shape(&[*size]))
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(count)
        .collect())
}

fn count(shape: &Shape) -> usize {
    shape.elements()
}

/// Reshapes to known dimensions, or to another value's shape if that is the shape input.
fn reshape(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, shape) = (importer.input(node, 0)?, node.known(1)?);
    let dims = shape.dims_or_unknown();
    match &shape.like {
        Some(like) if dims.contains(&-1) => {
            importer.emit(node, Array::ReshapeLike, &[x, like.clone()])
        }
        _ if dims.iter().filter(|dim| **dim == -1).count() > 1 => {
            Err(NodeProblem::NotConstant { input: 1 })
        }
        _ => importer.emit(node, Array::Reshape(partial_shape(&dims)?), &[x]),
    }
}

fn squeeze(node: &Node<'_>, x: PartialShape) -> Result<Array, NodeProblem> {
    let named = axes(node.def.ints("squeeze_dims")?, x.rank())?;
    if !named.is_empty() {
        return Ok(Array::Squeeze(named));
    }
    let ones = x.dims().iter().enumerate().filter(|(_, dim)| **dim == Some(1)).map(|(at, _)| at);
    if x.known().is_none() {
        return Err(NodeProblem::unsupported("it must name its axes where a size is unknown"));
    }
    Ok(Array::Squeeze(ones.collect()))
}

/// `at` is the input that holds the axis.
fn concat(importer: &mut Importer<'_>, node: &Node<'_>, at: usize) -> Values {
    let parts = (0..node.inputs.len()).filter(|i| *i != at);
    let parts = parts.map(|i| importer.input(node, i)).collect::<Result<Vec<_>, _>>()?;
    let rank = parts.first().ok_or(NodeProblem::NoInput(0))?.tensor_type().shape.rank();
    let axis = axis(node.int(at)?, rank)?;
    importer.emit(node, Array::Concat { axis }, &parts)
}

fn split(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 1)?;
    let shape = x.tensor_type().shape;
    let axis = axis(node.int(0)?, shape.rank())?;
    let parts = usize::try_from(node.def.int("num_split", 1)?).unwrap_or(0);
    let unfit =
        || NodeProblem::unsupported(format!("{parts} equal parts of axis {axis} of {shape}"));
    let size = shape.dims()[axis]
        .filter(|size| parts > 0 && size.is_multiple_of(parts))
        .ok_or_else(unfit)?;
    importer.emit(node, Array::Split { axis, sizes: vec![size / parts; parts] }, &[x])
}

/// One of the sizes may be -1: the rest that the others leave.
fn split_v(node: &Node<'_>, x: PartialShape) -> Result<Array, NodeProblem> {
    let axis = axis(node.int(2)?, x.rank())?;
    let mut given = node.ints(1)?;
    let others = given
        .iter()
        .filter(|size| **size >= 0)
        .fold(0i64, |others, size| others.saturating_add(*size));
    if let (Some(open), Some(all)) = (given.iter_mut().find(|size| **size == -1), x.dims()[axis]) {
        *open = (all as i64).saturating_sub(others);
    }
    Ok(Array::Split { axis, sizes: sizes(&given)? })
}

fn slice(node: &Node<'_>, _: PartialShape) -> Result<Array, NodeProblem> {
    let size = partial_shape(&node.ints(2)?)?.dims().to_vec();
    Ok(Array::Slice { begin: sizes(&node.ints(1)?)?, size })
}

/// The subscripts of the inputs `first`, `first + 1` and `first + 2` and of the masks, for a value
/// of `rank`.
fn subscripts(node: &Node<'_>, first: usize, rank: usize) -> Result<Vec<Subscript>, NodeProblem> {
    let [begin, end, strides] = [node.ints(first)?, node.ints(first + 1)?, node.ints(first + 2)?];
    let masks = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];
    let masks = masks.iter().map(|name| node.def.int(name, 0)).collect::<Result<Vec<_>, _>>()?;
    let is_set = |mask: usize, i: usize| i < 63 && masks[mask] >> i & 1 == 1;
    let entries = begin.len();
    if end.len() != entries || strides.len() != entries {
        return Err(NodeProblem::unsupported("begin, end and strides must be of one length"));
    }
    let of_axes = (0..entries).filter(|i| !is_set(2, *i) && !is_set(3, *i)).count();
    let mut subscripts = Vec::with_capacity(entries);
    for i in 0..entries {
        subscripts.extend(match i {
            _ if is_set(2, i) => vec![Subscript::ALL; rank.saturating_sub(of_axes)],
            _ if is_set(3, i) => vec![Subscript::NewAxis],
            _ if is_set(4, i) => vec![Subscript::At(begin[i])],
            _ => {
                let (begin, end) =
                    ((!is_set(0, i)).then_some(begin[i]), (!is_set(1, i)).then_some(end[i]));
                vec![Subscript::Every { begin, end, stride: strides[i] }]
            }
        });
    }
    Ok(subscripts)
}

/// `(shape, begin, end, strides, gradient)`
fn strided_slice_grad(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (shape, gradient) = (node.known(0)?, importer.input(node, 4)?);
    let subscripts = subscripts(node, 1, shape.elements.len())?;
    let like = like(importer, node, shape)?;
    importer.emit(node, Array::StridedSliceGrad(subscripts), &[gradient, like])
}

/// A value whose shape is `shape`.
pub(super) fn like(
    importer: &Importer<'_>,
    node: &Node<'_>,
    shape: &Known,
) -> Result<Output, NodeProblem> {
    match (&shape.like, shape.ints()) {
        (Some(like), _) => Ok(like.clone()),
        (None, Some(dims)) => importer.helper(
            node,
            "like",
            Op::Fill { shape: known_shape(&dims)?, value: Tensor::scalar(0f32) },
            &[],
        ),
        _ => Err(NodeProblem::NotConstant { input: 0 }),
    }
}

fn paddings(node: &Node<'_>) -> Result<Vec<(usize, usize)>, NodeProblem> {
    let both = sizes(&node.ints(1)?)?;
    Ok(both.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn pad(node: &Node<'_>, _: PartialShape) -> Result<Array, NodeProblem> {
    let value = match node.inputs.len() {
        0..=2 => Tensor::zeros(node.def.dtype("T")?, Shape::SCALAR),
        _ => node.constant(2)?.clone(),
    };
    Ok(Array::Pad { paddings: paddings(node)?, value })
}

fn mirrored(node: &Node<'_>) -> Result<(Vec<(usize, usize)>, Mirror), NodeProblem> {
    let mirror = match node.def.text("mode")? {
        "REFLECT" => Mirror::Reflect,
        "SYMMETRIC" => Mirror::Symmetric,
        other => {
            return Err(NodeProblem::unsupported(format!("the mode {other} does not exist here")));
        }
    };
    Ok((paddings(node)?, mirror))
}

/// Repeats a value. The multiples may be known only in the step if they are another value's shape
/// and the value has one element.
fn tile(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, multiples) = (importer.input(node, 0)?, node.known(1)?);
    let has_one = x.tensor_type().shape.known().is_some_and(|shape| shape.elements() == 1);
    match (multiples.ints(), &multiples.like) {
        (Some(ints), _) => importer.emit(node, Array::Tile(sizes(&ints)?), &[x]),
        (None, Some(like)) if has_one => spread_like(importer, node, &x, like),
        _ => Err(NodeProblem::NotConstant { input: 1 }),
    }
}

fn broadcast_to(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, shape) = (importer.input(node, 0)?, node.known(1)?);
    match (shape.ints(), &shape.like) {
        (Some(dims), _) => importer.emit(node, Array::BroadcastTo(partial_shape(&dims)?), &[x]),
        (None, Some(like)) => spread_like(importer, node, &x, like),
        (None, None) => Err(NodeProblem::NotConstant { input: 1 }),
    }
}

/// Repeats `x` to the shape of `like`, by adding it to zeros of that shape.
fn spread_like(importer: &mut Importer<'_>, node: &Node<'_>, x: &Output, like: &Output) -> Values {
    let dtype = x.tensor_type().dtype;
    let zeros = match like.tensor_type().dtype == dtype {
        true => importer.helper(node, "zeros", Array::ZerosLike, &[like])?,
        false => {
            let cast = importer.helper(node, "cast", Cast(dtype), &[like])?;
            importer.helper(node, "zeros", Array::ZerosLike, &[&cast])?
        }
    };
    importer.emit(node, Binary::Add, &[zeros, x.clone()])
}

/// `(start, limit, delta)`
fn range(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let [start, limit, delta] =
        [node.constant(0)?, node.constant(1)?, node.constant(2)?].map(Tensor::clone);
    importer.emit(node, Array::Range { start, limit, delta }, &[])
}

/// `(shape, value)`
fn fill(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let shape = node.known(0)?;
    match (shape.ints(), &shape.like) {
        (Some(dims), _) => {
            let shape = known_shape(&dims)?;
            if let Some(value) =
                node.value(1)?.constant.clone().filter(|value| value.shape().rank() == 0)
            {
                return importer.emit(node, Op::Fill { shape, value }, &[]);
            }
            let value = importer.input(node, 1)?;
            importer.emit(node, Array::BroadcastTo(shape.into()), &[value])
        }
        (None, Some(like)) => {
            let value = importer.input(node, 1)?;
            spread_like(importer, node, &value, like)
        }
        (None, None) => Err(NodeProblem::NotConstant { input: 0 }),
    }
}

fn ones_like(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
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
