//! Blocks of images moved to other axes, as reshapes and transpositions.

use super::math::channels_last;
use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::Output;
use crate::import::tensor::partial_shape;
use crate::operations::Array;
use crate::tensor::Tensor;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "SpaceToBatchND" => Box::new(space_to_batch),
        "BatchToSpaceND" => Box::new(batch_to_space),
        "SpaceToDepth" => Box::new(space_to_depth),
        "DepthToSpace" => Box::new(depth_to_space),
        _ => return None,
    })
}

/// The dimensions of `x`, with -1 for an unknown one.
fn dims(x: &Output) -> Vec<i64> {
    x.tensor_type().shape.dims().iter().map(|dim| dim.map_or(-1, |dim| dim as i64)).collect()
}

/// The number of blocks along a dimension; -1 if the dimension is unknown.
fn part(dim: i64, block: i64) -> i64 {
    if dim < 0 { -1 } else { dim / block }
}

/// The size of `dim` blocks; -1 if their number is unknown.
fn times(dim: i64, block: i64) -> i64 {
    if dim < 0 { -1 } else { dim.saturating_mul(block) }
}

/// The shape `dims`, of which one may be -1.
fn reshaped(dims: &[i64]) -> Result<Array, NodeProblem> {
    if dims.iter().filter(|dim| **dim < 0).count() > 1 {
        return Err(NodeProblem::unsupported("its height, width and depth must be known"));
    }
    Ok(Array::Reshape(partial_shape(dims)?))
}

/// Values under construction: each step is an operation beside the node's own.
struct Moves<'a, 'n> {
    importer: &'a mut Importer<'n>,
    node: &'a Node<'a>,
    x: Output,
}

impl Moves<'_, '_> {
    fn then(&mut self, op: Array) -> Result<(), NodeProblem> {
        self.x = self.importer.helper(self.node, "moved", op, &[&self.x])?;
        Ok(())
    }

    /// The same elements in these dimensions; one of them may be -1.
    fn reshape(&mut self, dims: &[i64]) -> Result<(), NodeProblem> {
        self.then(reshaped(dims)?)
    }

    /// The same elements in these dimensions, as the node's own value.
    fn finish(self, dims: &[i64]) -> Values {
        self.importer.emit(self.node, reshaped(dims)?, &[self.x])
    }
}

/// The sizes of a block, and a pair of paddings or crops for each.
type Blocks = (Vec<i64>, Vec<(i64, i64)>);

/// The inputs 1 and 2, for `x`.
fn blocks(node: &Node<'_>, x: &Output) -> Result<Blocks, NodeProblem> {
    let (block, both) = (node.ints(1)?, node.ints(2)?);
    let pairs: Vec<_> = both.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let fits = pairs.len() == block.len() && block.len() < dims(x).len();
    if !fits || block.iter().any(|size| *size < 1) {
        return Err(NodeProblem::unsupported(
            "its blocks must have a size from 1, a pair and an axis each",
        ));
    }
    Ok((block, pairs))
}

fn size(size: i64) -> Result<usize, NodeProblem> {
    usize::try_from(size).map_err(|_| NodeProblem::unsupported(format!("the size {size}")))
}

