//! Kernels whose elements each follow from the one before: running sums and products, and ranges.

use super::number::Number;
use super::parallel::for_chunks;

/// The elements that each result of a scan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Whether a result leaves out the element at its own position.
    pub(crate) exclusive: bool,
    /// Whether the scan begins at the end.
    pub(crate) reverse: bool,
}

/// The cumulative sums along an axis of `size` with `inner` elements inside each position
/// (TensorFlow `Cumsum`). One after the other.
pub(crate) fn sums<T: Number>(x: &[T], axis: [usize; 2], order: Order, out: &mut [T]) {
    scan(x, axis, order, T::ZERO, T::plus, out);
}

/// The cumulative products along an axis, in the orders that [`sums`] has (TensorFlow `Cumprod`).
pub(crate) fn products<T: Number>(x: &[T], axis: [usize; 2], order: Order, out: &mut [T]) {
    scan(x, axis, order, T::ONE, T::times, out);
}

/// Folds `take` over `first` and the elements along an axis.
fn scan<T: Number>(
    x: &[T],
    [size, inner]: [usize; 2],
    order: Order,
    first: T,
    take: impl Fn(T, T) -> T + Copy + Sync,
    out: &mut [T],
) {
    let block = size * inner;
    if out.is_empty() {
        return;
    }
    for_chunks(out, block, |begin, out| {
        for (out, x) in out.chunks_mut(block).zip(x[begin..].chunks(block)) {
            match inner {
                1 => scan_row(x, order, first, take, out),
                _ => scan_columns(x, inner, order, first, take, out),
            }
        }
    });
}

fn scan_row<T: Number>(x: &[T], order: Order, first: T, take: impl Fn(T, T) -> T, out: &mut [T]) {
    let mut taken = first;
    let step = |(out, x): (&mut T, &T)| {
        let before = taken;
        taken = take(taken, *x);
        *out = if order.exclusive { before } else { taken };
    };
    let pairs = out.iter_mut().zip(x);
    if order.reverse { pairs.rev().for_each(step) } else { pairs.for_each(step) }
}

/// [`scan_row`] of rows of `inner` elements, each element with those of its column.
fn scan_columns<T: Number>(
    x: &[T],
    inner: usize,
    order: Order,
    first: T,
    take: impl Fn(T, T) -> T,
    out: &mut [T],
) {
    let (rows, mut last) = (x.len() / inner, None);
    for step in 0..rows {
        let at = inner * if order.reverse { rows - 1 - step } else { step };
        match last {
            Some(last) => out.copy_within(last..last + inner, at),
            None => out[at..at + inner].fill(first),
        }
        if let Some(taken) = if order.exclusive { last } else { Some(at) } {
            let pairs = out[at..at + inner].iter_mut().zip(&x[taken..taken + inner]);
            pairs.for_each(|(out, x)| *out = take(*out, *x));
        }
        last = Some(at);
    }
}

/// `start`, `start + delta`, … (TensorFlow `Range`).
pub(crate) fn range<T: Number>(start: T, delta: T, out: &mut [T]) {
    (0..).zip(out).for_each(|(i, out)| *out = start.plus(delta.times(T::counted(i))));
}
