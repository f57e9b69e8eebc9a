//! The outputs of normalisation and dropout.

use smallvec::smallvec;

use super::reduce::is_real;
use super::{OutputTypes, agree, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Norm;
use crate::tensor::{DType, PartialShape, Shape};

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Norm, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let (outputs, needs) = match (op, inputs) {
        (Norm::Batch { .. }, [x, channels @ ..]) if channels.len() == 2 => (
            normal(*x, channels).map(|(x, channel)| smallvec![x, channel, channel, channel]),
            "f32 […, n], and a scale and an offset [n]",
        ),
        (Norm::BatchInference { .. }, [x, channels @ ..]) if channels.len() == 4 => (
            normal(*x, channels).map(|(x, _)| smallvec![x]),
            "f32 […, n], and a scale, an offset, a mean and a variance [n]",
        ),
        (Norm::BatchGrad { .. }, [dy, x, channels @ ..]) if channels.len() == 3 => (
            normal(*x, channels)
                .filter(|(x, _)| fits(*dy, *x))
                .map(|(x, channel)| smallvec![x, channel, channel]),
            "f32 […, n], two of one shape, and a scale, a mean and a variance [n]",
        ),
        (Norm::Layer { .. }, [x, channels @ ..]) if channels.len() == 2 => (
            normal(*x, channels).map(|(x, _)| smallvec![x, rows(x), rows(x)]),
            "f32 […, n], and a scale and an offset [n]",
        ),
        (Norm::LayerGrad, [dy, x, scale, moments @ ..]) if moments.len() == 2 => (
            normal(*x, &[*scale])
                .filter(|(x, _)| {
                    fits(*dy, *x) && moments.iter().all(|moment| fits(*moment, rows(*x)))
                })
                .map(|(x, channel)| smallvec![x, channel, channel]),
            "f32 […, n], two of one shape, a scale [n], and a mean and a deviation for each row",
        ),
        (Norm::Dropout { .. }, [x, counter]) => (
            (is_real(x.dtype) && *counter == TensorType::new(DType::I64, Shape::SCALAR))
                .then(|| smallvec![*x]),
            "f32 or f64, and an i64 scalar that counts the steps",
        ),
        _ => (None, "another number of inputs"),
    };
    outputs.ok_or_else(|| refused(needs, inputs))
}

fn fits(a: TensorType, b: TensorType) -> bool {
    a.dtype == b.dtype && a.shape.merge(&b.shape).is_some()
}

/// The type of `x` and that of a value for each of its channels, as far as `x` and `channels` tell
/// them.
fn normal(x: TensorType, channels: &[TensorType]) -> Option<(TensorType, TensorType)> {
    let (last, rows) = x.float_dims()?.split_last()?;
    let mut width = *last;
    for channel in channels {
        let &[own] = channel.float_dims()? else { return None };
        width = agree(width, own)?;
    }
    let shape = PartialShape::new(&[rows, &[width]].concat());
    Some((TensorType { shape, ..x }, TensorType::new(DType::F32, [width])))
}

/// The type of one value for each row.
fn rows(x: TensorType) -> TensorType {
    let dims = x.shape.dims();
    TensorType::new(x.dtype, PartialShape::new(&dims[..dims.len() - 1]))
}
