//! Reductions, losses, and the order of elements: axes are attributes here.

use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs, plain};
use crate::graph::{Axes, Output, Reduction};
use crate::import::node::axis;
use crate::operations::Order;
use crate::operations::{LossFunction, Reduce};
use crate::tensor::DType;

pub(super) fn find(kind: &str) -> Option<Translate> {
    if let Some(reduction) = reduction(kind) {
        return Some(Box::new(move |importer, node| reduce(importer, node, reduction)));
    }
    Some(match kind {
        "ArgMax" => position(|axis, dtype| Order::ArgMax { axis, dtype }),
        "ArgMin" => position(|axis, dtype| Order::ArgMin { axis, dtype }),
        "TopKV2" => Box::new(|importer, node| {
            let (x, k) = (importer.input(node, 0)?, count(node, 1)?);
            importer.emit(node, Order::TopK { k }, &[x])
        }),
        "InTopKV2" => Box::new(|importer, node| {
            let (k, inputs) =
                (count(node, 2)?, [importer.input(node, 0)?, importer.input(node, 1)?]);
            importer.emit(node, Order::InTopK { k }, &inputs)
        }),
        "Softmax" => plain(LossFunction::Softmax),
        "LogSoftmax" => plain(LossFunction::LogSoftmax),
        "SoftmaxCrossEntropyWithLogits" => plain(LossFunction::SoftmaxCrossEntropyWithLogits),
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
    let x = importer.input(node, 0)?;
    let rank = x.tensor_type().shape.rank();
    let axes: Axes =
        node.ints(1)?.into_iter().map(|at| axis(at, rank)).collect::<Result<_, _>>()?;
    let reduce = Reduce { reduction, axes, keep_dims: node.def.flag("keep_dims")? };
    importer.emit(node, reduce, &[x])
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
