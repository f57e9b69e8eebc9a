//! What operations that find elements by indices give.

use smallvec::smallvec;

use super::array::{Dims, inserted, is_float, is_index, is_number, typed};
use super::{OutputTypes, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Indexed;
use crate::tensor::PartialShape;

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] where they don't fit.
pub(super) fn infer(op: &Indexed, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Indexed::Gather { axis }, [params, indices]) => {
            (gather(*axis, *params, *indices), format!("an axis {axis} and i32 or i64 indices"))
        }
        (Indexed::GatherGrad { axis }, [dy, params, indices]) => (
            gather_grad(*axis, *dy, *params, *indices),
            format!(
                "the gradient of what was gathered along axis {axis}, that, and i32 or i64 indices"
            ),
        ),
        (Indexed::GatherNd, [params, indices]) => (
            slices_at(params.shape, *indices).and_then(|dims| typed(params.dtype, &dims)),
            format!("{ND}, and what they are gathered from"),
        ),
        (Indexed::ScatterNd(shape), [indices, updates]) => (
            scattered(*updates, (*shape).into(), *indices).filter(|_| is_number(updates.dtype)),
            format!("{ND}, and a number for each that they find in the shape {shape}"),
        ),
        (Indexed::TensorScatterAdd | Indexed::TensorScatterUpdate, [x, indices, updates]) => {
            let can_add = *op == Indexed::TensorScatterUpdate || is_number(x.dtype);
            let outputs = scattered(*updates, x.shape, *indices)
                .filter(|_| can_add && x.dtype == updates.dtype);
            (
                outputs,
                format!(
                    "{ND} after a value, and updates of its type for each that they find in it"
                ),
            )
        }
        (Indexed::OneHot { depth, axis, on, off }, [indices]) => {
            let are_scalars =
                on.dtype() == off.dtype() && on.shape().rank() + off.shape().rank() == 0;
            let dims = indices.shape.dims();
            let fits = are_scalars && is_index(indices.dtype) && *axis <= dims.len();
            let outputs = fits
                .then(|| inserted(dims, *axis, Some(*depth)))
                .and_then(|dims| typed(on.dtype(), &dims));
            (
                outputs,
                format!(
                    "i32 or i64 indices with room for an axis before axis {axis}, and two scalars \
                     of one type"
                ),
            )
        }
        _ => (None, "another number of inputs".to_owned()),
    };
    outputs.ok_or_else(|| refused(&needs, inputs))
}

const ND: &str =
    "i32 or i64 indices whose last dimension, of known size, is a position along the first axes";

fn gather(axis: usize, params: TensorType, indices: TensorType) -> Option<OutputTypes> {
    let (before, after) = (params.shape.dims().get(..axis)?, params.shape.dims().get(axis + 1..)?);
    let dims: Dims = [before, indices.shape.dims(), after].concat().into();
    is_index(indices.dtype).then(|| typed(params.dtype, &dims))?
}

fn gather_grad(
    axis: usize,
    dy: TensorType,
    params: TensorType,
    indices: TensorType,
) -> Option<OutputTypes> {
    let gathered = gather(axis, params, indices)?;
    let fits =
        is_float(dy) && dy.dtype == params.dtype && gathered[0].shape.merge(&dy.shape).is_some();
    fits.then(|| smallvec![params])
}

/// The dimensions of all slices of `shape` that `indices` find.
fn slices_at(shape: PartialShape, indices: TensorType) -> Option<Dims> {
    let (Some(depth), positions) = indices.shape.dims().split_last()? else { return None };
    let slice = shape.dims().get(*depth..)?;
    is_index(indices.dtype).then(|| [positions, slice].concat().into())
}

/// The result of putting `updates` into `shape`.
fn scattered(updates: TensorType, shape: PartialShape, indices: TensorType) -> Option<OutputTypes> {
    let slices = PartialShape::checked(&slices_at(shape, indices)?)?;
    slices.merge(&updates.shape).map(|_| one(updates.dtype, shape))
}
