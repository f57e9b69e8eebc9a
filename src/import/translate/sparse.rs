//! Rows found by their number: lookups, sums of segments, and updates of some rows of a variable.

use super::state::variable_at;
use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs};
use crate::graph::Op;
use crate::import::known::{Element, Known};
use crate::import::value::Value;
use crate::operations::Sparse;
use crate::optimizer::GradientDescentRule;
use crate::tensor::{DType, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Unique" => Box::new(|importer, node| match node.def.optional_dtype("out_idx")? {
            Some(DType::I64) => {
                Err(NodeProblem::unsupported("the positions that Unique gives are i32 here"))
            }
            _ => of_inputs([0], Sparse::Unique)(importer, node),
        }),
        "ListDiff" => Box::new(|importer, node| match node.def.optional_dtype("out_idx")? {
            Some(DType::I64) => {
                Err(NodeProblem::unsupported("the positions that ListDiff gives are i32 here"))
            }
            _ => of_inputs([0, 1], Sparse::ListDiff)(importer, node),
        }),
        "Where" => of_inputs([0], Sparse::Where),
        "DenseToDenseSetOperation" => {
            Box::new(|importer, node| match node.def.text("set_operation")? {
                "a-b" => of_inputs([0, 1], Sparse::SetDifference)(importer, node),
                other => Err(NodeProblem::unsupported(format!(
                    "the operation {other} on sets does not exist here"
                ))),
            })
        }
        "UnsortedSegmentSum" => Box::new(segment_sum),
        "SegmentSum" => Box::new(sum_of_sorted),
        "ResourceGather" => Box::new(gather),
        "ScatterSub" | "ResourceScatterSub" => {
            Box::new(|importer, node| scatter(importer, node, 1.0))
        }
        "ScatterAdd" | "ResourceScatterAdd" => {
            Box::new(|importer, node| scatter(importer, node, -1.0))
        }
        _ => return None,
    })
}

/// Whether `kind` updates some rows of a variable.
pub(super) fn is_update(kind: &str) -> bool {
    kind.strip_prefix("Resource").unwrap_or(kind).starts_with("Scatter") && kind != "ScatterNd"
}

/// `(data, ids, number of segments)`; the number may be the number of rows of a value.
fn segment_sum(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (data, ids) = (importer.input(node, 0)?, importer.input(node, 1)?);
    match node.known(2)?.elements.as_slice() {
        [Element::Known(segments)] => {
            let segments = usize::try_from(*segments)
                .map_err(|_| NodeProblem::unsupported("a negative size"))?;
            importer.emit(node, Sparse::UnsortedSegmentSum(Some(segments)), &[data, ids])
        }
        [Element::Dim(like, 0)] => {
            let like = like.clone();
            importer.emit(node, Sparse::UnsortedSegmentSum(None), &[data, ids, like])
        }
        [element] => {
            let rows = Known::vector(DType::I32, vec![element.clone()]);
            let like = super::array::like(importer, node, &rows)?;
            importer.emit(node, Sparse::UnsortedSegmentSum(None), &[data, ids, like])
        }
        _ => Err(NodeProblem::NotConstant { input: 2 }),
    }
}

/// `(data, ids)`: the ids are known before a step, and the last one is the greatest.
fn sum_of_sorted(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let ids = node.ints(1)?;
    let rows = ids.last().map_or(Some(0), |last| usize::try_from(*last + 1).ok());
    let inputs = [importer.input(node, 0)?, importer.input(node, 1)?];
    importer.emit(node, Sparse::UnsortedSegmentSum(rows), &inputs)
}

/// `(handle, ids)`: the rows of the variable; the variable itself does not travel.
fn gather(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if node.def.int("batch_dims", 0)? != 0 {
        return Err(NodeProblem::unsupported(
            "batch dimensions of ResourceGather do not exist here",
        ));
    }
    let (variable, ids) = (variable_at(node, 0)?, importer.input(node, 1)?);
    let id = importer.emit_on(node, Op::ResourceGather, &[ids], &[variable])?;
    Ok(importer.outputs_of(id).into_iter().take(1).collect())
}

/// `(variable, ids, updates)`: subtracts the updates, multiplied by `factor`.
fn scatter(importer: &mut Importer<'_>, node: &Node<'_>, factor: f32) -> Values {
    let variable = variable_at(node, 0)?;
    let (ids, updates) = (importer.input(node, 1)?, importer.input(node, 2)?);
    let factor = importer.helper(node, "factor", Op::Const(Tensor::scalar(factor)), &[])?;
    let op = Op::ApplyGradient { rule: GradientDescentRule.into(), is_sparse: true, replica: None };
    let id = importer.emit_on(node, op, &[factor, updates, ids], &[variable])?;
    Ok(vec![Value { variable: Some((variable, Some(id))), ..Value::default() }])
}
