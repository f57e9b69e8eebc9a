//! Batch and layer normalisation, and dropout.
//!
//! A matrix here is row-major, of as many columns as `scale` has values. Sums over rows go from block to
//! block of rows, whose size depends on the columns alone; within a block from its first row to its last.

use rayon::prelude::*;

use super::parallel::{CHUNK, PARALLEL_FROM, for_chunks, vectorised};
use super::random::{Key, uniform};
use super::reduce::fold;

/// What a batch was normalised by: for each column its mean and its variance, that of the batch itself.
pub(crate) struct Moments {
    pub(crate) mean: Vec<f32>,
    pub(crate) variance: Vec<f32>,
}

/// The mean and the variance of each column of `x`, in two passes.
pub(crate) fn moments(x: &[f32], columns: usize) -> Moments {
    let rows = (x.len() / columns.max(1)) as f32;
    let mut mean = column_sums(x, columns, |x, out| out.iter_mut().zip(x).for_each(|(out, x)| *out += x));
    mean.iter_mut().for_each(|mean| *mean /= rows);
    let mut variance = column_sums(x, columns, |x, out| {
        out.iter_mut().zip(x).zip(&mean).for_each(|((out, x), mean)| *out += (x - mean) * (x - mean));
    });
    variance.iter_mut().for_each(|variance| *variance /= rows);
    Moments { mean, variance }
}

/// `out = (x - mean) / √(variance + epsilon) * scale + offset`, column by column.
pub(crate) fn batch(x: &[f32], of: &Moments, epsilon: f32, scale: &[f32], offset: &[f32], out: &mut [f32]) {
    // A factor and a term for each column.
    let factor: Vec<f32> =
        of.variance.iter().zip(scale).map(|(variance, scale)| scale / (variance + epsilon).sqrt()).collect();
    let term: Vec<f32> =
        offset.iter().zip(&of.mean).zip(&factor).map(|((offset, mean), factor)| offset - mean * factor).collect();
    let columns = scale.len().max(1);
    for_chunks(out, columns, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
                let columns = out.iter_mut().zip(x).zip(&factor).zip(&term);
                columns.for_each(|(((out, x), factor), term)| *out = x * factor + term);
            }
        });
    });
}

/// The gradients of [`batch`]: by `x` into `dx`; returned are those by the scale and by the offset.
pub(crate) fn batch_grad(
    dy: &[f32],
    x: &[f32],
    of: &Moments,
    epsilon: f32,
    scale: &[f32],
    dx: &mut [f32],
) -> (Vec<f32>, Vec<f32>) {
    let columns = scale.len().max(1);
    let rows = (x.len() / columns) as f32;
    let inverse: Vec<f32> = of.variance.iter().map(|variance| 1.0 / (variance + epsilon).sqrt()).collect();
    let d_offset = column_sums(dy, columns, |dy, out| out.iter_mut().zip(dy).for_each(|(out, dy)| *out += dy));
    let mut d_scale = column_sums_of_two(dy, x, columns, |dy, x, out| {
        out.iter_mut().zip(dy).zip(x).zip(&of.mean).for_each(|(((out, dy), x), mean)| *out += dy * (x - mean));
    });
    d_scale.iter_mut().zip(&inverse).for_each(|(sum, inverse)| *sum *= inverse);
    // dx = factor (dy - d_offset / n - (x - mean) slope)
    let factor: Vec<f32> = scale.iter().zip(&inverse).map(|(scale, inverse)| scale * inverse).collect();
    let slope: Vec<f32> = d_scale.iter().zip(&inverse).map(|(sum, inverse)| sum * inverse / rows).collect();
    let level: Vec<f32> = d_offset.iter().map(|sum| sum / rows).collect();
    for_chunks(dx, columns, |start, dx| {
        let (dy, x) = (&dy[start..][..dx.len()], &x[start..][..dx.len()]);
        vectorised(|| {
            let rows = dx.chunks_exact_mut(columns).zip(dy.chunks_exact(columns)).zip(x.chunks_exact(columns));
            for ((dx, dy), x) in rows {
                for c in 0..columns {
                    dx[c] = factor[c] * (dy[c] - level[c] - (x[c] - of.mean[c]) * slope[c]);
                }
            }
        });
    });
    (d_scale, d_offset)
}

/// `out = (x - mean) / √(variance + epsilon) * scale + offset`, where mean and variance are those of the row.
pub(crate) fn layer(x: &[f32], epsilon: f32, scale: &[f32], offset: &[f32], out: &mut [f32]) {
    let columns = scale.len().max(1);
    for_chunks(out, columns, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| {
            for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
                let (mean, inverse) = row_moments(x, epsilon, out);
                for c in 0..columns {
                    out[c] = (x[c] - mean) * inverse * scale[c] + offset[c];
                }
            }
        });
    });
}

