//! What normalisation and dropout give.

use smallvec::smallvec;

use super::{OutputTypes, agree, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Normalise;
use crate::tensor::{DType, PartialShape};

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] where they don't fit.
pub(super) fn infer(op: &Normalise, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Normalise::Batch { .. }, [x, scale, offset]) => (
            channels(x, &[scale, offset]).map(|channel| smallvec![*x, channel, channel]),
            "f32 of rank 2 or more, and a scale and an offset for each position of the last axis",
        ),
        (Normalise::Layer { .. }, [x, scale, offset]) => (
            channels(x, &[scale, offset]).map(|_| smallvec![*x]),
            "f32 of rank 2 or more, and a scale and an offset for each position of the last axis",
        ),
        (Normalise::BatchGrad { .. } | Normalise::LayerGrad { .. }, [dy, x, others @ ..]) => {
            let others: Vec<&TensorType> = others.iter().collect();
            let same = dy.dtype == x.dtype && dy.shape.merge(&x.shape).is_some();
            let given = channels(x, &others).filter(|_| same);
            (given.map(|channel| smallvec![*x, channel, channel]), "two f32 of one shape, and vectors of its last axis")
        }
        (Normalise::Dropout { .. }, [x, counter]) => {
            let fits = x.dtype == DType::F32 && counter.dtype == DType::I64 && counter.shape.rank() == 0;
            (fits.then(|| smallvec![*x]), "an f32 and an i64 scalar as counter")
        }
        _ => (None, "another number of inputs"),
    };
    outputs.ok_or_else(|| refused(needs, inputs))
}

/// The type of a vector of the last axis of `x`, which all of `vectors` are.
fn channels(x: &TensorType, vectors: &[&TensorType]) -> Option<TensorType> {
    let [_, .., last] = x.float_dims()? else { return None };
    let width = vectors.iter().try_fold(*last, |width, vector| match vector.float_dims()? {
        &[own] => agree(width, own),
        _ => None,
    })?;
    Some(TensorType::new(DType::F32, PartialShape::new(&[width])))
}
