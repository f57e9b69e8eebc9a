//! Operations that move elements: TensorFlow's other inputs become attributes.

mod band;
mod filled;
mod reversed;
mod split;
mod subscripts;

use super::{Importer, Node, NodeProblem, Translate, Values, plain, with_attributes};
use crate::graph::{Mirror, Op, Output};
use crate::import::node::{axes, axis};
use crate::import::tensor::{known_shape, partial_shape};
use crate::import::value::Value;
use crate::operations::{Array, Broadcast, Change, Compare, Cumprod, Dynamic, Guard, Roll};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub(super) use filled::{extent, like, sums_of_the_step, zeros};

/// The most entries of a list of sizes whose values only the step knows. Slices of TensorFlow have
/// no more.
const MAX_SIZES: usize = 32;

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
        "Split" => Box::new(split::equal),
        "SplitV" => Box::new(split::of_sizes),
        "Pack" => Box::new(|importer, node| {
            let rank = importer.input(node, 0)?.tensor_type().shape.rank();
            let axis = axis(node.def.int("axis", 0)?, rank + 1)?;
            let inputs = importer.inputs(node)?;
            importer.emit(node, Array::Stack { axis }, &inputs)
        }),
        "Unpack" => of_first(|node, x| {
            Ok(Array::Unstack { axis: axis(node.def.int("axis", 0)?, x.rank())? })
        }),
        "Slice" => Box::new(subscripts::slice),
        "StridedSlice" => Box::new(subscripts::strided_slice),
        "StridedSliceGrad" => Box::new(subscripts::strided_slice_grad),
        "Pad" | "PadV2" => Box::new(pad),
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
        "ReverseSequence" => Box::new(reversed::sequences),
        "ReverseV2" => of_first(|node, x| Ok(Array::Reverse(axes(&node.ints(1)?, x.rank())?))),
        "Cumsum" => of_first(|node, x| {
            let (exclusive, reverse) = (node.def.flag("exclusive")?, node.def.flag("reverse")?);
            Ok(Array::Cumsum { axis: axis(node.int(1)?, x.rank())?, exclusive, reverse })
        }),
        "Roll" => Box::new(roll),
        "MatrixBandPart" => Box::new(band::part),
        "MatrixDiag" | "MatrixDiagV2" | "MatrixDiagV3" => Box::new(band::diagonal),
        "MatrixDiagPart" | "MatrixDiagPartV2" | "MatrixDiagPartV3" => Box::new(band::diagonal_part),
        "Cumprod" => Box::new(|importer, node| {
            let x = importer.input(node, 0)?;
            let (exclusive, reverse) = (node.def.flag("exclusive")?, node.def.flag("reverse")?);
            let axis = axis(node.int(1)?, x.tensor_type().shape.rank())?;
            importer.emit(node, Cumprod { axis, exclusive, reverse }, &[x])
        }),
        "ZerosLike" => plain(Array::ZerosLike),
        "OnesLike" => Box::new(filled::ones_like),
        "Range" => Box::new(filled::range),
        "Fill" => Box::new(filled::fill),
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

/// The change of input 0 by sizes that a step knows: all inputs of the node.
fn dynamic(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    change: Change,
    dims: &[Option<usize>],
) -> Values {
    let inputs = importer.inputs(node)?;
    let too_many = || NodeProblem::unsupported("its result has more dimensions than a shape here");
    let shape = PartialShape::checked(dims).ok_or_else(too_many)?;
    importer.emit(node, Dynamic { change, shape }, &inputs)
}

/// The sizes that input `i` says, as far as they are known; as many as it has elements.
fn sizes_known(node: &Node<'_>, i: usize) -> Result<Vec<Option<usize>>, NodeProblem> {
    if let Ok(known) = node.known(i) {
        return Ok(known.dims_or_unknown().iter().map(|dim| usize::try_from(*dim).ok()).collect());
    }
    let sizes = node.value(i)?.output.as_ref().map(|sizes| sizes.tensor_type().shape);
    match sizes.as_ref().map(PartialShape::dims) {
        Some(&[Some(count)]) if count <= MAX_SIZES => Ok(vec![None; count]),
        _ => Err(NodeProblem::NotConstant { input: i }),
    }
}

/// Reshapes to known dimensions, to another value's shape, or to sizes of the step.
fn reshape(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let Ok(shape) = node.known(1) else {
        return dynamic(importer, node, Change::Reshape, &sizes_known(node, 1)?);
    };
    let dims = shape.dims_or_unknown();
    if let Some(value) = tiled(&x, &dims) {
        return Ok(vec![value]);
    }
    let open = dims.iter().filter(|dim| **dim == -1).count();
    match &shape.like {
        Some(like) if open > 0 && shape.ints().is_none() => {
            importer.emit(node, Array::ReshapeLike, &[x, like.clone()])
        }
        _ if open > 1 || (open == 1 && shape.ints().is_none() && !follows(&dims)) => {
            dynamic(importer, node, Change::Reshape, &sizes_known(node, 1)?)
        }
        _ => importer.emit(node, Array::Reshape(partial_shape(&dims)?), &[x]),
    }
}

