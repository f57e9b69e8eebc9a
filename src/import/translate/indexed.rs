//! Elements found by indices.

use super::{Def, Importer, Node, NodeProblem, Translate, Values, plain, sparse, with_attributes};
use crate::graph::{Op, OpId, Operation, Output, Variable};
use crate::import::node::axis;
use crate::import::tensor::known_shape;
use crate::import::value::Value;
use crate::operations::{Array, Broadcast, Guard, Indexed, Sparse, Unary};
use crate::tensor::{DType, PartialShape, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Gather" => Box::new(|importer, node| match rows_of_variable(importer, node)? {
            Some(rows) => Ok(rows),
            None => plain(Indexed::Gather { axis: 0, batch: 0 })(importer, node),
        }),
        "GatherV2" => Box::new(gather),
        "GatherNd" => checked(|| Indexed::GatherNd),
        "ScatterNd" => Box::new(scatter_nd),
        "TensorScatterAdd" => checked(|| Indexed::TensorScatterAdd),
        "TensorScatterUpdate" => checked(|| Indexed::TensorScatterUpdate),
        "TensorScatterSub" => Box::new(scatter_sub),
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

/// `(x, indices, updates)`
fn scatter_sub(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    fails_outside(node.def)?;
    let [x, indices, updates] =
        [importer.input(node, 0)?, importer.input(node, 1)?, importer.input(node, 2)?];
    let negated = importer.helper(node, "negated", Unary::Neg, &[&updates])?;
    importer.emit(node, Indexed::TensorScatterAdd, &[x, indices, negated])
}

/// A gather is looked at through so many `Identity` operations at most, to find the variable that
/// it takes rows of: a crafted graph may have any number.
const MOST_IDENTITIES: usize = 8;

/// The rows of input 0 at input 1, if input 0 is the whole value of a variable of f32: only these
/// rows travel, and the gradient is of them alone.
fn rows_of_variable(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
) -> Result<Option<Vec<Value>>, NodeProblem> {
    let Some((variable, mut after)) = whole_variable(importer, node.value(0)?) else {
        return Ok(None);
    };
    let table = Variable::new(importer.graph.clone(), variable).spec();
    if table.dtype != DType::F32 || table.shape.rank() == 0 {
        return Ok(None);
    }
    let ids = importer.input(node, 1)?;
    after.extend(node.controls_beside(&[ids.edge()]));
    sparse::rows(importer, &node.with_controls(after), variable, ids).map(Some)
}

/// The variable whose whole value `params` is, and the operations that must run before it is read.
/// None of a value that was read by handle and may be older than the variable's. None in a branch,
/// where TensorFlow's gradient is of all rows if the branch is not run.
fn whole_variable(importer: &Importer<'_>, params: &Value) -> Option<(OpId, Vec<OpId>)> {
    if params.cell.is_some() || !params.branches.is_empty() {
        return None;
    }
    let Some(output) = &params.output else {
        return params.variable.map(|(variable, _)| (variable, Vec::new()));
    };
    let (mut edge, mut after) = (output.edge(), Vec::new());
    for _ in 0..=MOST_IDENTITIES {
        let operation = importer.graph.with_operation(edge.op, Operation::clone);
        after.extend(operation.control_inputs);
        match operation.op {
            Op::ReadVariable if edge.output == 0 => {
                let variable = operation.variables[0];
                return (!importer.roles.is_reassigned(variable)).then_some((variable, after));
            }
            Op::Identity => edge = operation.inputs[0],
            _ => return None,
        }
    }
    None
}

/// `(params, indices, axis)`
fn gather(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let is_of_rows = node.int(2)? == 0 && node.def.int("batch_dims", 0)? == 0;
    if is_of_rows && let Some(rows) = rows_of_variable(importer, node)? {
        return Ok(rows);
    }
    let (params, indices) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let shape = params.tensor_type().shape;
    let axis = axis(node.int(2)?, shape.rank())?;
    let batch = node.def.int("batch_dims", 0)?;
    let counted = if batch < 0 { batch + indices.tensor_type().shape.rank() as i64 } else { batch };
    let batch = usize::try_from(counted)
        .map_err(|_| NodeProblem::unsupported(format!("{batch} batch dimensions")))?;
    importer.emit(node, Indexed::Gather { axis, batch }, &[params, indices])
}

/// `(indices, depth, on, off)`; the last two may be values of the step, without a gradient, as in
/// TensorFlow.
fn one_hot(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let indices = importer.input(node, 0)?;
    let rank = indices.tensor_type().shape.rank();
    let depth = known_shape(&[node.int(1)?])?.elements();
    let axis = axis(node.def.int("axis", -1)?, rank + 1)?;
    let (Ok(on), Ok(off)) = (node.constant(2), node.constant(3)) else {
        let (on, off) = (Tensor::scalar(true), Tensor::scalar(false));
        let is_on = Indexed::OneHot { depth, axis, on, off };
        let is_on = importer.helper(node, "is_on", is_on, &[&indices])?;
        let value = |i: usize, part: &str| {
            importer.helper(node, part, Guard::StopGradient, &[&importer.input(node, i)?])
        };
        let (on, off) = (value(2, "on")?, value(3, "off")?);
        return importer.emit(node, Broadcast::Select, &[is_on, on, off]);
    };
    let (on, off) = (on.clone(), off.clone());
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
