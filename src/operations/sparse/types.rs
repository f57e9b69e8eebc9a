//! The types that operations on numbered rows give for those of their inputs.

use smallvec::smallvec;

use crate::graph::{OutputTypes, TensorType, agree, one};
use crate::operations::MAX_PARTS;
use crate::operations::types::typed;
use crate::tensor::{DType, PartialShape};

pub(super) fn is_vector(x: TensorType) -> bool {
    x.shape.rank() == 1
}

pub(super) fn unique_types(x: TensorType) -> Option<OutputTypes> {
    let values = TensorType::new(x.dtype, [None]);
    (x.dtype.is_integer() && is_vector(x))
        .then(|| smallvec![values, TensorType::new(DType::I32, x.shape)])
}

pub(super) fn difference_types(x: TensorType, y: TensorType) -> Option<OutputTypes> {
    let (&[sets, _], &[others, _]) = (x.shape.dims(), y.shape.dims()) else { return None };
    agree(sets, others)?;
    (x.dtype.is_integer() && x.dtype == y.dtype).then(|| {
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
    if !ids.dtype.is_integer() || rank > dims.len() {
        return None;
    }
    let (numbered, row) = dims.split_at(rank);
    PartialShape::new(numbered).merge(&ids.shape)?;
    typed(DType::F32, &[&[rows], row].concat())
}

pub(super) fn shard_types(ids: TensorType, shards: usize) -> Option<OutputTypes> {
    let each = |dtype| std::iter::repeat_n(TensorType::new(dtype, [None]), shards);
    (ids.dtype.is_integer() && is_vector(ids) && (1..=MAX_PARTS).contains(&shards))
        .then(|| each(ids.dtype).chain(each(DType::I32)).collect())
}

/// The types of so many lists of the rows of `x`, each of which has a part.
pub(super) fn partition(x: TensorType, part: TensorType, parts: usize) -> Option<OutputTypes> {
    if part.dtype != DType::I32 || !(1..=MAX_PARTS).contains(&parts) {
        return None;
    }
    let (numbered, row) = x.shape.dims().split_at_checked(part.shape.rank())?;
    PartialShape::new(numbered).merge(&part.shape)?;
    let list = TensorType::new(x.dtype, PartialShape::checked(&[&[None], row].concat())?);
    Some(std::iter::repeat_n(list, parts).collect())
}

pub(super) fn stitch(inputs: &[TensorType]) -> Option<OutputTypes> {
    let (positions, rows) = inputs.split_at(inputs.len() / 2);
    let first = rows.first()?;
    let [_, row @ ..] = first.shape.dims() else { return None };
    let (mut count, mut row) = (Some(0), PartialShape::new(row));
    if positions.len() != rows.len() {
        return None;
    }
    for (positions, rows) in positions.iter().zip(rows) {
        let (&[placed], [given, more @ ..]) = (positions.shape.dims(), rows.shape.dims()) else {
            return None;
        };
        row = row.merge(&PartialShape::new(more))?;
        let here = agree(placed, *given)?;
        count = count.zip(here).map(|(count, here)| count + here);
        if (positions.dtype, rows.dtype) != (DType::I32, first.dtype) {
            return None;
        }
    }
    Some(one(first.dtype, PartialShape::new(&[&[count], row.dims()].concat())))
}

pub(super) fn stitch_grad(gradient: TensorType, positions: &[TensorType]) -> Option<OutputTypes> {
    let [_, row @ ..] = gradient.shape.dims() else { return None };
    let rows = |positions: &TensorType| {
        let &[count] = positions.shape.dims() else { return None };
        let shape = PartialShape::new(&[&[count], row].concat());
        (positions.dtype == DType::I32).then(|| TensorType::new(gradient.dtype, shape))
    };
    positions.iter().map(rows).collect()
}
