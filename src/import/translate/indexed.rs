//! Elements found by indices.

use super::{Def, Importer, Node, NodeProblem, Translate, Values, plain, with_attributes};
use crate::graph::{Op, Output};
use crate::import::node::axis;
use crate::import::tensor::known_shape;
use crate::operations::{Array, Indexed, Sparse};
use crate::tensor::{PartialShape, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Gather" => plain(Indexed::Gather { axis: 0, batch: 0 }),
        "GatherV2" => Box::new(gather),
        "GatherNd" => checked(|| Indexed::GatherNd),
        "ScatterNd" => Box::new(scatter_nd),
        "TensorScatterAdd" => checked(|| Indexed::TensorScatterAdd),
        "TensorScatterUpdate" => checked(|| Indexed::TensorScatterUpdate),
        "OneHot" => Box::new(one_hot),
        "DynamicPartition" => Box::new(partition),
        "DynamicStitch" | "ParallelDynamicStitch" => Box::new(stitch),
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

/// `(data, partitions)`
fn partition(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let parts = node.def.int("num_partitions", 0)?;
    let parts = usize::try_from(parts)
        .map_err(|_| NodeProblem::unsupported(format!("{parts} partitions")))?;
    let inputs = [importer.input(node, 0)?, importer.input(node, 1)?];
    importer.emit(node, Sparse::Partition(parts), &inputs)
}

/// `(indices…, values…)`: of the rows of all values, in their order, the last with each index.
fn stitch(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let count = node.inputs.len() / 2;
    match (0..count).map(|list| node.ints(list)).collect::<Result<Vec<_>, _>>() {
        Ok(indices) => stitch_known(importer, node, &indices),
        Err(_) => stitch_each_once(importer, node, count),
    }
}

/// Indices that only a step knows, such as those of a partition.
fn stitch_each_once(importer: &mut Importer<'_>, node: &Node<'_>, count: usize) -> Values {
    let (mut positions, mut rows) = (Vec::new(), Vec::new());
    for list in 0..count {
        let (indices, value) = (importer.input(node, list)?, importer.input(node, count + list)?);
        let rank = indices.tensor_type().shape.rank();
        positions.push(flat_rows(importer, node, &indices, (rank, None))?);
        rows.push(flat_rows(importer, node, &value, (rank, None))?);
    }
    importer.emit(node, Sparse::Stitch, &[positions, rows].concat())
}

/// What lies behind the first `rank` dimensions of `value`, as so many rows.
fn flat_rows(
    importer: &Importer<'_>,
    node: &Node<'_>,
    value: &Output,
    (rank, rows): (usize, Option<usize>),
) -> Result<Output, NodeProblem> {
    let kind = value.tensor_type();
    let has_as_many = rows.is_none() || kind.shape.dims().first() == Some(&rows);
    if rank == 1 && has_as_many {
        return Ok(value.clone());
    }
    let row = kind.shape.dims().get(rank..).unwrap_or_default();
    let shape = PartialShape::checked(&[&[rows], row].concat())
        .ok_or_else(|| NodeProblem::unsupported("rows of so many dimensions do not exist here"))?;
    importer.helper(node, "rows", Array::Reshape(shape), &[value])
}

/// Indices that are known when the graph is imported; what they leave out is an error.
fn stitch_known(importer: &mut Importer<'_>, node: &Node<'_>, indices: &[Vec<i64>]) -> Values {
    let (mut rows, order) = (Vec::new(), indices.concat());
    for (list, ints) in indices.iter().enumerate() {
        let value = importer.input(node, indices.len() + list)?;
        let rank = node.known(list)?.dims.len();
        rows.push(flat_rows(importer, node, &value, (rank, Some(ints.len())))?);
    }
    let greatest = order.iter().max().copied().unwrap_or(-1);
    let last = |row: i64| order.iter().rposition(|at| *at == row).map(|at| at as i32);
    let missing = || NodeProblem::unsupported("an index between others is missing");
    let picked = (0..=greatest).map(last).collect::<Option<Vec<i32>>>().ok_or_else(missing)?;
    if picked.is_empty() || order.iter().any(|at| *at < 0) {
        return Err(missing());
    }
    let rows: Vec<&Output> = rows.iter().collect();
    let all = importer.helper(node, "all", Array::Concat { axis: 0 }, &rows)?;
    let picked = Tensor::new([picked.len()], &picked);
    let picked = picked.map_err(|error| NodeProblem::unsupported(error.to_string()))?;
    let picked = importer.helper(node, "picked", Op::Const(picked), &[])?;
    importer.emit(node, Indexed::Gather { axis: 0, batch: 0 }, &[all, picked])
}
