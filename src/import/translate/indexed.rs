//! Elements found by indices.

use super::{Def, Importer, Node, NodeProblem, Translate, Values, plain, with_attributes};
use crate::import::node::axis;
use crate::import::tensor::known_shape;
use crate::operations::Indexed;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Gather" => plain(Indexed::Gather { axis: 0, batch: 0 }),
        "GatherV2" => Box::new(gather),
        "GatherNd" => checked(|| Indexed::GatherNd),
        "ScatterNd" => Box::new(scatter_nd),
        "TensorScatterAdd" => checked(|| Indexed::TensorScatterAdd),
        "TensorScatterUpdate" => checked(|| Indexed::TensorScatterUpdate),
        "OneHot" => Box::new(one_hot),
        _ => return None,
    })
}

/// The translation to the same inputs, where an index outside an axis is an error.
fn checked(op: fn() -> Indexed) -> Translate {
    with_attributes(move |def| fails_outside(def).map(|()| op()))
}

fn fails_outside(def: &Def<'_>) -> Result<(), NodeProblem> {
    match def.text("bad_indices_policy")? {
        "" | "ERROR" | "DEFAULT" => Ok(()),
        other => Err(NodeProblem::unsupported(format!(
            "the policy {other} for indices outside an axis does not exist here"
        ))),
    }
}

/// `(indices, updates, shape)`; sizes that only the step knows are those of zeros to add to.
fn scatter_nd(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    fails_outside(node.def)?;
    let inputs = [importer.input(node, 0)?, importer.input(node, 1)?];
    if let Ok(sizes) = node.ints(2) {
        return importer.emit(node, Indexed::ScatterNd(known_shape(&sizes)?), &inputs);
    }
    let like = super::array::like(importer, node, node.known(2)?)?;
    let zeros = super::array::zeros(importer, node, &inputs[1], &like)?;
    let [indices, updates] = inputs;
    importer.emit(node, Indexed::TensorScatterAdd, &[zeros, indices, updates])
}

/// `(params, indices, axis)`
fn gather(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (params, indices) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let shape = params.tensor_type().shape;
    let axis = axis(node.int(2)?, shape.rank())?;
    let batch = node.def.int("batch_dims", 0)?;
    let counted = if batch < 0 { batch + indices.tensor_type().shape.rank() as i64 } else { batch };
    let batch = usize::try_from(counted)
        .map_err(|_| NodeProblem::unsupported(format!("{batch} batch dimensions")))?;
    importer.emit(node, Indexed::Gather { axis, batch }, &[params, indices])
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
