//! Sums of products by Einstein's convention, as transpositions and one product of matrices.

use super::{Importer, Node, NodeProblem, Values};
use crate::graph::{Axes, Output, Reduction};
use crate::import::tensor::partial_shape;
use crate::operations::{Array, Change, Dynamic, Product, Reduce};
use crate::tensor::{DType, PartialShape};

/// The labels of two operands and of the result, sorted by who has them.
struct Labels {
    /// In both operands and the result.
    batch: Vec<char>,
    /// In the first operand and the result.
    rows: Vec<char>,
    /// In both operands alone: summed.
    inner: Vec<char>,
    /// In the second operand and the result.
    columns: Vec<char>,
}

/// `(a)` or `(a, b)`, by the attribute `equation`.
pub(super) fn einsum(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let equation = node.def.text("equation")?.to_owned();
    let refused =
        |what: &str| Err(NodeProblem::unsupported(format!("the equation `{equation}` {what}")));
    let Some((operands, result)) = equation.split_once("->") else {
        return refused("must say its result");
    };
    let mut open = 0;
    let mut labels = Vec::new();
    for (i, term) in operands.split(',').enumerate() {
        let rank = importer.input(node, i)?.tensor_type().shape.rank();
        let own = axes_of_ellipsis(term, rank);
        open = open.max(own);
        labels.push(written_out(term, own));
    }
    if open > 0 && !result.contains(ELLIPSIS) {
        return refused("sums over an ellipsis, which is not read here");
    }
    let (operands, result) = (labels, written_out(result, open));
    if operands.iter().chain([&result]).any(|labels| labels.contains(&'.')) {
        return refused("has dots that are no ellipsis");
    }
    let repeats = |labels: &[char]| (1..labels.len()).any(|i| labels[..i].contains(&labels[i]));
    if operands.iter().any(|labels| repeats(labels)) || repeats(&result) {
        return refused("has a label twice in one place, which is not read here");
    }
    match operands.as_slice() {
        [a] => of_one(importer, node, a, &result),
        [a, b] => {
            let mut terms =
                [(a.clone(), importer.input(node, 0)?), (b.clone(), importer.input(node, 1)?)];
            let [first, second] = &mut terms;
            without_spread_axes(importer, node, first, second)?;
            without_spread_axes(importer, node, second, first)?;
            let (a, b) = (first.0.clone(), second.0.clone());
            summed(importer, node, first, &[b.as_slice(), &result].concat())?;
            summed(importer, node, second, &[a.as_slice(), &result].concat())?;
            of_two(importer, node, terms, &result)
        }
        _ => refused("must have one or two operands"),
    }
}

/// What stands for the axes that have no labels.
const ELLIPSIS: &str = "...";
/// The label of the last of these axes; those before it have the next ones. None is a letter.
const FIRST_OF_ELLIPSIS: char = '\u{e000}';

/// The number of axes of a value of `rank` that the ellipsis of `term` stands for, if it has one.
fn axes_of_ellipsis(term: &str, rank: usize) -> usize {
    term.split_once(ELLIPSIS).map_or(0, |(before, after)| {
        rank.saturating_sub(before.chars().count() + after.chars().count())
    })
}

/// The labels of `term`, with one for each of the `open` axes that its ellipsis stands for. Their
/// ends are aligned: the last one has the same label in each term.
fn written_out(term: &str, open: usize) -> Vec<char> {
    let own: String = (FIRST_OF_ELLIPSIS..).take(open).collect();
    term.replace(ELLIPSIS, &own.chars().rev().collect::<String>()).chars().collect()
}

/// Takes the axes away that an ellipsis stands for, and that `other` repeats: of size 1 here alone.
fn without_spread_axes(
    importer: &Importer<'_>,
    node: &Node<'_>,
    term: &mut (Vec<char>, Output),
    (others, y): &(Vec<char>, Output),
) -> Result<(), NodeProblem> {
    let (own, dims) = (term.1.tensor_type().shape, y.tensor_type().shape);
    let is_longer = |label: &char| {
        others.iter().zip(dims.dims()).any(|(other, dim)| other == label && *dim != Some(1))
    };
    let is_kept = |(label, dim): &(&char, &Option<usize>)| {
        **label < FIRST_OF_ELLIPSIS || **dim != Some(1) || !is_longer(label)
    };
    let kept: Vec<char> =
        term.0.iter().zip(own.dims()).filter(is_kept).map(|(label, _)| *label).collect();
    summed(importer, node, term, &kept)
}

/// Sums the axes of labels that `others` don't have.
fn summed(
    importer: &Importer<'_>,
    node: &Node<'_>,
    (labels, x): &mut (Vec<char>, Output),
    others: &[char],
) -> Result<(), NodeProblem> {
    let axes: Axes =
        labels.iter().enumerate().filter(|(_, l)| !others.contains(l)).map(|(i, _)| i).collect();
    if axes.iter().next().is_some() {
        let sum = Reduce { reduction: Reduction::Sum, axes, keep_dims: false };
        *x = importer.helper(node, "sum", sum, &[x])?;
        labels.retain(|label| others.contains(label));
    }
    Ok(())
}

