//! What operations that compare elements along an axis give.

use smallvec::{SmallVec, smallvec};

use super::reduce::{is_numeric, is_real};
use super::{OutputTypes, agree, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Order;
use crate::tensor::{DType, PartialShape};

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] where they don't fit.
pub(super) fn infer(op: &Order, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Order::ArgMax { axis, dtype } | Order::ArgMin { axis, dtype }, [x]) => (
            position(*x, *axis).filter(|_| is_index(*dtype)).map(|shape| one(*dtype, shape)),
            format!("numbers with an axis {axis} that is not empty, and positions of i32 or i64"),
        ),
        (Order::TopK { k }, [x]) => {
            (top(*x, *k), format!("numbers whose last axis has {k} or more"))
        }
        (Order::TopKGrad, [dy, positions, x]) => {
            let fits = is_real(x.dtype) && dy.dtype == x.dtype && positions.dtype == DType::I32;
            let shapes =
                dy.shape.merge(&positions.shape).is_some() && dy.shape.rank() == x.shape.rank();
            (
                (fits && shapes).then(|| smallvec![*x]),
                "a gradient, the position of each and what they are in".to_owned(),
            )
        }
        (Order::InTopK { .. }, [predictions, targets]) => (
            in_top(*predictions, *targets),
            "f32 predictions [rows, classes] and i32 or i64 targets [rows]".to_owned(),
        ),
        _ => (None, "another number of inputs".to_owned()),
    };
    outputs.ok_or_else(|| refused(&needs, inputs))
}

fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

fn position(x: TensorType, axis: usize) -> Option<PartialShape> {
    let mut dims: SmallVec<[_; 8]> = x.shape.dims().into();
    if axis >= dims.len() || dims[axis] == Some(0) || !is_numeric(x.dtype) {
        return None;
    }
    dims.remove(axis);
    Some(PartialShape::new(&dims))
}

fn top(x: TensorType, k: usize) -> Option<OutputTypes> {
    let mut dims: SmallVec<[_; 8]> = x.shape.dims().into();
    let last = dims.last_mut()?;
    if last.is_some_and(|last| last < k) || !is_numeric(x.dtype) {
        return None;
    }
    *last = Some(k);
    let shape = PartialShape::new(&dims);
    Some(smallvec![TensorType::new(x.dtype, shape), TensorType::new(DType::I32, shape)])
}

fn in_top(predictions: TensorType, targets: TensorType) -> Option<OutputTypes> {
    let (&[rows, _], &[targeted]) = (predictions.float_dims()?, targets.shape.dims()) else {
        return None;
    };
    let rows = agree(rows, targeted)?;
    is_index(targets.dtype).then(|| one(DType::Bool, [rows]))
}