/// `x` reshaped to more dimensions than there are here, a number of repetitions and a size for each
/// axis: [`sum_of_tiles`](super::reduction) takes it.
fn tiled(x: &Output, dims: &[i64]) -> Option<Value> {
    let shape = x.tensor_type().shape;
    let fits = |(pair, dim): (&[i64], &Option<usize>)| {
        let whole = || pair[0].checked_mul(pair[1]);
        pair[0] >= 0 && dim.is_none_or(|dim| pair[1] < 0 || whole() == Some(dim as i64))
    };
    let is_tiled = dims.len() > crate::tensor::MAX_RANK
        && dims.len() == 2 * shape.rank()
        && dims.chunks_exact(2).zip(shape.dims()).all(fits);
    is_tiled.then(|| Value { tiled: Some((x.clone(), dims.to_vec())), ..Value::default() })
}

/// Whether the one open dimension of `dims` follows from the others: the others are not 0.
fn follows(dims: &[i64]) -> bool {
    !dims.contains(&0)
}

fn squeeze(node: &Node<'_>, x: PartialShape) -> Result<Array, NodeProblem> {
    let named = node.def.ints("squeeze_dims")?.iter().map(|at| axis(*at, x.rank()));
    let named = named.collect::<Result<Vec<_>, _>>()?;
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

fn paddings(node: &Node<'_>) -> Result<Vec<(usize, usize)>, NodeProblem> {
    let both = sizes(&node.ints(1)?)?;
    Ok(both.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// `(x, paddings)` or `(x, paddings, value)`
fn pad(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let kind = x.tensor_type();
    if node.ints(1).is_err() && node.inputs.len() == 2 {
        return dynamic(importer, node, Change::Pad, &vec![None; kind.shape.rank()]);
    }
    let paddings = paddings(node)?;
    let value = match node.inputs.len() {
        0..=2 => Tensor::zeros(kind.dtype, Shape::SCALAR),
        _ if node.constant(2).is_err() => return pad_with_computed(importer, node, paddings),
        _ => node.constant(2)?.clone(),
    };
    importer.emit(node, Array::Pad { paddings, value }, &[x])
}

/// `(x, paddings, value)` with a value of the step, which has no gradient in TensorFlow.
fn pad_with_computed(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    paddings: Vec<(usize, usize)>,
) -> Values {
    let x = importer.input(node, 0)?;
    let padded = |importer: &Importer<'_>, part: &str, x: &Output| {
        let value = Tensor::zeros(x.tensor_type().dtype, Shape::SCALAR);
        importer.helper(node, part, Array::Pad { paddings: paddings.clone(), value }, &[x])
    };
    let zeros = importer.helper(node, "zeros", Array::ZerosLike, &[&x])?;
    let all = importer.helper(node, "all", Compare::Equal, &[&zeros, &zeros])?;
    let is_element = padded(importer, "are_elements", &all)?;
    let elements = padded(importer, "padded", &x)?;
    let value = importer.input(node, 2)?;
    let value = importer.helper(node, "value", Guard::StopGradient, &[&value])?;
    importer.emit(node, Broadcast::Select, &[is_element, elements, value])
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

/// `(x, shifts, axes)`
fn roll(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let mut x = importer.input(node, 0)?;
    let (shifts, axes, rank) = (node.ints(1)?, node.ints(2)?, x.tensor_type().shape.rank());
    let axes = axes.iter().map(|at| axis(*at, rank)).collect::<Result<Vec<_>, _>>()?;
    if shifts.len() != axes.len() {
        return Err(NodeProblem::unsupported("it must have a shift for each axis"));
    }
    let rolls: Vec<Roll> =
        axes.into_iter().zip(shifts).map(|(axis, shift)| Roll { axis, shift }).collect();
    let Some((last, others)) = rolls.split_last() else {
        return importer.emit(node, Op::Identity, &[x]);
    };
    for roll in others {
        x = importer.helper(node, "rolled", *roll, &[&x])?;
    }
    importer.emit(node, *last, &[x])
}

/// `(x, multiples)`
fn tile(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    if let Ok(ints) = node.ints(1) {
        return importer.emit(node, Array::Tile(sizes(&ints)?), &[x]);
    }
    let shape = x.tensor_type().shape;
    let multiples = sizes_known(node, 1).unwrap_or_else(|_| vec![None; shape.rank()]);
    let tiled = shape.dims().iter().zip(multiples);
    let tiled = tiled.map(|(dim, times)| dim.zip(times).and_then(|(dim, n)| dim.checked_mul(n)));
    dynamic(importer, node, Change::Tile, &tiled.collect::<Vec<_>>())
}

/// `(x, sizes)`
fn broadcast_to(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let like = node.known(1).ok().and_then(|shape| shape.like.clone());
    match (node.ints(1), like) {
        (Ok(dims), _) => importer.emit(node, Array::BroadcastTo(known_shape(&dims)?.into()), &[x]),
        (Err(_), Some(like)) => filled::spread_like(importer, node, &x, &like),
        (Err(_), None) => dynamic(importer, node, Change::BroadcastTo, &sizes_known(node, 1)?),
    }
}