/// `(x, block, paddings)`
fn space_to_batch(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let (block, pairs) = blocks(node, &x)?;
    let (rank, inner) = (dims(&x).len(), block.len());
    let value = Tensor::scalar_of(x.tensor_type().dtype, 0.0);
    let mut moves = Moves { importer, node, x };
    let pad = |(before, after): &(i64, i64)| Ok((size(*before)?, size(*after)?));
    let mut paddings = vec![(0, 0)];
    paddings.extend(pairs.iter().map(pad).collect::<Result<Vec<_>, NodeProblem>>()?);
    paddings.resize(rank, (0, 0));
    moves.then(Array::Pad { paddings, value })?;
    let padded = dims(&moves.x);
    let (spread, rest) = (&padded[1..=inner], &padded[inner + 1..]);
    let apart = spread.iter().zip(&block).flat_map(|(dim, block)| [part(*dim, *block), *block]);
    let apart: Vec<i64> = std::iter::once(padded[0]).chain(apart).chain(rest.to_vec()).collect();
    moves.reshape(&apart)?;
    let (of_blocks, of_space) = ((0..inner).map(|i| 2 + 2 * i), (0..inner).map(|i| 1 + 2 * i));
    let order = of_blocks.chain([0]).chain(of_space).chain(2 * inner + 1..apart.len());
    moves.then(Array::Transpose(order.collect()))?;
    let left = spread.iter().zip(&block).map(|(dim, block)| part(*dim, *block));
    let all: Vec<i64> = std::iter::once(-1).chain(left).chain(rest.to_vec()).collect();
    moves.finish(&all)
}

/// `(x, block, crops)`
fn batch_to_space(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let (block, pairs) = blocks(node, &x)?;
    let (given, inner) = (dims(&x), block.len());
    let mut moves = Moves { importer, node, x };
    let of_block = block.iter().fold(1i64, |all, size| all.saturating_mul(*size));
    let batch = part(given[0], of_block);
    let apart: Vec<i64> = block.iter().copied().chain([batch]).chain(given[1..].to_vec()).collect();
    moves.reshape(&apart)?;
    let pairs_of_axes = (0..inner).flat_map(|i| [inner + 1 + i, i]);
    let order = std::iter::once(inner).chain(pairs_of_axes).chain(2 * inner + 1..apart.len());
    moves.then(Array::Transpose(order.collect()))?;
    let whole = given[1..=inner].iter().zip(&block).map(|(dim, block)| times(*dim, *block));
    let all: Vec<i64> =
        std::iter::once(batch).chain(whole).chain(given[inner + 1..].to_vec()).collect();
    moves.reshape(&all)?;
    let (mut begin, mut sizes) = (vec![0; all.len()], vec![None; all.len()]);
    for (i, (before, after)) in pairs.iter().enumerate() {
        begin[i + 1] = size(*before)?;
        sizes[i + 1] = match all[i + 1] {
            -1 if *after == 0 => None,
            -1 => return Err(NodeProblem::unsupported("what it crops must have a known size")),
            whole => Some(size(whole.saturating_sub(*before).saturating_sub(*after))?),
        };
    }
    let Moves { importer, node, x } = moves;
    importer.emit(node, Array::Slice { begin, size: sizes }, &[x])
}

/// The size of a block, and the dimensions of images.
fn image(node: &Node<'_>, x: &Output) -> Result<(i64, [i64; 4]), NodeProblem> {
    channels_last(node.def)?;
    let block = node.def.int("block_size", 1)?;
    match dims(x).as_slice() {
        &[n, height, width, depth] if block > 0 => Ok((block, [n, height, width, depth])),
        _ => Err(NodeProblem::unsupported("it needs images and a block size from 1")),
    }
}

fn space_to_depth(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let (block, [n, height, width, depth]) = image(node, &x)?;
    let mut moves = Moves { importer, node, x };
    let (rows, columns) = (part(height, block), part(width, block));
    moves.reshape(&[n, rows, block, columns, block, depth])?;
    moves.then(Array::Transpose(vec![0, 1, 3, 2, 4, 5]))?;
    moves.finish(&[n, rows, columns, times(depth, block.saturating_mul(block))])
}

fn depth_to_space(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let (block, [n, height, width, depth]) = image(node, &x)?;
    let each = part(depth, block.saturating_mul(block));
    let mut moves = Moves { importer, node, x };
    moves.reshape(&[n, height, width, block, block, each])?;
    moves.then(Array::Transpose(vec![0, 1, 3, 2, 4, 5]))?;
    moves.finish(&[n, times(height, block), times(width, block), each])
}