fn of_one(importer: &mut Importer<'_>, node: &Node<'_>, a: &[char], result: &[char]) -> Values {
    let mut term = (a.to_vec(), importer.input(node, 0)?);
    summed(importer, node, &mut term, result)?;
    let (labels, x) = term;
    let order = order(&labels, result).ok_or_else(|| {
        NodeProblem::unsupported("its result has a label that its operand has not")
    })?;
    importer.emit(node, Array::Transpose(order), &[x])
}

/// Where each label of `to` is in `from`.
fn order(from: &[char], to: &[char]) -> Option<Vec<usize>> {
    to.iter().map(|label| from.iter().position(|own| own == label)).collect()
}

fn of_two(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    [(a, x), (b, y)]: [(Vec<char>, Output); 2],
    result: &[char],
) -> Values {
    let of = |keep: &dyn Fn(&char) -> bool, labels: &[char]| -> Vec<char> {
        labels.iter().copied().filter(|label| keep(label)).collect()
    };
    let labels = Labels {
        batch: of(&|l| a.contains(l) && b.contains(l), result),
        rows: of(&|l| a.contains(l) && !b.contains(l), result),
        inner: of(&|l| b.contains(l) && !result.contains(l), &a),
        columns: of(&|l| b.contains(l) && !a.contains(l), result),
    };
    let Labels { batch, rows, inner, columns } = &labels;
    let (left, right) = ([batch, rows, inner].map(Vec::len), [batch, inner, columns].map(Vec::len));
    let first =
        matrices(importer, node, (&a, &x), &[batch.as_slice(), rows, inner].concat(), left)?;
    let second =
        matrices(importer, node, (&b, &y), &[batch.as_slice(), inner, columns].concat(), right)?;
    let product = Product::BatchMatMul { adj_x: false, adj_y: false };
    let product = importer.helper(node, "product", product, &[&first, &second])?;
    let made = [batch.as_slice(), rows, columns].concat();
    let apart = spread(importer, node, &product, &made, [(&a, &x), (&b, &y)])?;
    let order = order(&made, result)
        .ok_or_else(|| NodeProblem::unsupported("its result has a label that no operand has"))?;
    importer.emit(node, Array::Transpose(order), &[apart])
}

/// The value with its axes in the order of `to`, flattened to `[batch, rows, columns]`, of which
/// each has this many axes.
fn matrices(
    importer: &Importer<'_>,
    node: &Node<'_>,
    (labels, x): (&[char], &Output),
    to: &[char],
    counts: [usize; 3],
) -> Result<Output, NodeProblem> {
    let order = order(labels, to).filter(|order| order.len() == x.tensor_type().shape.rank());
    let order = order.ok_or_else(|| {
        NodeProblem::unsupported("its equation must have a label for each axis of its operands")
    })?;
    let turned = importer.helper(node, "turned", Array::Transpose(order), &[x])?;
    let shape = turned.tensor_type().shape;
    let mut left = shape.dims();
    let flat = counts.map(|count| {
        let (own, rest) = left.split_at(count);
        left = rest;
        own.iter().try_fold(1i64, |product, dim| Some(product * dim.map(|dim| dim as i64)?))
    });
    let dims = flat.map(|dim| dim.unwrap_or(-1));
    if dims.iter().filter(|dim| **dim < 0).count() > 1 {
        return Err(NodeProblem::unsupported("two of its sizes are unknown"));
    }
    importer.helper(node, "matrices", Array::Reshape(partial_shape(&dims)?), &[&turned])
}

/// The product with an axis for each label.
fn spread(
    importer: &Importer<'_>,
    node: &Node<'_>,
    product: &Output,
    labels: &[char],
    operands: [(&Vec<char>, &Output); 2],
) -> Result<Output, NodeProblem> {
    let find = |label: &char| {
        operands.iter().find_map(|(own, x)| {
            own.iter().position(|own| own == label).map(|axis| ((*x).clone(), axis))
        })
    };
    let places: Vec<(Output, usize)> = labels.iter().filter_map(find).collect();
    let dims: Vec<Option<usize>> =
        places.iter().map(|(x, axis)| x.tensor_type().shape.dims()[*axis]).collect();
    let too_many = || NodeProblem::unsupported("its result has too many dimensions");
    let shape = PartialShape::checked(&dims).ok_or_else(too_many)?;
    if dims.iter().filter(|dim| dim.is_none()).count() <= 1 {
        return importer.helper(node, "apart", Array::Reshape(shape), &[product]);
    }
    let size = |(x, axis): &(Output, usize)| {
        let sizes = importer.helper(node, "shape", Array::Shape(DType::I32), &[x])?;
        let at = Array::Slice { begin: vec![*axis], size: vec![Some(1)] };
        importer.helper(node, "size", at, &[&sizes])
    };
    let sizes = places.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let all = sizes.iter().collect::<Vec<_>>();
    let sizes = importer.helper(node, "sizes", Array::Concat { axis: 0 }, &all)?;
    importer.helper(node, "apart", Dynamic { change: Change::Reshape, shape }, &[product, &sizes])
}
