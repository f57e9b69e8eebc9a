//! Rows of a variable, and their numbers.

use super::{OutputTypes, agree, one};
use crate::graph::TensorType;
use crate::tensor::{DType, PartialShape};

/// The output of a gather of `ids` from the rows of `table`.
pub(super) fn gathered(ids: TensorType, table: TensorType) -> Option<OutputTypes> {
    let [_, row @ ..] = table.float_dims()? else { return None };
    let dims = [ids.shape.dims(), row].concat();
    let shape = PartialShape::checked(&dims).filter(|_| is_ids(ids))?;
    Some(one(DType::F32, shape))
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
    ids.dtype.is_integer()
}
