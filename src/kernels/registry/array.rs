//! The kernels of operations that move elements.

use smallvec::smallvec;

use super::{Cost, KernelError, Known, Outputs};
use crate::graph::Array;
use crate::tensor::{Shape, Tensor};

/// As [`super::call()`].
pub(super) fn call(op: &Array, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    Ok(match (op, inputs) {
        (Array::Reshape(shape), [x]) => {
            let known: usize = shape.dims().iter().flatten().product();
            let dims: Vec<usize> =
                shape.dims().iter().map(|dim| dim.unwrap_or_else(|| x.shape().elements() / known)).collect();
            smallvec![x.reshaped(Shape::new(&dims))]
        }
        (Array::ReshapeLike, [x, like]) => smallvec![x.reshaped(like.shape())],
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    })
}

/// As [`super::cost()`].
pub(super) fn cost(op: &Array, _inputs: &[Known], _outputs: &[Known]) -> Cost {
    match op {
        Array::Reshape(_) | Array::ReshapeLike => Cost::default(),
    }
}
