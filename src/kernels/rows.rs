//! Kernels on the rows of a row-major matrix: a bias, its gradient, a factor a row.

use rayon::prelude::*;

use super::parallel::{CHUNK, PARALLEL_FROM, for_chunks, vectorised};
use crate::tensor::{Shape, Tensor};

/// `out[r, c] = x[r, c] + bias[c]` (TensorFlow `BiasAdd`).
pub(crate) fn bias_add(x: &[f32], bias: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "a bias keeps the shape of what it is added to");
    if out.is_empty() {
        return;
    }
    let columns = bias.len();
    assert!(columns > 0 && x.len().is_multiple_of(columns), "a bias has one value a column");
    for_chunks(out, columns, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
                out.iter_mut().zip(x).zip(bias).for_each(|((out, x), bias)| *out = x + bias);
            }
        });
    });
}

/// `out[c]` = the sum of `x[r, c]` over the rows `r` (TensorFlow `BiasAddGrad`, `Sum` over axis 0).
///
/// Order: the rows are cut into blocks of as many rows as have [`CHUNK`] elements; a block is summed
/// from its first row to its last, then the blocks' sums are.
pub(crate) fn bias_add_grad(x: &[f32], out: &mut [f32]) {
    let columns = out.len();
    if columns == 0 {
        return assert!(x.is_empty(), "a matrix without columns has no elements");
    }
    assert!(x.len().is_multiple_of(columns), "column sums need whole rows");
    let block = (CHUNK / columns).max(1) * columns;
    if x.len() <= block {
        return sum_rows(x, out);
    }
    let mut partial = Tensor::uninitialised::<f32>(Shape::from([x.len().div_ceil(block), columns]));
    let partial = partial.make_mut::<f32>();
    if x.len() < PARALLEL_FROM {
        partial.chunks_exact_mut(columns).zip(x.chunks(block)).for_each(|(out, x)| sum_rows(x, out));
    } else {
        partial.par_chunks_exact_mut(columns).zip(x.par_chunks(block)).for_each(|(out, x)| sum_rows(x, out));
    }
    sum_rows(partial, out);
}

/// The column sums, from the first row to the last.
fn sum_rows(x: &[f32], out: &mut [f32]) {
    vectorised(|| {
        out.fill(0.0);
        for row in x.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
        }
    });
}

/// `out[r, c] = x[r, c] * factors[r]`.
pub(crate) fn scale_rows(x: &[f32], factors: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "a factor a row keeps the shape");
    if out.is_empty() {
        return;
    }
    assert!(!factors.is_empty() && x.len().is_multiple_of(factors.len()), "there is one factor a row");
    let columns = x.len() / factors.len();
    for_chunks(out, columns, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            let rows = out.chunks_exact_mut(columns).zip(x.chunks_exact(columns));
            for ((out, x), factor) in rows.zip(&factors[start / columns..]) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out = x * factor);
            }
        });
    });
}
