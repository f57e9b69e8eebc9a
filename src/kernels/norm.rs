//! Normalisation of f32: of the channels of a batch, and of the rows of a layer. Channels are the
//! columns of a matrix. Sums have the order of [`reduce`]; moments are computed in two passes, so
//! that a large mean costs no digits of the variance.

use super::parallel::{for_chunks, vectorised};
use super::reduce;
use crate::graph::{Axes, Reduction};
use crate::tensor::Shape;

/// The means of the columns of `x`, and their variances over the count.
pub(crate) fn column_moments(
    x: &[f32],
    mean: &mut [f32],
    variance: &mut [f32],
    scratch: &mut [f32],
) {
    let columns = mean.len();
    column_means(x, mean);
    for_each_row(scratch, columns, |row, out| {
        let pairs = x[row * columns..].iter().zip(&*mean);
        out.iter_mut().zip(pairs).for_each(|(out, (x, mean))| *out = (x - mean) * (x - mean));
    });
    column_means(scratch, variance);
}

/// `y = (x - mean) / sqrt(variance + epsilon) * scale + offset`, each of a column (TensorFlow
/// `FusedBatchNormV3`).
pub(crate) fn normalise_columns(
    x: &[f32],
    affine: [&[f32]; 2],
    moments: [&[f32]; 2],
    epsilon: f32,
    y: &mut [f32],
) {
    let ([scale, offset], [mean, variance]) = (affine, moments);
    let columns = scale.len();
    let factor: Vec<f32> =
        scale.iter().zip(variance).map(|(scale, v)| scale / (v + epsilon).sqrt()).collect();
    for_each_row(y, columns, |row, y| {
        let column = mean.iter().zip(&factor).zip(offset);
        for ((y, x), ((mean, factor), offset)) in y.iter_mut().zip(&x[row * columns..]).zip(column)
        {
            *y = (x - mean) * factor + offset;
        }
    });
}

/// The operands of a gradient of normalised columns.
pub(crate) struct ColumnsGrad<'a> {
    pub(crate) dy: &'a [f32],
    pub(crate) x: &'a [f32],
    pub(crate) scale: &'a [f32],
    pub(crate) mean: &'a [f32],
    pub(crate) variance: &'a [f32],
    pub(crate) epsilon: f32,
    /// Whether the moments are those of `x`, and so depend on it.
    pub(crate) is_training: bool,
}

impl ColumnsGrad<'_> {
    /// The gradients for `x`, `scale` and `offset` (TensorFlow `FusedBatchNormGradV3`).
    pub(crate) fn write(&self, dx: &mut [f32], by_scale: &mut [f32], by_offset: &mut [f32]) {
        let (columns, dy, x) = (self.scale.len(), self.dy, self.x);
        if x.is_empty() {
            // The moments of no values are NaN.
            by_scale.fill(0.0);
            return by_offset.fill(0.0);
        }
        let inverse: Vec<f32> =
            self.variance.iter().map(|v| 1.0 / (v + self.epsilon).sqrt()).collect();
        for_each_row(dx, columns, |row, out| {
            let operands = dy[row * columns..].iter().zip(&x[row * columns..]);
            for ((out, (dy, x)), mean) in out.iter_mut().zip(operands).zip(self.mean) {
                *out = dy * (x - mean);
            }
        });
        reduce::columns(dx, 0.0, |a, b| a + b, by_scale);
        by_scale.iter_mut().zip(&inverse).for_each(|(sum, inverse)| *sum *= inverse);
        reduce::columns(dy, 0.0, |a, b| a + b, by_offset);
        // dx = factor (dy - shift - slope (x - mean)); with given moments nothing is subtracted.
        let factor: Vec<f32> =
            self.scale.iter().zip(&inverse).map(|(scale, inverse)| scale * inverse).collect();
        let share = if self.is_training { columns as f32 / x.len() as f32 } else { 0.0 };
        let slope: Vec<f32> =
            by_scale.iter().zip(&inverse).map(|(sum, inverse)| sum * inverse * share).collect();
        let shift: Vec<f32> = by_offset.iter().map(|sum| sum * share).collect();
        for_each_row(dx, columns, |row, out| {
            let operands = dy[row * columns..].iter().zip(&x[row * columns..]);
            let column = self.mean.iter().zip(&factor).zip(slope.iter().zip(&shift));
            for ((out, (dy, x)), ((mean, factor), (slope, shift))) in
                out.iter_mut().zip(operands).zip(column)
            {
                *out = factor * (dy - shift - slope * (x - mean));
            }
        });
    }
}

