//! Reductions, losses, and the order of elements: axes are attributes here.

use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs, plain};
use crate::graph::{Axes, Op, Output, Reduction};
use crate::import::known::{Element, Known};
use crate::import::node::{axes, axis};
use crate::import::tensor::{known_shape, partial_shape};
use crate::import::value::{SummedTo, Value};
use crate::operations::{Array, Binary, Broadcast, Change, Dynamic, LossFunction, Order, Reduce};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    if let Some(reduction) = reduction(kind) {
        return Some(Box::new(move |importer, node| reduce(importer, node, reduction)));
    }
    Some(match kind {
        "ArgMax" => position(|axis, dtype| Order::ArgMax { axis, dtype }),
        "ArgMin" => position(|axis, dtype| Order::ArgMin { axis, dtype }),
        "TopKV2" => Box::new(|importer, node| {
            if node.int(1).is_err() {
                return top_of_the_step(importer, node);
            }
            let (x, k) = (importer.input(node, 0)?, Some(count(node, 1)?));
            importer.emit(node, Order::TopK { k }, &[x])
        }),
        "InTopKV2" => Box::new(|importer, node| {
            let (k, inputs) =
                (count(node, 2)?, [importer.input(node, 0)?, importer.input(node, 1)?]);
            importer.emit(node, Order::InTopK { k }, &inputs)
        }),
        "Softmax" => plain(LossFunction::Softmax),
        "LogSoftmax" => plain(LossFunction::LogSoftmax),
        "SoftmaxCrossEntropyWithLogits" => Box::new(cross_entropy),
        "SparseSoftmaxCrossEntropyWithLogits" => {
            plain(LossFunction::SparseSoftmaxCrossEntropyWithLogits)
        }
        "L2Loss" => of_inputs([0], LossFunction::L2Loss),
        _ => return None,
    })
}

fn reduction(kind: &str) -> Option<Reduction> {
    Some(match kind {
        "Sum" => Reduction::Sum,
        "Mean" => Reduction::Mean,
        "Prod" => Reduction::Prod,
        "Max" => Reduction::Max,
        "Min" => Reduction::Min,
        "Any" => Reduction::Any,
        "All" => Reduction::All,
        _ => return None,
    })
}

/// `(x, axes)`
fn reduce(importer: &mut Importer<'_>, node: &Node<'_>, reduction: Reduction) -> Values {
    if let (Reduction::Sum, Some((x, sizes))) = (reduction, &node.value(0)?.tiled) {
        return sum_of_tiles(importer, node, x, sizes);
    }
    let x = importer.input(node, 0)?;
    if let (Reduction::Sum, Some(to)) = (reduction, node.value(1)?.summed_to.clone())
        && x.tensor_type().dtype.is_float()
    {
        node.def.flag("keep_dims")?; // a reshape to the shape follows in any case
        let like = whole(importer, node, &x, &to)?;
        return importer.emit(node, Broadcast::SumToLike, &[x, like]);
    }
    let rank = x.tensor_type().shape.rank();
    let axes: Axes = axes(&node.ints(1)?, rank)?.into_iter().collect();
    let reduce = Reduce { reduction, axes, keep_dims: node.def.flag("keep_dims")? };
    importer.emit(node, reduce, &[x])
}

/// A value of the shape that the gradient `x` is summed to: `to`, with axes of one before it and
/// those of the matrices after it.
fn whole(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    to: &SummedTo,
) -> Result<Output, NodeProblem> {
    let (kind, given) = (x.tensor_type(), to.like.tensor_type());
    if given.dtype == kind.dtype && given.shape.rank() == kind.shape.rank() {
        return Ok(to.like.clone());
    }
    let before = to.rank.saturating_sub(given.shape.rank());
    let ones = vec![Element::Known(1); before];
    let own = Known::shape_of(&to.like, DType::I64).elements;
    let matrices = Known::shape_of(x, DType::I64).elements.into_iter().skip(to.rank);
    let sizes = ones.into_iter().chain(own).chain(matrices).collect();
    let sizes = Known::vector(DType::I64, sizes);
    let shape = partial_shape(&sizes.dims_or_unknown())?;
    let sizes = sizes.materialise(importer.graph, &format!("{}/sizes_", node.def.name), 0)?;
    let zero = importer.scalar(node, "zero", x, 0.0)?;
    let spread = Dynamic { change: Change::BroadcastTo, shape };
    importer.helper(node, "like", spread, &[&zero, &sizes])
}

