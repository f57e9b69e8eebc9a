//! Softmax over the rows of logits, and the cross entropy with the labels.
//!
//! Rows are taken 64 at a time through three passes: subtract the greatest, exponentiate all of them
//! as one vector (a row of ten classes would leave most lanes idle), then sum and normalise. Order of
//! a row's sum: [`fold`]. A NaN or +infinity among the logits makes its row NaN, as does a row all of
//! -infinity.

use pulp::NullaryFnOnce;
use rayon::prelude::*;

use super::math;
use super::parallel::{CHUNK, PARALLEL_FROM, vectorised};
use super::reduce::fold;

/// How many rows are taken together.
const ROWS: usize = 64;

/// A label that names no class (TensorFlow's "Received a label value of ...").
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label of row {row} is {label}, but there are {classes} classes: labels count from 0 to one less")]
pub struct LabelOutOfRange {
    /// The row of the batch, from 0.
    pub row: usize,
    /// The label found there.
    pub label: i32,
    /// How many classes the logits have.
    pub classes: usize,
}

/// `out[r, c] = e^x[r, c] / sum of e^x[r, ..]` (TensorFlow `Softmax`).
pub(crate) fn softmax(logits: &[f32], classes: usize, out: &mut [f32]) {
    for_row_blocks(logits, classes, out, |logits, out| vectorised(Softmax { logits, classes, out }));
}

/// Cross entropy of the rows of `logits` with their `labels`, and its gradient.
///
/// `loss[r] = -log softmax(logits)[r, labels[r]]`; `backprop[r, c] = softmax(logits)[r, c]`, less 1 at
/// the label (TensorFlow `SparseSoftmaxCrossEntropyWithLogits`). `labels` and `loss` have one element a
/// row, `backprop` the shape of `logits`.
///
/// # Errors
/// If a label is below 0 or names no class; then nothing is written.
pub(crate) fn sparse_softmax_cross_entropy(
    logits: &[f32],
    labels: &[i32],
    loss: &mut [f32],
    backprop: &mut [f32],
) -> Result<(), LabelOutOfRange> {
    assert_eq!(labels.len(), loss.len(), "there is one loss a row");
    assert_eq!(logits.len(), backprop.len(), "the gradient has the shape of the logits");
    if labels.is_empty() {
        assert!(logits.is_empty(), "there is one label a row");
        return Ok(());
    }
    assert!(logits.len().is_multiple_of(labels.len()), "there is one label a row");
    let classes = logits.len() / labels.len();
    let wrong = |label: &i32| usize::try_from(*label).map_or(true, |label| label >= classes);
    if let Some(row) = labels.iter().position(wrong) {
        return Err(LabelOutOfRange { row, label: labels[row], classes });
    }
    let rows = block_rows(classes);
    if logits.len() < PARALLEL_FROM {
        let results = loss.chunks_mut(rows).zip(backprop.chunks_mut(rows * classes));
        let operands = logits.chunks(rows * classes).zip(labels.chunks(rows));
        for ((loss, backprop), (logits, labels)) in results.zip(operands) {
            vectorised(CrossEntropy { logits, labels, loss, backprop });
        }
    } else {
        let results = loss.par_chunks_mut(rows).zip(backprop.par_chunks_mut(rows * classes));
        let operands = logits.par_chunks(rows * classes).zip(labels.par_chunks(rows));
        results.zip(operands).for_each(|((loss, backprop), (logits, labels))| {
            vectorised(CrossEntropy { logits, labels, loss, backprop });
        });
    }
    Ok(())
}

/// [`softmax`] of a block of rows.
struct Softmax<'a> {
    logits: &'a [f32],
    classes: usize,
    out: &'a mut [f32],
}

impl NullaryFnOnce for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        shift(self.logits, self.classes, self.out);
        exponentiate(self.out);
        for row in self.out.chunks_exact_mut(self.classes) {
            normalise(row);
        }
    }
}

/// [`sparse_softmax_cross_entropy`] of a block of rows.
struct CrossEntropy<'a> {
    logits: &'a [f32],
    labels: &'a [i32],
    loss: &'a mut [f32],
    backprop: &'a mut [f32],
}

impl NullaryFnOnce for CrossEntropy<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { logits, labels, loss, backprop } = self;
        let classes = logits.len() / labels.len();
        shift(logits, classes, backprop);
        for ((loss, label), row) in loss.iter_mut().zip(labels).zip(backprop.chunks_exact(classes)) {
            *loss = row[*label as usize];
        }
        exponentiate(backprop);
        let mut log_sums = [1.0; ROWS];
        for ((sum, label), row) in log_sums.iter_mut().zip(labels).zip(backprop.chunks_exact_mut(classes)) {
            *sum = normalise(row);
            row[*label as usize] -= 1.0;
        }
        log_sums.iter_mut().for_each(|log_sum| *log_sum = math::log(*log_sum));
        loss.iter_mut().zip(log_sums).for_each(|(loss, log_sum)| *loss = log_sum - *loss);
    }
}

/// `out[r, c] = x[r, c] - greatest of x[r, ..]`.
#[inline(always)]
fn shift(x: &[f32], classes: usize, out: &mut [f32]) {
    for (out, x) in out.chunks_exact_mut(classes).zip(x.chunks_exact(classes)) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, x)| *out = x - greatest);
    }
}

/// `x = e^x`.
#[inline(always)]
fn exponentiate(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = math::exp(*x));
}

/// The sum in the order of [`fold`].
#[inline(always)]
fn sum(x: &[f32]) -> f32 {
    fold(x, 0.0, |a, b| a + b)
}

/// Divides `row` by its sum, which it returns.
#[inline(always)]
fn normalise(row: &mut [f32]) -> f32 {
    let sum = sum(row);
    let factor = 1.0 / sum;
    row.iter_mut().for_each(|x| *x *= factor);
    sum
}

/// The greatest element; NaNs are passed over.
#[inline(always)]
fn greatest(x: &[f32]) -> f32 {
    fold(x, f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
}

/// How many rows are taken together: as many as stay in the first-level cache, at most [`ROWS`].
fn block_rows(classes: usize) -> usize {
    (CHUNK / classes.max(1)).clamp(1, ROWS)
}

#[inline(always)]
fn for_row_blocks(x: &[f32], classes: usize, out: &mut [f32], work: impl Fn(&[f32], &mut [f32]) + Sync) {
    assert_eq!(x.len(), out.len(), "softmax keeps the shape");
    if out.is_empty() {
        return;
    }
    assert!(x.len().is_multiple_of(classes), "softmax takes whole rows");
    let block = block_rows(classes) * classes;
    let work = |(out, x): (&mut [f32], &[f32])| work(x, out);
    if x.len() < PARALLEL_FROM {
        out.chunks_mut(block).zip(x.chunks(block)).for_each(work);
    } else {
        out.par_chunks_mut(block).zip(x.par_chunks(block)).for_each(work);
    }
}
