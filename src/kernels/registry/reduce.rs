//! The kernels of reductions.

use super::array::by_number;
use super::{Cost, Known, Outputs, bytes, one};
use crate::graph::{Reduce, Reduction};
use crate::kernels::{reduce, reduce_grad};
use crate::tensor::{DType, Shape, Tensor};

/// Runs `$body` with `$float` as the type of real numbers that `$dtype` is.
macro_rules! by_float {
    ($dtype:expr, $float:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $float = f32;
                $body
            }
            DType::F64 => {
                type $float = f64;
                $body
            }
            other => panic!(
                "shape inference lets no {other} through where real numbers are computed with"
            ),
        }
    };
}
pub(crate) use by_float;

/// Runs `$body` with `$integer` as the type of positions that `$dtype` is.
macro_rules! by_position {
    ($dtype:expr, $integer:ident => $body:expr) => {
        if $dtype == DType::I32 {
            type $integer = i32;
            $body
        } else {
            type $integer = i64;
            $body
        }
    };
}
pub(crate) use by_position;

/// The reduction of `x`.
pub(super) fn call(op: Reduce, x: &Tensor) -> Outputs {
    let (shape, axes) = (x.shape(), op.axes);
    let left = left_of(shape, op);
    match op.reduction {
        Reduction::Any | Reduction::All => {
            one(left, |out| reduce::truth(op.reduction, x.slice(), shape, axes, out))
        }
        _ => by_number!(x.dtype(), T => {
            one(left, |out| reduce::numbers::<T>(op.reduction, x.slice(), shape, axes, out))
        }),
    }
}

/// The gradient of a reduction.
pub(super) fn call_grad(op: Reduce, inputs: &[&Tensor]) -> Outputs {
    let (dy, x) = (inputs[0], inputs[1]);
    let (shape, axes) = (x.shape(), op.axes);
    by_float!(x.dtype(), T => one::<T>(shape, |out| match op.reduction {
        Reduction::Sum => reduce_grad::spread(dy.slice(), shape, axes, out),
        Reduction::Mean => reduce_grad::mean(dy.slice(), shape, axes, out),
        Reduction::Prod => reduce_grad::product(dy.slice(), x.slice(), shape, axes, out),
        _ => reduce_grad::extreme(dy.slice(), x.slice(), inputs[2].slice(), shape, axes, out),
    }))
}

/// A flop for each element that is read, or written where that are more; every element of each
/// operand once.
pub(crate) fn cost(inputs: &[Known], outputs: &[Known]) -> Cost {
    let most = inputs.iter().chain(outputs).map(|(_, shape)| shape.elements()).max();
    Cost { flops: most.unwrap_or(0) as u64, bytes: (bytes(inputs) + bytes(outputs)) as u64 }
}

fn left_of(shape: Shape, op: Reduce) -> Shape {
    let left =
        shape.dims().iter().enumerate().filter_map(|(axis, dim)| match op.axes.contains(axis) {
            true => op.keep_dims.then_some(1),
            false => Some(*dim),
        });
    Shape::new(&left.collect::<Vec<_>>())
}