/// The sum over the axes that count the repetitions: every other one.
fn sum_of_tiles(importer: &mut Importer<'_>, node: &Node<'_>, x: &Output, sizes: &[i64]) -> Values {
    let axes = node.ints(1)?;
    let multiples = sizes.iter().step_by(2).map(|times| usize::try_from(*times).ok());
    let is_every_other = (0..sizes.len() as i64).step_by(2).eq(axes);
    let fits = is_every_other && !node.def.flag("keep_dims")?;
    match multiples.collect::<Option<Vec<_>>>() {
        Some(multiples) if fits && multiples.contains(&0) => {
            zeros_of_tiles(importer, node, x, sizes)
        }
        Some(multiples) if fits => {
            importer.emit(node, Array::TileGrad(multiples), std::slice::from_ref(x))
        }
        _ => Err(NodeProblem::unsupported("its input has too many dimensions")),
    }
}

/// The same where a number of repetitions is 0: the gradient `x` of no elements does not say how
/// many there were.
fn zeros_of_tiles(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    x: &Output,
    sizes: &[i64],
) -> Values {
    let own: Vec<i64> = sizes.iter().skip(1).step_by(2).copied().collect();
    let shape = known_shape(&own)?;
    let value = Tensor::zeros(x.tensor_type().dtype, Shape::SCALAR);
    importer.emit(node, Op::Fill { shape, value }, &[])
}

/// `(logits, labels)`, of which one may have a row or a column for all.
fn cross_entropy(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (mut logits, mut labels) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let spread = |importer: &Importer<'_>, x: &Output, like: &Output| {
        let is_one = |(x, like): (&Option<usize>, &Option<usize>)| *x == Some(1) && x != like;
        let (own, other) = (x.tensor_type().shape, like.tensor_type().shape);
        if !own.dims().iter().zip(other.dims()).any(is_one) {
            return Ok(x.clone());
        }
        let zeros = super::array::zeros(importer, node, x, like)?;
        importer.helper(node, "spread", Binary::Add, &[&zeros, x])
    };
    logits = spread(importer, &logits, &labels)?;
    labels = spread(importer, &labels, &logits)?;
    importer.emit(node, LossFunction::SoftmaxCrossEntropyWithLogits, &[logits, labels])
}

/// `(x, k)`, where only the step knows `k`: all elements in their order, and then the first `k`.
fn top_of_the_step(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, k) = (importer.input(node, 0)?, node.known(1)?);
    let shape = x.tensor_type().shape;
    let rank = shape.rank();
    let sorted = importer.helper(node, "sorted", Order::TopK { k: None }, &[&x])?;
    let mut ends = vec![Element::Known(0); rank.saturating_sub(1)];
    ends.extend(k.elements.first().cloned());
    if ends.len() != rank {
        return Err(NodeProblem::unsupported("its input must have an axis"));
    }
    let numbers = |elements| Value::from(Known::vector(DType::I32, elements));
    let begin = importer.value(node, &numbers(vec![Element::Known(0); rank]))?;
    let strides = importer.value(node, &numbers(vec![Element::Known(1); rank]))?;
    let end = importer.value(node, &numbers(ends))?;
    // All of each axis but the last.
    let open = (1 << (rank - 1)) - 1;
    let dims: Vec<_> = shape.dims()[..rank - 1].iter().copied().chain([None]).collect();
    let change = Change::StridedSlice([open, open, 0, 0, 0]);
    let first = Dynamic { change, shape: PartialShape::new(&dims) };
    let positions = [sorted.sibling(1), begin.clone(), end.clone(), strides.clone()];
    let [all, begin, end, strides] = &positions;
    let positions =
        importer.helper(node, "positions", first.clone(), &[all, begin, end, strides])?;
    let values =
        importer.emit(node, first, &[sorted, begin.clone(), end.clone(), strides.clone()])?;
    Ok(values.into_iter().chain([positions.into()]).collect())
}

/// `(x, axis)`
fn position(order: fn(usize, DType) -> Order) -> Translate {
    Box::new(move |importer, node| {
        let x: Output = importer.input(node, 0)?;
        let axis = axis(node.int(1)?, x.tensor_type().shape.rank())?;
        let dtype = node.def.optional_dtype("output_type")?.unwrap_or(DType::I64);
        importer.emit(node, order(axis, dtype), &[x])
    })
}

/// Input `i` as a count.
fn count(node: &Node<'_>, i: usize) -> Result<usize, NodeProblem> {
    let count = node.int(i)?;
    usize::try_from(count)
        .map_err(|_| NodeProblem::unsupported(format!("{count} is no number of elements")))
}