/// The mean of each row, the inverse of its deviation, and `y`, the row normalised, scaled and
/// offset.
pub(crate) fn normalise_rows(
    x: &[f32],
    [scale, offset]: [&[f32]; 2],
    epsilon: f32,
    y: &mut [f32],
    [mean, inverse]: [&mut [f32]; 2],
) {
    let columns = scale.len();
    row_means(x, columns, mean);
    for_each_row(y, columns, |row, y| {
        let mean = mean[row];
        y.iter_mut().zip(&x[row * columns..]).for_each(|(y, x)| *y = (x - mean) * (x - mean));
    });
    row_means(y, columns, inverse);
    inverse.iter_mut().for_each(|variance| *variance = 1.0 / (*variance + epsilon).sqrt());
    for_each_row(y, columns, |row, y| {
        let (mean, inverse) = (mean[row], inverse[row]);
        for (((y, x), scale), offset) in
            y.iter_mut().zip(&x[row * columns..]).zip(scale).zip(offset)
        {
            *y = (x - mean) * inverse * scale + offset;
        }
    });
}

/// The operands of a gradient of normalised rows.
pub(crate) struct RowsGrad<'a> {
    pub(crate) dy: &'a [f32],
    pub(crate) x: &'a [f32],
    pub(crate) scale: &'a [f32],
    pub(crate) mean: &'a [f32],
    pub(crate) inverse: &'a [f32],
}

impl RowsGrad<'_> {
    /// The gradients for `x`, `scale` and `offset`.
    pub(crate) fn write(&self, dx: &mut [f32], by_scale: &mut [f32], by_offset: &mut [f32]) {
        let Self { dy, x, scale, .. } = *self;
        let columns = scale.len();
        if x.is_empty() {
            by_scale.fill(0.0);
            return by_offset.fill(0.0);
        }
        for_each_row(dx, columns, |row, out| {
            let (mean, inverse) = (self.mean[row], self.inverse[row]);
            for ((out, x), dy) in out.iter_mut().zip(&x[row * columns..]).zip(&dy[row * columns..])
            {
                *out = dy * ((x - mean) * inverse);
            }
        });
        reduce::columns(dx, 0.0, |a, b| a + b, by_scale);
        reduce::columns(dy, 0.0, |a, b| a + b, by_offset);
        for_each_row(dx, columns, |row, out| self.row(row, out));
    }

    /// `dx = inverse (g - mean of g - z (mean of g z))` of a row, where `g = dy scale` and `z` is
    /// the row normalised.
    #[inline(always)]
    fn row(&self, row: usize, out: &mut [f32]) {
        let columns = out.len();
        let (dy, x) = (&self.dy[row * columns..][..columns], &self.x[row * columns..][..columns]);
        let (mean, inverse) = (self.mean[row], self.inverse[row]);
        let average = |x: &[f32]| reduce::fold(x, 0.0, |a, b| a + b) / columns as f32;
        // `out` has dy z.
        out.iter_mut().zip(self.scale).for_each(|(out, scale)| *out *= scale);
        let slope = average(out);
        out.iter_mut().zip(dy).zip(self.scale).for_each(|((out, dy), scale)| *out = dy * scale);
        let shift = average(out);
        out.iter_mut()
            .zip(x)
            .for_each(|(g, x)| *g = inverse * (*g - shift - (x - mean) * inverse * slope));
    }
}

fn column_means(x: &[f32], out: &mut [f32]) {
    let rows = x.len() / out.len();
    reduce::columns(x, 0.0, |a, b| a + b, out);
    out.iter_mut().for_each(|sum| *sum /= rows as f32);
}

fn row_means(x: &[f32], columns: usize, out: &mut [f32]) {
    let rows: Axes = [1].into_iter().collect();
    reduce::numbers(Reduction::Mean, x, Shape::from([out.len(), columns]), rows, out);
}

/// Calls `work` with each row's number and the row.
#[inline(always)]
fn for_each_row(out: &mut [f32], columns: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if columns == 0 {
        return;
    }
    for_chunks(out, columns, |start, out| {
        for (row, out) in (start / columns..).zip(out.chunks_exact_mut(columns)) {
            vectorised(|| work(row, out));
        }
    });
}
