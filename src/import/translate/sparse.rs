//! Rows found by their number: lookups, sums of segments, and updates of some rows of a variable.

use super::state::variable_at;
use super::{Importer, Node, NodeProblem, Translate, Values, of_inputs};
use crate::graph::{Name, NewOperation, Op, OpId, Output, Reduction};
use crate::import::known::{Element, Known};
use crate::import::value::Value;
use crate::operations::{Array, Broadcast, Cast, Compare, Guard, Reduce, Sparse};
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
        "UnsortedSegmentMax" => reduced_segments(Reduction::Max, f32::MIN),
        "UnsortedSegmentMin" => reduced_segments(Reduction::Min, f32::MAX),
        "UnsortedSegmentProd" => reduced_segments(Reduction::Prod, 1.0),
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

/// `(data, ids, number of segments)`
fn segment_sum(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let rows = [importer.input(node, 0)?, importer.input(node, 1)?];
    sum_of_segments(importer, node, rows, 2)
}

/// The sums of the data by ids; input `count` is their number, which may be that of the rows of a
/// value.
pub(super) fn sum_of_segments(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    [data, ids]: [Output; 2],
    count: usize,
) -> Values {
    match node.known(count)?.elements.as_slice() {
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
        _ => Err(NodeProblem::NotConstant { input: count }),
    }
}

/// The most segments that are reduced: each is compared with every row.
const MOST_SEGMENTS: i64 = 1024;

/// `(data, ids, number of segments)`: the reduction of the rows of each segment; `neutral` where it
/// has none. All rows are compared with all segments, whose number must be known.
fn reduced_segments(reduction: Reduction, neutral: f32) -> Translate {
    Box::new(move |importer, node| reduce_segments(importer, node, reduction, neutral))
}

fn reduce_segments(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    reduction: Reduction,
    neutral: f32,
) -> Values {
    let (data, ids) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let (rows, numbers) = (data.tensor_type(), ids.tensor_type());
    if rows.dtype != DType::F32 || numbers.shape.rank() != 1 {
        return Err(NodeProblem::unsupported("segments are reduced of rows of f32 here"));
    }
    let segments = node.int(2)?;
    if !(0..=MOST_SEGMENTS).contains(&segments) {
        return Err(NodeProblem::unsupported(format!("{segments} segments are not reduced here")));
    }
    let each: Vec<i64> = (0..segments).collect();
    let each =
        Tensor::new([each.len(), 1], &each).map_err(|_| NodeProblem::NotConstant { input: 2 })?;
    let each = importer.helper(node, "segments", Op::Const(each), &[])?;
    let ids = importer.helper(node, "ids", Cast(DType::I64), &[&ids])?;
    let are_there = all_below(importer, node, &ids, segments)?;
    let mut is_of = importer.helper(node, "is_of", Compare::Equal, &[&each, &ids])?;
    for axis in 2..=rows.shape.rank() {
        is_of = importer.helper(node, "is_of", Array::ExpandDims(axis), &[&is_of])?;
    }
    let data = importer.helper(node, "rows", Array::ExpandDims(0), &[&data])?;
    let neutral = importer.scalar(node, "neutral", &data, f64::from(neutral))?;
    let own = importer.helper(node, "own", Broadcast::Select, &[&is_of, &data, &neutral])?;
    let axes = [1].into_iter().collect();
    let checked = node.with_controls([&node.controls[..], &[are_there]].concat());
    importer.emit(&checked, Reduce { reduction, axes, keep_dims: false }, &[own])
}

/// An operation that fails the step if one of `ids` is `segments` or more. As in TensorFlow,
/// negative ids are allowed: their rows belong to no segment.
fn all_below(
    importer: &Importer<'_>,
    node: &Node<'_>,
    ids: &Output,
    segments: i64,
) -> Result<OpId, NodeProblem> {
    let limit = importer.scalar(node, "limit", ids, segments as f64)?;
    let is_below = importer.helper(node, "is_below", Compare::Less, &[ids, &limit])?;
    let message = format!("segment_ids of {}: one is out of range [0, {segments})", node.def.name);
    Ok(importer.graph.add(NewOperation {
        name: Name::Numbered(&importer.free_name(node, "are_below")),
        inputs: &[is_below.edge()],
        control_inputs: &node.controls,
        built_at: importer.built_at,
        ..NewOperation::of(Guard::Assert { message })
    })?)
}

/// `(handle, ids)`: the rows of the variable; the variable itself does not travel.
fn gather(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if node.def.int("batch_dims", 0)? != 0 {
        return Err(NodeProblem::unsupported(
            "batch dimensions of ResourceGather do not exist here",
        ));
    }
    let (variable, ids) = (variable_at(node, 0)?, importer.input(node, 1)?);
    rows(importer, node, variable, ids)
}

/// The rows of `variable` at `ids`.
pub(super) fn rows(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    variable: OpId,
    ids: Output,
) -> Values {
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
