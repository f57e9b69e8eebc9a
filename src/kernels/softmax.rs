//! Softmax over the rows of logits, its logarithm, their gradients, and cross entropies.
//!
//! Rows are taken 64 at a time through passes: subtract the greatest, exponentiate all of them
//! as one vector (a row of ten classes would leave most lanes idle), then sum and normalise. Order
//! of a row's sum: [`fold`]. A NaN or +infinity among the logits makes its row NaN, as does a row
//! all of -infinity.

use crate::graph::ComputeError;
use pulp::NullaryFnOnce;

use super::number::{Float, Number};
use super::order::Position;
use super::parallel::{
    CHUNK, PARALLEL_FROM, for_chunks, for_pieces, for_pieces_of_two, map2, vectorised,
};
use super::reduce::fold;

/// The number of rows that are taken together.
const ROWS: usize = 64;

/// `out[r, c] = e^x[r, c] / sum of e^x[r, ..]` (TensorFlow `Softmax`).
pub(crate) fn softmax<T: Float>(logits: &[T], classes: usize, out: &mut [T]) {
    for_row_blocks(logits, classes, out, |logits, out| {
        vectorised(Softmax { logits, classes, out })
    });
}

/// `out[r, c] = x[r, c] - log(sum of e^x[r, ..])`, which keeps its digits where softmax is 0
/// (TensorFlow `LogSoftmax`).
pub(crate) fn log_softmax<T: Float>(logits: &[T], classes: usize, out: &mut [T]) {
    for_row_blocks(logits, classes, out, |logits, out| {
        vectorised(LogSoftmax { logits, classes, out })
    });
}

/// `out[r, c] = (dy[r, c] - sum of dy[r, ..] y[r, ..]) y[r, c]`, where `y` is the softmax.
pub(crate) fn softmax_grad<T: Float>(dy: &[T], y: &[T], classes: usize, out: &mut [T]) {
    for_rows(dy, y, classes, out, |dy, y, out| {
        map_row(dy, y, out, T::times);
        let sum = sum(out);
        map_row(dy, y, out, |dy, y| dy.minus(sum).times(y));
    });
}

/// `out[r, c] = dy[r, c] - e^y[r, c] (sum of dy[r, ..])`, where `y` is the logarithm of the
/// softmax.
pub(crate) fn log_softmax_grad<T: Float>(dy: &[T], y: &[T], classes: usize, out: &mut [T]) {
    for_rows(dy, y, classes, out, |dy, y, out| {
        let sum = sum(dy);
        map_row(dy, y, out, |dy, y| dy.minus(y.exp().times(sum)));
    });
}

/// `out = max(x, 0) - x z + log(1 + e^-|x|)`, the cross entropy of the sigmoid of `x` with labels
/// `z`, which neither overflows nor loses small terms (TensorFlow
/// `sigmoid_cross_entropy_with_logits`).
pub(crate) fn sigmoid_cross_entropy<T: Float>(x: &[T], z: &[T], out: &mut [T]) {
    map2(x, z, out, |x, z| {
        let positive = x > T::ZERO;
        let small = (if positive { T::ZERO.minus(x) } else { x }).exp();
        // log(1 + small) of the rounded 1 + small, corrected by the share that rounding lost
        // (Kahan).
        let whole = T::ONE.plus(small);
        let lost = whole == T::ONE;
        let kept = if lost { T::ONE } else { whole.minus(T::ONE) };
        let log = if lost { small } else { whole.log().times(small.quotient(kept)) };
        (if positive { x } else { T::ZERO }).minus(x.times(z)).plus(log)
    });
}

