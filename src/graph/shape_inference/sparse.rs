//! The outputs of operations on numbered rows. If the number of rows depends on values, the
//! dimension stays open.

use smallvec::smallvec;

use super::{OutputTypes, agree, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Sparse;
use crate::tensor::{DType, PartialShape};

/// The most dimensions that a shape can have.
const MAX_RANK: usize = 6;

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Sparse, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Sparse::Unique, [x]) => (unique(*x), "a vector of i32 or i64"),
        (Sparse::UnsortedSegmentSum(Some(rows)), [x, ids]) => {
            (segment_sum(*x, *ids, Some(*rows)), "f32 rows and an i32 or i64 for each")
        }
        (Sparse::UnsortedSegmentSum(None), [x, ids, like]) => (
            like.shape.dims().first().and_then(|rows| segment_sum(*x, *ids, *rows)),
            "f32 rows, an i32 or i64 for each, and what has a row for each sum",
        ),
        (Sparse::ShardIds(sharding), [ids]) => {
            (shard_ids(*ids, sharding.shards), "a vector of i32 or i64")
        }
        (Sparse::Stitch, inputs) => {
            (stitch(inputs), "as many i32 vectors of positions as f32 rows")
        }
        (Sparse::StitchGrad, [gradient, positions @ ..]) => {
            (stitch_grad(*gradient, positions), "f32 rows and i32 vectors of positions")
        }
        _ => (None, "another number of inputs"),
    };
    outputs.ok_or_else(|| refused(needs, inputs))
}

/// The output of a gather of `ids` from the rows of `table`.
pub(super) fn gathered(ids: TensorType, table: TensorType) -> Option<OutputTypes> {
    let [_, row @ ..] = table.float_dims()? else { return None };
    let dims = [ids.shape.dims(), row].concat();
    (is_ids(ids) && dims.len() <= MAX_RANK).then(|| one(DType::F32, PartialShape::new(&dims)))
}

/// Whether `values` and `ids` are rows of `table` and their numbers.
pub(super) fn are_slices(values: TensorType, ids: TensorType, table: TensorType) -> bool {
    let (Some([count, row @ ..]), Some([_, of_table @ ..])) =
        (values.float_dims(), table.float_dims())
    else {
        return false;
    };
    let &[numbered] = ids.shape.dims() else { return false };
    let is_row = PartialShape::new(row).merge(&PartialShape::new(of_table)).is_some();
    is_ids(ids) && is_row && agree(*count, numbered).is_some()
}

fn is_ids(ids: TensorType) -> bool {
    matches!(ids.dtype, DType::I32 | DType::I64)
}

fn is_vector(x: TensorType) -> bool {
    x.shape.rank() == 1
}

fn unique(x: TensorType) -> Option<OutputTypes> {
    let values = TensorType::new(x.dtype, [None]);
    (is_ids(x) && is_vector(x)).then(|| smallvec![values, TensorType::new(DType::I32, x.shape)])
}

fn segment_sum(x: TensorType, ids: TensorType, rows: Option<usize>) -> Option<OutputTypes> {
    let dims = x.float_dims()?;
    let rank = ids.shape.rank();
    if !is_ids(ids) || rank > dims.len() || (rank == 0 && dims.len() >= MAX_RANK) {
        return None;
    }
    let (numbered, row) = dims.split_at(rank);
    PartialShape::new(numbered).merge(&ids.shape)?;
    Some(one(DType::F32, PartialShape::new(&[&[rows], row].concat())))
}

fn shard_ids(ids: TensorType, shards: usize) -> Option<OutputTypes> {
    let each = |dtype| std::iter::repeat_n(TensorType::new(dtype, [None]), shards);
    (is_ids(ids) && is_vector(ids)).then(|| each(ids.dtype).chain(each(DType::I32)).collect())
}

fn stitch(inputs: &[TensorType]) -> Option<OutputTypes> {
    let (positions, rows) = inputs.split_at(inputs.len() / 2);
    let [_, row @ ..] = rows.first()?.float_dims()? else { return None };
    let (mut count, mut row) = (Some(0), PartialShape::new(row));
    if positions.len() != rows.len() {
        return None;
    }
    for (positions, rows) in positions.iter().zip(rows) {
        let (&[placed], [given, more @ ..]) = (positions.shape.dims(), rows.float_dims()?) else {
            return None;
        };
        row = row.merge(&PartialShape::new(more))?;
        let here = agree(placed, *given)?;
        count = count.zip(here).map(|(count, here)| count + here);
        if positions.dtype != DType::I32 {
            return None;
        }
    }
    Some(one(DType::F32, PartialShape::new(&[&[count], row.dims()].concat())))
}

fn stitch_grad(gradient: TensorType, positions: &[TensorType]) -> Option<OutputTypes> {
    let [_, row @ ..] = gradient.float_dims()? else { return None };
    let rows = |positions: &TensorType| {
        let &[count] = positions.shape.dims() else { return None };
        let is_i32 = positions.dtype == DType::I32;
        is_i32.then(|| TensorType::new(DType::F32, PartialShape::new(&[&[count], row].concat())))
    };
    positions.iter().map(rows).collect()
}
