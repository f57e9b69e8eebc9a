//! Kernels on the rows of a row-major matrix: a bias, its gradient, a factor a row.

use super::number::Float;
use super::parallel::{for_chunks, vectorised};
use super::reduce;

/// `out[r, c] = x[r, c] + bias[c]` (TensorFlow `BiasAdd`); a row is the last dimension of any
/// shape.
pub(crate) fn bias_add<T: Float>(x: &[T], bias: &[T], out: &mut [T]) {
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
                out.iter_mut().zip(x).zip(bias).for_each(|((out, x), bias)| *out = *x + *bias);
            }
        });
    });
}

/// `out[c]` = the sum of `x[r, c]` over the rows `r` (TensorFlow `BiasAddGrad`, `Sum` over axis 0).
///
/// Order: that of [`reduce`] for an axis that is not the last.
pub(crate) fn bias_add_grad<T: Float>(x: &[T], out: &mut [T]) {
    let columns = out.len();
    if columns == 0 {
        return assert!(x.is_empty(), "a matrix without columns has no elements");
    }
    assert!(x.len().is_multiple_of(columns), "column sums need whole rows");
    reduce::columns(x, T::ZERO, T::plus, out);
}

/// `out[r, c] = x[r, c] * factors[r]`.
pub(crate) fn scale_rows<T: Float>(x: &[T], factors: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "a factor a row keeps the shape");
    if out.is_empty() {
        return;
    }
    assert!(
        !factors.is_empty() && x.len().is_multiple_of(factors.len()),
        "there is one factor a row"
    );
    let columns = x.len() / factors.len();
    for_chunks(out, columns, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            let rows = out.chunks_exact_mut(columns).zip(x.chunks_exact(columns));
            for ((out, x), factor) in rows.zip(&factors[start / columns..]) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out = *x * *factor);
            }
        });
    });
}
