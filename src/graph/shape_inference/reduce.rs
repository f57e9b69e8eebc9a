//! The outputs of reductions and their gradients.

use smallvec::{SmallVec, smallvec};

use super::{OutputTypes, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::{Reduce, Reduction};
use crate::tensor::{DType, PartialShape};

/// Whether kernels compute with elements of this type.
pub(super) fn is_numeric(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// Whether kernels compute with elements of this type as real numbers.
pub(super) fn is_real(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// The outputs of [`Op::Reduce`](crate::graph::Op::Reduce) for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Reduce, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let truth = matches!(op.reduction, Reduction::Any | Reduction::All);
    let outputs = match inputs {
        [x] if if truth { x.dtype == DType::Bool } else { is_numeric(x.dtype) } => {
            reduced(op, x.shape).map(|shape| one(x.dtype, shape))
        }
        _ => None,
    };
    let what = if truth { "one bool" } else { "one f32, f64, i32 or i64" };
    outputs.ok_or_else(|| refused(&format!("{what} with the axes {}", op.axes), inputs))
}

/// The outputs of [`Op::ReduceGrad`](crate::graph::Op::ReduceGrad) for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer_grad(op: &Reduce, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let extreme = matches!(op.reduction, Reduction::Max | Reduction::Min);
    let outputs = match inputs {
        [dy, x, y @ ..] if is_real(x.dtype) && y.len() == usize::from(extreme) => {
            let fits = |value: &TensorType| {
                value.dtype == x.dtype
                    && reduced(op, x.shape).is_some_and(|shape| shape.merge(&value.shape).is_some())
            };
            (fits(dy) && y.iter().all(fits)).then(|| smallvec![*x])
        }
        _ => None,
    };
    outputs.ok_or_else(|| {
        refused("the gradient of a reduction, and what was reduced, f32 or f64", inputs)
    })
}

/// The shape that a reduction leaves of `shape`; `None` if an axis does not exist.
fn reduced(op: &Reduce, shape: PartialShape) -> Option<PartialShape> {
    if op.axes.iter().any(|axis| axis >= shape.rank()) {
        return None;
    }
    let left =
        shape.dims().iter().enumerate().filter_map(|(axis, dim)| match op.axes.contains(axis) {
            true => op.keep_dims.then_some(Some(1)),
            false => Some(*dim),
        });
    Some(PartialShape::new(&left.collect::<SmallVec<[_; 8]>>()))
}
