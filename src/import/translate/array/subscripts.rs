//! Slices and subscripts, and the gradients of subscripts.

use super::{Importer, Node, NodeProblem, Values, dynamic, filled, sizes, sizes_known};
use crate::graph::Subscript;
use crate::import::tensor::partial_shape;
use crate::operations::{self, Array, Change, Dynamic};
use crate::tensor::PartialShape;

/// `(x, begin, size)`
pub(super) fn slice(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    if let (Ok(begin), Ok(size)) = (node.ints(1), node.ints(2)) {
        let size = partial_shape(&size)?.dims().to_vec();
        return importer.emit(node, Array::Slice { begin: sizes(&begin)?, size }, &[x]);
    }
    let rank = x.tensor_type().shape.rank();
    let dims = sizes_known(node, 2).unwrap_or_else(|_| vec![None; rank]);
    dynamic(importer, node, Change::Slice, &dims)
}

/// `(x, begin, end, strides)`
pub(super) fn strided_slice(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let (masks, shape) = (masks(node)?, x.tensor_type().shape);
    if (1..4).all(|i| node.ints(i).is_ok()) {
        let subscripts = subscripts(node, 1, masks, shape.rank())?;
        return importer.emit(node, Array::StridedSlice(subscripts), &[x]);
    }
    let dims = strided_dims(node, masks, shape)?;
    dynamic(importer, node, Change::StridedSlice(masks), &dims)
}

/// TensorFlow's masks of a slice, in the order of its attributes.
fn masks(node: &Node<'_>) -> Result<[i64; 5], NodeProblem> {
    let mask = |name| node.def.int(name, 0);
    Ok([
        mask("begin_mask")?,
        mask("end_mask")?,
        mask("ellipsis_mask")?,
        mask("new_axis_mask")?,
        mask("shrink_axis_mask")?,
    ])
}

/// The dimensions of a slice whose begin or end only the step knows: an axis that is taken whole
/// keeps its size.
fn strided_dims(
    node: &Node<'_>,
    masks: [i64; 5],
    shape: PartialShape,
) -> Result<Vec<Option<usize>>, NodeProblem> {
    let entries = sizes_known(node, 1)?.len();
    // 0 for one that only the step knows: such an axis has no known size.
    let strides = match node.known(3) {
        Ok(known) => known.elements.iter().map(|stride| stride.known().unwrap_or(0)).collect(),
        Err(_) => vec![0; entries],
    };
    let subscripts = places([vec![0; entries], vec![0; entries], strides], masks, &shape)?;
    let (mut dims, mut left) = (Vec::new(), shape.dims().iter());
    for subscript in subscripts {
        match subscript {
            Subscript::NewAxis => dims.push(Some(1)),
            Subscript::At(_) => drop(left.next()),
            Subscript::Every { begin: None, end: None, .. } => {
                let positions = |size| Some(subscript.positions(size)?.count);
                dims.push(left.next().copied().flatten().and_then(positions));
            }
            Subscript::Every { .. } => dims.push(left.next().and(None)),
        }
    }
    Ok(dims.into_iter().chain(left.copied()).collect())
}

fn places(
    bounds: [Vec<i64>; 3],
    masks: [i64; 5],
    shape: &PartialShape,
) -> Result<Vec<Subscript>, NodeProblem> {
    operations::subscripts(bounds, masks, shape.rank())
        .map_err(|problem| NodeProblem::unsupported(problem.to_string()))
}

/// The subscripts of the inputs `first`, `first + 1` and `first + 2` and of the masks, for a value
/// of `rank`.
fn subscripts(
    node: &Node<'_>,
    first: usize,
    masks: [i64; 5],
    rank: usize,
) -> Result<Vec<Subscript>, NodeProblem> {
    let bounds = [node.ints(first)?, node.ints(first + 1)?, node.ints(first + 2)?];
    operations::subscripts(bounds, masks, rank)
        .map_err(|problem| NodeProblem::unsupported(problem.to_string()))
}

/// `(shape, begin, end, strides, gradient)`
pub(super) fn strided_slice_grad(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (shape, gradient) = (node.known(0)?, importer.input(node, 4)?);
    let masks = masks(node)?;
    let like = filled::like(importer, node, shape)?;
    if (1..4).all(|i| node.ints(i).is_ok()) {
        let subscripts = subscripts(node, 1, masks, shape.elements.len())?;
        return importer.emit(node, Array::StridedSliceGrad(subscripts), &[gradient, like]);
    }
    let [begin, end, strides] =
        [importer.input(node, 1)?, importer.input(node, 2)?, importer.input(node, 3)?];
    let shape = like.tensor_type().shape;
    let back = Dynamic { change: Change::StridedSliceGrad(masks), shape };
    importer.emit(node, back, &[gradient, begin, end, strides, like])
}
