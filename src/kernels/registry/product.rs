//! The kernels of matrix products.

use smallvec::SmallVec;

use super::reduce::by_float;
use super::{Cost, Known, Outputs, bytes, one};
use crate::kernels::batch_matmul::{Factor, batch_matmul};
use crate::kernels::matmul::MatMul;
use crate::tensor::{DType, Shape, Tensor};

/// The product of each pair of matrices, of either transposed where asked.
pub(super) fn call(a: &Tensor, b: &Tensor, transpose_a: bool, transpose_b: bool) -> Outputs {
    let dims = dims(a.shape(), b.shape(), transpose_a, transpose_b);
    let (a_shape, b_shape) = (a.shape(), b.shape());
    let ((a_batch, _), (b_batch, _)) = (parts(&a_shape), parts(&b_shape));
    let batch = broadcast(a_batch, b_batch);
    let filled: SmallVec<[usize; 6]> = batch.iter().copied().chain([dims.m, dims.n]).collect();
    let shape = Shape::new(&filled);
    by_float!(a.dtype(), T => one::<T>(shape, |out| {
        if batch.is_empty() {
            return T::product(a.slice(), b.slice(), out, dims);
        }
        let pairs: Vec<_> = places(&batch, a_batch).zip(places(&batch, b_batch)).collect();
        batch_matmul::<T>(a.slice(), b.slice(), out, dims, &pairs);
    }))
}

/// 2mkn flops for each product; every element of each operand once.
pub(super) fn cost(
    inputs: &[Known],
    outputs: &[Known],
    transpose_a: bool,
    transpose_b: bool,
) -> Cost {
    let dims = dims(inputs[0].1, inputs[1].1, transpose_a, transpose_b);
    let products = outputs[0].1.elements().checked_div(dims.m * dims.n).unwrap_or(0);
    Cost::matmul(dims, products, bytes(inputs) + bytes(outputs))
}

fn dims(a: Shape, b: Shape, transpose_a: bool, transpose_b: bool) -> MatMul {
    let ((_, [a0, a1]), (_, [b0, b1])) = (parts(&a), parts(&b));
    let (m, k) = if transpose_a { (a1, a0) } else { (a0, a1) };
    let n = if transpose_b { b0 } else { b1 };
    MatMul { m, k, n, transpose_a, transpose_b }
}

/// The dimensions before the matrices, and those of each matrix.
fn parts(shape: &Shape) -> (&[usize], [usize; 2]) {
    match shape.dims() {
        [batch @ .., rows, columns] => (batch, [*rows, *columns]),
        _ => panic!("shape inference lets only matrices through"),
    }
}

/// The dimensions that both can be repeated to fill.
fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let (more, fewer) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut dims = more.to_vec();
    let last = more.len() - fewer.len();
    dims[last..]
        .iter_mut()
        .zip(fewer)
        .filter(|(dim, _)| **dim == 1)
        .for_each(|(dim, fewer)| *dim = *fewer);
    dims
}

/// For each position within `batch`, that of what is repeated to fill it.
fn places(batch: &[usize], own: &[usize]) -> impl Iterator<Item = usize> {
    let mut axes: Vec<(usize, usize)> = batch.iter().map(|dim| (*dim, 0)).collect();
    let mut stride = 1;
    for ((_, step), own) in axes.iter_mut().rev().zip(own.iter().rev()) {
        *step = if *own == 1 { 0 } else { stride };
        stride *= own;
    }
    (0..batch.iter().product()).map(move |mut at: usize| {
        let mut place = 0;
        for (dim, step) in axes.iter().rev() {
            place += at % dim * step;
            at /= dim;
        }
        place
    })
}