/// The gradients of [`layer`]: by `x` into `dx`; returned are those by the scale and by the offset.
pub(crate) fn layer_grad(dy: &[f32], x: &[f32], epsilon: f32, scale: &[f32], dx: &mut [f32]) -> (Vec<f32>, Vec<f32>) {
    let columns = scale.len().max(1);
    let d_offset = column_sums(dy, columns, |dy, out| out.iter_mut().zip(dy).for_each(|(out, dy)| *out += dy));
    let d_scale = column_sums_of_two(dy, x, columns, |dy, x, out| {
        let (mean, inverse) = row_moments(x, epsilon, &mut vec![0.0; columns]);
        out.iter_mut().zip(dy).zip(x).for_each(|((out, dy), x)| *out += dy * (x - mean) * inverse);
    });
    for_chunks(dx, columns, |start, dx| {
        let (dy, x) = (&dy[start..][..dx.len()], &x[start..][..dx.len()]);
        let rows = dx.chunks_exact_mut(columns).zip(dy.chunks_exact(columns)).zip(x.chunks_exact(columns));
        let mut scratch = vec![0.0; columns];
        vectorised(|| {
            for ((dx, dy), x) in rows {
                let (mean, inverse) = row_moments(x, epsilon, dx);
                // The scaled gradient, then its product with what was normalised.
                dx.iter_mut().zip(dy).zip(scale).for_each(|((dx, dy), scale)| *dx = dy * scale);
                let level = fold(dx, 0.0, |a, b| a + b) / columns as f32;
                for c in 0..columns {
                    scratch[c] = dx[c] * (x[c] - mean) * inverse;
                }
                let slope = fold(&scratch, 0.0, |a, b| a + b) / columns as f32;
                for c in 0..columns {
                    dx[c] = inverse * (dx[c] - level - (x[c] - mean) * inverse * slope);
                }
            }
        });
    });
    (d_scale, d_offset)
}

/// The mean of a row, and the inverse of its standard deviation; writes over `scratch`, as long as the row.
#[inline(always)]
fn row_moments(x: &[f32], epsilon: f32, scratch: &mut [f32]) -> (f32, f32) {
    let columns = x.len() as f32;
    let mean = fold(x, 0.0, |a, b| a + b) / columns;
    scratch.iter_mut().zip(x).for_each(|(square, x)| *square = (x - mean) * (x - mean));
    let variance = fold(scratch, 0.0, |a, b| a + b) / columns;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// The elements of `x` that chance keeps, scaled by `1 / (1 - rate)`, and 0 for the others.
///
/// Which are kept depends on the key alone; the gradient is the same of the gradient.
pub(crate) fn dropout(x: &[f32], key: Key, rate: f32, out: &mut [f32]) {
    uniform(key, 0.0, 1.0, out);
    let scale = 1.0 / (1.0 - rate);
    for_chunks(out, 1, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| out.iter_mut().zip(x).for_each(|(out, x)| *out = if *out >= rate { x * scale } else { 0.0 }));
    });
}

/// The sums over rows of what `add` adds of each to the sums so far.
fn column_sums(x: &[f32], columns: usize, add: impl Fn(&[f32], &mut [f32]) + Sync) -> Vec<f32> {
    column_sums_of_two(x, x, columns, |x, _, out| add(x, out))
}

/// The same of the rows of two matrices of one shape.
fn column_sums_of_two(
    a: &[f32],
    b: &[f32],
    columns: usize,
    add: impl Fn(&[f32], &[f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    if columns == 0 || a.is_empty() {
        return sums;
    }
    assert!(a.len() == b.len() && a.len().is_multiple_of(columns), "column sums need whole rows");
    let block = (CHUNK / columns).max(1) * columns;
    let of_block = |out: &mut [f32], a: &[f32], b: &[f32]| {
        vectorised(|| {
            let rows = a.chunks_exact(columns).zip(b.chunks_exact(columns));
            rows.for_each(|(a, b)| add(a, b, out));
        });
    };
    let mut partial = vec![0.0; a.len().div_ceil(block) * columns];
    if a.len() < PARALLEL_FROM {
        let blocks = partial.chunks_exact_mut(columns).zip(a.chunks(block).zip(b.chunks(block)));
        blocks.for_each(|(out, (a, b))| of_block(out, a, b));
    } else {
        let blocks = partial.par_chunks_exact_mut(columns).zip(a.par_chunks(block).zip(b.par_chunks(block)));
        blocks.for_each(|(out, (a, b))| of_block(out, a, b));
    }
    for partial in partial.chunks_exact(columns) {
        sums.iter_mut().zip(partial).for_each(|(sum, partial)| *sum += partial);
    }
    sums
}
