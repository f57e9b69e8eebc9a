//! The kernels of operations that find elements by indices.

use smallvec::smallvec;

use super::array::{by_number, by_word, bytes, filled_in, inserted};
use super::{Cost, KernelError, Known, Outputs};
use crate::graph::Indexed;
use crate::kernels::indexed::{self, nd_positions, positions};
use crate::tensor::{DType, Shape, Tensor};

/// As [`super::call()`].
pub(super) fn call(op: &Indexed, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
    Ok(match (op, inputs) {
        (Indexed::Gather { axis }, [params, indices]) => {
            let (size, width) = along(params.shape(), *axis);
            let positions = positions(indices, size)?;
            let mut dims = params.shape().dims().to_vec();
            dims.splice(axis..=axis, indices.shape().dims().iter().copied());
            let shape = Shape::new(&dims);
            smallvec![gathered(params, size, &positions, width, shape)]
        }
        (Indexed::GatherGrad { axis }, [dy, params, indices]) => {
            let (size, width) = along(params.shape(), *axis);
            let positions = positions(indices, size)?;
            let mut out = Tensor::zeros(dy.dtype(), params.shape());
            by_number!(dy.dtype(), N => {
                indexed::scatter_add(dy.slice::<N>(), size, &positions, width, out.make_mut());
            });
            smallvec![out]
        }
        (Indexed::GatherNd, [params, indices]) => {
            let slices = Slices::of(params.shape(), indices)?;
            let mut dims = indices.shape().dims().to_vec();
            dims.pop();
            dims.extend_from_slice(&params.shape().dims()[slices.depth..]);
            let shape = Shape::new(&dims);
            smallvec![gathered(params, slices.count, &slices.positions, slices.width, shape)]
        }
        (Indexed::ScatterNd(shape), [indices, updates]) => {
            smallvec![added(Tensor::zeros(updates.dtype(), *shape), indices, updates)?]
        }
        (Indexed::TensorScatterAdd, [x, indices, updates]) => {
            smallvec![added((*x).clone(), indices, updates)?]
        }
        (Indexed::TensorScatterUpdate, [x, indices, updates]) => {
            let Slices { positions, width, .. } = Slices::of(x.shape(), indices)?;
            let mut out = (*x).clone();
            by_word!(x.dtype(), W => {
                indexed::scatter_update(updates.words::<W>(), &positions, width, out.words_mut());
            });
            smallvec![out]
        }
        (Indexed::OneHot { depth, axis, on, off }, [indices]) => {
            let inner = indices.shape().dims()[*axis..].iter().product();
            let shape = inserted(indices.shape(), *axis, *depth);
            smallvec![by_word!(on.dtype(), W => filled_in::<W>(on.dtype(), shape, |out| {
                let on_off = (on.words::<W>()[0], off.words::<W>()[0]);
                indexed::one_hot(indices, *depth, inner, on_off, out);
            }))]
        }
        (op, _) => panic!("{op:?} has no kernel for {} inputs", inputs.len()),
    })
}

/// The size of an axis, and how many elements there are at each of its positions.
fn along(shape: Shape, axis: usize) -> (usize, usize) {
    (shape.dims()[axis], shape.dims()[axis + 1..].iter().product())
}

/// What indices whose last dimension is a position along the first axes find.
struct Slices {
    /// How many axes the indices are positions along.
    depth: usize,
    /// How many slices there are to be found.
    count: usize,
    positions: Vec<usize>,
    /// The elements of each.
    width: usize,
}

impl Slices {
    fn of(shape: Shape, indices: &Tensor) -> Result<Self, KernelError> {
        let (rows, depth) = indices.shape().rows_and_columns();
        let (dims, rest) = shape.dims().split_at(depth);
        let (count, width) = (dims.iter().product(), rest.iter().product());
        let positions = if rows == 0 { Vec::new() } else { nd_positions(indices, dims)? };
        Ok(Self { depth, count, positions, width })
    }
}

fn gathered(
    params: &Tensor,
    size: usize,
    positions: &[usize],
    width: usize,
    shape: Shape,
) -> Tensor {
    by_word!(params.dtype(), W => filled_in::<W>(params.dtype(), shape, |out| {
        indexed::gather(params.words(), size, positions, width, out);
    }))
}

/// `x` and the updates added at the indices.
fn added(mut x: Tensor, indices: &Tensor, updates: &Tensor) -> Result<Tensor, KernelError> {
    let Slices { count, positions, width, .. } = Slices::of(x.shape(), indices)?;
    by_number!(x.dtype(), N => {
        indexed::scatter_add(updates.slice::<N>(), count, &positions, width, x.make_mut());
    });
    Ok(x)
}

/// As [`super::cost()`].
pub(super) fn cost(op: &Indexed, inputs: &[Known], outputs: &[Known]) -> Cost {
    let written: usize = outputs.iter().map(bytes).sum();
    match (op, inputs) {
        (Indexed::Gather { .. } | Indexed::GatherNd, [_, indices]) => {
            Cost::moved(bytes(indices) + 2 * written)
        }
        (Indexed::GatherGrad { .. }, [updates, _, indices])
        | (Indexed::ScatterNd(_), [indices, updates])
        | (Indexed::TensorScatterAdd, [_, indices, updates]) => {
            let (_, shape) = updates;
            // Each update reads and writes what it is added to.
            let moved = bytes(indices) + 3 * bytes(updates) + written;
            Cost { flops: shape.elements() as u64, ..Cost::moved(moved) }
        }
        (Indexed::TensorScatterUpdate, [_, indices, updates]) => {
            Cost::moved(bytes(indices) + 2 * bytes(updates) + 2 * written)
        }
        _ => Cost::moved(inputs.iter().map(bytes).sum::<usize>() + written),
    }
}