/// Cross entropy of the rows of `logits` with rows of probabilities, and its gradient.
///
/// `loss[r] = -sum of labels[r, ..] log softmax(logits)[r, ..]`;
/// `backprop = softmax(logits) - labels` (TensorFlow `SoftmaxCrossEntropyWithLogits`).
pub(crate) fn softmax_cross_entropy<T: Float>(
    logits: &[T],
    labels: &[T],
    loss: &mut [T],
    backprop: &mut [T],
) {
    assert_eq!(logits.len(), backprop.len(), "the gradient has the shape of the logits");
    assert_eq!(logits.len(), labels.len(), "there is a label for each logit");
    if logits.is_empty() {
        return loss.fill(T::ZERO);
    }
    let classes = logits.len() / loss.len();
    log_softmax(logits, classes, backprop);
    let spread = logits.len() >= PARALLEL_FROM;
    for_pieces_of_two((loss, backprop), [1, classes], spread, &|row, loss, backprop| {
        let labels = &labels[row * classes..][..classes];
        vectorised(|| {
            let mut total = T::ZERO;
            for (log, label) in backprop.iter_mut().zip(labels) {
                total = total.minus(label.times(*log));
                *log = log.exp().minus(*label);
            }
            loss[0] = total;
        });
    });
}

/// Cross entropy of the rows of `logits` with their `labels`, and its gradient.
///
/// `loss[r] = -log softmax(logits)[r, labels[r]]`; `backprop[r, c] = softmax(logits)[r, c]`, less 1
/// at the label (TensorFlow `SparseSoftmaxCrossEntropyWithLogits`). `labels` and `loss` have one
/// element a row, `backprop` the shape of `logits`.
///
/// # Errors
/// If a label is below 0 or not a class; then nothing is written.
pub(crate) fn sparse_softmax_cross_entropy<T: Float, I: Position>(
    logits: &[T],
    labels: &[I],
    loss: &mut [T],
    backprop: &mut [T],
) -> Result<(), ComputeError> {
    assert_eq!(labels.len(), loss.len(), "there is one loss a row");
    assert_eq!(logits.len(), backprop.len(), "the gradient has the shape of the logits");
    if labels.is_empty() {
        assert!(logits.is_empty(), "there is one label a row");
        return Ok(());
    }
    assert!(logits.len().is_multiple_of(labels.len()), "there is one label a row");
    let classes = logits.len() / labels.len();
    let wrong = |label: &I| label.at().is_none_or(|label| label >= classes);
    if let Some(row) = labels.iter().position(wrong) {
        return Err(ComputeError::new(format!(
            "the label of row {row} is {}, but there are {classes} classes: labels count from 0 to \
             one less",
            labels[row].into()
        )));
    }
    let rows = block_rows(classes);
    let (lens, spread) = ([rows, rows * classes], logits.len() >= PARALLEL_FROM);
    for_pieces_of_two((loss, backprop), lens, spread, &|i, loss, backprop| {
        let labels = &labels[i * rows..][..loss.len()];
        let logits = &logits[i * rows * classes..][..backprop.len()];
        vectorised(CrossEntropy { logits, labels, loss, backprop });
    });
    Ok(())
}

/// [`softmax`] of a block of rows.
struct Softmax<'a, T> {
    logits: &'a [T],
    classes: usize,
    out: &'a mut [T],
}

impl<T: Float> NullaryFnOnce for Softmax<'_, T> {
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

/// [`log_softmax`] of a block of rows.
struct LogSoftmax<'a, T> {
    logits: &'a [T],
    classes: usize,
    out: &'a mut [T],
}

impl<T: Float> NullaryFnOnce for LogSoftmax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { logits, classes, out } = self;
        shift(logits, classes, out);
        let mut powers = out.to_vec();
        exponentiate(&mut powers);
        for (row, powers) in out.chunks_exact_mut(classes).zip(powers.chunks_exact(classes)) {
            let log_sum = sum(powers).log();
            row.iter_mut().for_each(|x| *x = x.minus(log_sum));
        }
    }
}

/// [`sparse_softmax_cross_entropy`] of a block of rows.
struct CrossEntropy<'a, T, I> {
    logits: &'a [T],
    labels: &'a [I],
    loss: &'a mut [T],
    backprop: &'a mut [T],
}

