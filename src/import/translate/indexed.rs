//! Elements found by indices.

use super::{Importer, Node, NodeProblem, Translate, Values, plain};
use crate::import::node::axis;
use crate::import::tensor::known_shape;
use crate::operations::Indexed;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Gather" => plain(Indexed::Gather { axis: 0 }),
        "GatherV2" => Box::new(gather),
        "GatherNd" => plain(Indexed::GatherNd),
        "ScatterNd" => Box::new(|importer, node| {
            let shape = known_shape(&node.ints(2)?)?;
            let inputs = [importer.input(node, 0)?, importer.input(node, 1)?];
            importer.emit(node, Indexed::ScatterNd(shape), &inputs)
        }),
        "TensorScatterAdd" => plain(Indexed::TensorScatterAdd),
        "TensorScatterUpdate" => plain(Indexed::TensorScatterUpdate),
        "OneHot" => Box::new(one_hot),
        _ => return None,
    })
}

/// `(params, indices, axis)`
fn gather(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if node.def.int("batch_dims", 0)? != 0 {
        return Err(NodeProblem::unsupported("batch dimensions of GatherV2 do not exist here"));
    }
    let (params, indices) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let axis = axis(node.int(2)?, params.tensor_type().shape.rank())?;
    importer.emit(node, Indexed::Gather { axis }, &[params, indices])
}

/// `(indices, depth, on, off)`
fn one_hot(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let indices = importer.input(node, 0)?;
    let rank = indices.tensor_type().shape.rank();
    let depth = known_shape(&[node.int(1)?])?.elements();
    let (on, off) = (node.constant(2)?.clone(), node.constant(3)?.clone());
    let axis = axis(node.def.int("axis", -1)?, rank + 1)?;
    importer.emit(node, Indexed::OneHot { depth, axis, on, off }, &[indices])
}
