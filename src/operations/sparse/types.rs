//! The types that operations on numbered rows give for those of their inputs.

use smallvec::smallvec;

use crate::graph::{OutputTypes, TensorType, agree, one};
use crate::operations::types::{is_index, typed};
use crate::tensor::{DType, PartialShape};

pub(super) fn is_vector(x: TensorType) -> bool {
    x.shape.rank() == 1
}

pub(super) fn unique_types(x: TensorType) -> Option<OutputTypes> {
    let values = TensorType::new(x.dtype, [None]);
    (is_index(x.dtype) && is_vector(x))
        .then(|| smallvec![values, TensorType::new(DType::I32, x.shape)])
}

pub(super) fn difference_types(x: TensorType, y: TensorType) -> Option<OutputTypes> {
    let (&[sets, _], &[others, _]) = (x.shape.dims(), y.shape.dims()) else { return None };
    agree(sets, others)?;
    (is_index(x.dtype) && x.dtype == y.dtype).then(|| {
        smallvec![
            TensorType::new(DType::I64, [None, Some(2)]),
            TensorType::new(x.dtype, [None]),
            TensorType::new(DType::I64, [Some(2)]),
        ]
    })
}

pub(super) fn segment_sum(
    x: TensorType,
    ids: TensorType,
    rows: Option<usize>,
) -> Option<OutputTypes> {
    let dims = x.float_dims()?;
    let rank = ids.shape.rank();
    if !is_index(ids.dtype) || rank > dims.len() {
        return None;
    }
    let (numbered, row) = dims.split_at(rank);
    PartialShape::new(numbered).merge(&ids.shape)?;
    typed(DType::F32, &[&[rows], row].concat())
}

pub(super) fn shard_types(ids: TensorType, shards: usize) -> Option<OutputTypes> {
    let each = |dtype| std::iter::repeat_n(TensorType::new(dtype, [None]), shards);
    (is_index(ids.dtype) && is_vector(ids))
        .then(|| each(ids.dtype).chain(each(DType::I32)).collect())
}

pub(super) fn stitch(inputs: &[TensorType]) -> Option<OutputTypes> {
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

pub(super) fn stitch_grad(gradient: TensorType, positions: &[TensorType]) -> Option<OutputTypes> {
    let [_, row @ ..] = gradient.float_dims()? else { return None };
    let rows = |positions: &TensorType| {
        let &[count] = positions.shape.dims() else { return None };
        let is_i32 = positions.dtype == DType::I32;
        is_i32.then(|| TensorType::new(DType::F32, PartialShape::new(&[&[count], row].concat())))
    };
    positions.iter().map(rows).collect()
}