impl<T: Float, I: Position> NullaryFnOnce for CrossEntropy<'_, T, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { logits, labels, loss, backprop } = self;
        let classes = logits.len() / labels.len();
        shift(logits, classes, backprop);
        for ((loss, label), row) in loss.iter_mut().zip(labels).zip(backprop.chunks_exact(classes))
        {
            *loss = row[label.place()];
        }
        exponentiate(backprop);
        let mut log_sums = [T::ONE; ROWS];
        for ((sum, label), row) in
            log_sums.iter_mut().zip(labels).zip(backprop.chunks_exact_mut(classes))
        {
            *sum = normalise(row);
            row[label.place()] = row[label.place()].minus(T::ONE);
        }
        log_sums.iter_mut().for_each(|log_sum| *log_sum = log_sum.log());
        loss.iter_mut().zip(log_sums).for_each(|(loss, log_sum)| *loss = log_sum.minus(*loss));
    }
}

/// `out[r, c] = x[r, c] - greatest of x[r, ..]`.
#[inline(always)]
fn shift<T: Float>(x: &[T], classes: usize, out: &mut [T]) {
    for (out, x) in out.chunks_exact_mut(classes).zip(x.chunks_exact(classes)) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, x)| *out = x.minus(greatest));
    }
}

/// `x = e^x`.
#[inline(always)]
fn exponentiate<T: Float>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = x.exp());
}

/// The sum in the order of [`fold`].
#[inline(always)]
fn sum<T: Number>(x: &[T]) -> T {
    fold(x, T::ZERO, T::plus)
}

/// Divides `row` by its sum, which it returns.
#[inline(always)]
fn normalise<T: Float>(row: &mut [T]) -> T {
    let sum = sum(row);
    let factor = T::ONE.quotient(sum);
    row.iter_mut().for_each(|x| *x = x.times(factor));
    sum
}

/// The greatest element; NaNs are skipped.
#[inline(always)]
fn greatest<T: Number>(x: &[T]) -> T {
    fold(x, T::LEAST, |a, b| if b > a { b } else { a })
}

/// The number of rows that are taken together: as many as stay in the first-level cache, at most
/// [`ROWS`].
fn block_rows(classes: usize) -> usize {
    (CHUNK / classes.max(1)).clamp(1, ROWS)
}

#[inline(always)]
fn for_row_blocks<T: Float>(
    x: &[T],
    classes: usize,
    out: &mut [T],
    work: impl Fn(&[T], &mut [T]) + Sync,
) {
    assert_eq!(x.len(), out.len(), "softmax keeps the shape");
    if out.is_empty() {
        return;
    }
    assert!(x.len().is_multiple_of(classes), "softmax takes whole rows");
    let block = block_rows(classes) * classes;
    for_pieces(out, block, x.len() >= PARALLEL_FROM, &|i, out| {
        work(&x[i * block..][..out.len()], out);
    });
}

/// Calls `work` for each row of two operands and of `out`.
#[inline(always)]
fn for_rows<T: Float>(
    a: &[T],
    b: &[T],
    columns: usize,
    out: &mut [T],
    work: impl Fn(&[T], &[T], &mut [T]) + Copy + Sync,
) {
    assert_eq!(
        (a.len(), b.len()),
        (out.len(), out.len()),
        "a gradient has the shape of what it is of"
    );
    if out.is_empty() {
        return;
    }
    for_chunks(out, columns, |start, out| {
        let (a, b) = (&a[start..][..out.len()], &b[start..][..out.len()]);
        let rows =
            a.chunks_exact(columns).zip(b.chunks_exact(columns)).zip(out.chunks_exact_mut(columns));
        vectorised(|| rows.for_each(|((a, b), out)| work(a, b, out)));
    });
}

#[inline(always)]
fn map_row<T: Float>(a: &[T], b: &[T], out: &mut [T], op: impl Fn(T, T) -> T) {
    a.iter().zip(b).zip(out).for_each(|((a, b), out)| *out = op(*a, *b));
}
