//! Sequences reversed, each as far as it goes.

use super::{Importer, Node, NodeProblem, Values};
use crate::graph::{Op, Output};
use crate::import::known::Known;
use crate::import::node::axis;
use crate::operations::{Array, Binary, Broadcast, Cast, Change, Compare, Dynamic, Indexed};
use crate::tensor::{DType, PartialShape, Tensor};

/// `(x, lengths)`: of each entry of the batch's axis as many elements of the sequence's as its
/// length says in the opposite order; the others stay.
pub(super) fn sequences(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (x, lengths) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let rank = x.tensor_type().shape.rank();
    let of = |name| axis(node.def.int(name, 0)?, rank);
    let (batch, sequence) = (of("batch_dim")?, of("seq_dim")?);
    if batch == sequence {
        return Err(NodeProblem::unsupported(
            "its axes of the batch and the sequence are the same",
        ));
    }
    // The batch and the sequence become the first axes.
    let others = (0..rank).filter(|at| ![batch, sequence].contains(at));
    let order: Vec<usize> = [batch, sequence].into_iter().chain(others).collect();
    let back: Vec<usize> =
        (0..rank).filter_map(|at| order.iter().position(|from| *from == at)).collect();
    let is_ordered = order.is_sorted();
    let x = match is_ordered {
        true => x,
        false => importer.helper(node, "ordered", Array::Transpose(order), &[&x])?,
    };
    let lengths = importer.helper(node, "lengths", Cast(DType::I64), &[&lengths])?;
    let lengths = importer.helper(node, "lengths", Array::ExpandDims(1), &[&lengths])?;
    let places = places(importer, node, &x)?;
    let one = importer.scalar(node, "one", &lengths, 1.0)?;
    let last = importer.helper(node, "last", Binary::Sub, &[&lengths, &one])?;
    let opposite = importer.helper(node, "opposite", Binary::Sub, &[&last, &places])?;
    let is_within = importer.helper(node, "within", Compare::Less, &[&places, &lengths])?;
    let from = [&is_within, &opposite, &places];
    let from = importer.helper(node, "from", Broadcast::Select, &from)?;
    let gather = Indexed::Gather { axis: 1, batch: 1 };
    if is_ordered {
        return importer.emit(node, gather, &[x, from]);
    }
    let reversed = importer.helper(node, "reversed", gather, &[&x, &from])?;
    importer.emit(node, Array::Transpose(back), &[reversed])
}

/// The numbers of the places along axis 1 of `x`.
fn places(importer: &mut Importer<'_>, node: &Node<'_>, x: &Output) -> Result<Output, NodeProblem> {
    let [start, delta] = [0i64, 1].map(Tensor::scalar);
    let size = Known::shape_of(x, DType::I64).elements.swap_remove(1);
    if let Some(size) = size.known() {
        let range = Array::Range { start, limit: Tensor::scalar(size), delta };
        return importer.helper(node, "places", range, &[]);
    }
    let name = format!("{}/sizes_", node.def.name);
    let limit = Known::scalar(DType::I64, size).materialise(importer.graph, &name, 0)?;
    let start = importer.helper(node, "start", Op::Const(start), &[])?;
    let delta = importer.helper(node, "delta", Op::Const(delta), &[])?;
    let range = Dynamic { change: Change::Range, shape: PartialShape::from([None]) };
    importer.helper(node, "places", range, &[&start, &limit, &delta])
}
