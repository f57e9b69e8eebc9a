//! Diagonals and bands of matrices, chosen by the numbers of rows and columns.

use super::{Importer, Node, NodeProblem, Values};
use crate::graph::Reduction;
use crate::graph::{Op, Output, Subscript};
use crate::operations::{Array, Binary, Broadcast, Change, Compare, Dynamic, Logical, Reduce};
use crate::tensor::{DType, PartialShape, Tensor};

/// The numbers 0, 1, … of the positions along `axis` of `x` (i32).
fn numbers(
    importer: &Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    axis: usize,
) -> Result<Output, NodeProblem> {
    let sizes = importer.helper(node, "shape", Array::Shape(DType::I32), &[x])?;
    let at = Array::StridedSlice(vec![Subscript::At(axis as i64)]);
    let limit = importer.helper(node, "size", at, &[&sizes])?;
    let start = importer.scalar(node, "start", &limit, 0.0)?;
    let step = importer.scalar(node, "step", &limit, 1.0)?;
    let shape = PartialShape::new(&[x.tensor_type().shape.dims()[axis]]);
    importer.helper(
        node,
        "numbers",
        Dynamic { change: Change::Range, shape },
        &[&start, &limit, &step],
    )
}

/// For each element of a matrix, the number of its row minus that of its column.
fn below(
    importer: &Importer<'_>,
    node: &Node<'_>,
    rows: &Output,
    columns: &Output,
) -> Result<Output, NodeProblem> {
    let rows = importer.helper(node, "rows", Array::ExpandDims(1), &[rows])?;
    importer.helper(node, "below", Binary::Sub, &[&rows, columns])
}

fn zero_outside(importer: &mut Importer<'_>, node: &Node<'_>, inside: Output, x: Output) -> Values {
    let zero = importer.scalar(node, "zero", &x, 0.0)?;
    importer.emit(node, Broadcast::Select, &[inside, x, zero])
}

fn rank(x: &Output, least: usize) -> Result<usize, NodeProblem> {
    let rank = x.tensor_type().shape.rank();
    let few = || NodeProblem::unsupported(format!("it needs at least {least} dimensions"));
    if rank < least { Err(few()) } else { Ok(rank) }
}

/// `(x, lower, upper)`: the elements at most this many diagonals below and above the main one; all
/// where the number is negative.
pub(super) fn part(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let rank = rank(&x, 2)?;
    let (lower, upper) = (node.int(1)?, node.int(2)?);
    for (diagonals, size) in [lower, upper].iter().zip(&x.tensor_type().shape.dims()[rank - 2..]) {
        if size.is_some_and(|size| *diagonals > size as i64) {
            let problem = format!("{diagonals} diagonals where there are {size:?}");
            return Err(NodeProblem::unsupported(problem));
        }
    }
    let rows = numbers(importer, node, &x, rank - 2)?;
    let columns = numbers(importer, node, &x, rank - 1)?;
    let below = below(importer, node, &rows, &columns)?;
    let bound = |importer: &Importer<'_>, compare: Compare, limit: i64, all: i64| {
        let limit = if limit < 0 { all } else { limit.min(i64::from(i32::MAX)) };
        let limit = limit * if compare == Compare::LessEqual { 1 } else { -1 };
        let limit = Op::Const(Tensor::scalar(limit as i32));
        let limit = importer.helper(node, "limit", limit, &[])?;
        importer.helper(node, "bound", compare, &[&below, &limit])
    };
    let all = i64::from(i32::MAX);
    let lower = bound(importer, Compare::LessEqual, lower, all)?;
    let upper = bound(importer, Compare::GreaterEqual, upper, all)?;
    let inside = importer.helper(node, "inside", Logical::And, &[&lower, &upper])?;
    zero_outside(importer, node, inside, x)
}

/// The mask of the diagonal of a square matrix as large as the last axis of `x`.
fn on_diagonal(
    importer: &Importer<'_>,
    node: &Node<'_>,
    x: &Output,
) -> Result<Output, NodeProblem> {
    let numbers = numbers(importer, node, x, rank(x, 1)? - 1)?;
    let below = below(importer, node, &numbers, &numbers)?;
    let zero = importer.scalar(node, "none", &below, 0.0)?;
    importer.helper(node, "diagonal", Compare::Equal, &[&below, &zero])
}

/// Checks that the inputs from `first` on, of the newer versions, say the main diagonal of square
/// matrices, padded by 0.
fn is_plain(node: &Node<'_>, expected: &[i64]) -> Result<(), NodeProblem> {
    node.def.text("align")?;
    let given = (1..node.inputs.len().min(1 + expected.len())).map(|i| node.int(i));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let padding = node.inputs.get(1 + expected.len()).map(|value| value.constant.as_ref());
    let is_zero = |x: &Tensor| *x == Tensor::zeros(x.dtype(), x.shape());
    if given == expected[..given.len()] && padding.is_none_or(|x| x.is_some_and(is_zero)) {
        return Ok(());
    }
    Err(NodeProblem::unsupported("other diagonals than the main one do not exist here"))
}

/// `(x)` or `(x, k, rows, columns, padding)`
pub(super) fn diagonal(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    is_plain(node, &[0, -1, -1])?;
    let x = importer.input(node, 0)?;
    let inside = on_diagonal(importer, node, &x)?;
    let rank = rank(&x, 1)?;
    let column = importer.helper(node, "column", Array::ExpandDims(rank), &[&x])?;
    zero_outside(importer, node, inside, column)
}

/// `(x)` or `(x, k, padding)`
pub(super) fn diagonal_part(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    is_plain(node, &[0])?;
    let x = importer.input(node, 0)?;
    let (rank, shape) = (rank(&x, 2)?, x.tensor_type().shape);
    if let [.., rows, columns] = shape.dims()
        && (rows != columns || rows.is_none())
    {
        return Err(NodeProblem::unsupported("the diagonal of a matrix that is not square"));
    }
    let inside = on_diagonal(importer, node, &x)?;
    let zero = importer.scalar(node, "zero", &x, 0.0)?;
    let kept = importer.helper(node, "kept", Broadcast::Select, &[&inside, &x, &zero])?;
    let axes = std::iter::once(rank - 1).collect();
    importer.emit(node, Reduce { reduction: Reduction::Sum, axes, keep_dims: false }, &[kept])
}
