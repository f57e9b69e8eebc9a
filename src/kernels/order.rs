//! The positions of the greatest and least elements, and the greatest elements themselves.

use std::cmp::Ordering;

use super::number::{Float, Number};
use super::parallel::{PARALLEL_FROM, for_pieces, for_pieces_of_two};
use super::reduce::Run;
use crate::tensor::Element;

/// A position as an element of a tensor.
pub(crate) trait Position: Element + Into<i64> {
    /// The position `at`.
    fn of(at: usize) -> Self;
    /// The position; `None` if it is negative.
    fn at(self) -> Option<usize>;
    /// The position, which the caller knows not to be negative.
    fn place(self) -> usize;
}

macro_rules! position {
    ($($integer:ident),+) => {$(
        impl Position for $integer {
            #[inline(always)]
            fn of(at: usize) -> Self {
                at as Self
            }

            #[inline(always)]
            fn at(self) -> Option<usize> {
                usize::try_from(self).ok()
            }

            #[inline(always)]
            fn place(self) -> usize {
                self as usize
            }
        }
    )+};
}
position!(i32, i64);

/// The position of the greatest element along an axis, the first of equal ones; 0 if all are NaN
/// (TensorFlow `ArgMax`).
///
/// # Panics
/// If the axis is empty.
pub(crate) fn argmax<T: Number, I: Position>(x: &[T], axis: Run, out: &mut [I]) {
    arg(x, axis, T::LEAST, |new, best| new > best, out);
}

/// The position of the least element along an axis, the first of equal ones; 0 if all are NaN
/// (TensorFlow `ArgMin`).
///
/// # Panics
/// If the axis is empty.
pub(crate) fn argmin<T: Number, I: Position>(x: &[T], axis: Run, out: &mut [I]) {
    arg(x, axis, T::GREATEST, |new, best| new < best, out);
}

fn arg<T: Number, I: Position>(
    x: &[T],
    Run { outer, reduced, inner }: Run,
    worst: T,
    better: impl Fn(T, T) -> bool + Copy + Sync,
    out: &mut [I],
) {
    if out.is_empty() {
        return;
    }
    assert!(reduced > 0, "there is an element to be the greatest");
    assert_eq!(
        (x.len(), out.len()),
        (outer * reduced * inner, outer * inner),
        "there is one position for each axis"
    );
    let block = reduced * inner;
    for_pieces(out, inner, x.len() >= PARALLEL_FROM, &|i, out| {
        let x = &x[i * block..][..block];
        match out {
            [out] => *out = I::of(along(x, worst, better)),
            out => abreast(x, worst, better, out),
        }
    });
}

/// The position of the first best element.
fn along<T: Number>(x: &[T], worst: T, better: impl Fn(T, T) -> bool) -> usize {
    let mut best = (0, worst);
    for (i, x) in x.iter().enumerate() {
        if better(*x, best.1) {
            best = (i, *x);
        }
    }
    best.0
}

/// The row of the first best element of each column.
fn abreast<T: Number, I: Position>(
    x: &[T],
    worst: T,
    better: impl Fn(T, T) -> bool,
    out: &mut [I],
) {
    let mut best = vec![worst; out.len()];
    out.fill(I::of(0));
    for (row, x) in x.chunks_exact(out.len()).enumerate() {
        for ((out, best), x) in out.iter_mut().zip(&mut best).zip(x) {
            if better(*x, *best) {
                (*out, *best) = (I::of(row), *x);
            }
        }
    }
}

/// The `k` greatest elements of each row of `columns`, the greatest first, and their positions.
/// Equal elements keep their order, and NaNs come before numbers (TensorFlow `TopKV2`).
pub(crate) fn top_k<T: Number>(
    x: &[T],
    columns: usize,
    values: &mut [T],
    positions: &mut [i32],
    k: usize,
) {
    if values.is_empty() {
        return;
    }
    let spread = x.len() >= PARALLEL_FROM;
    for_pieces_of_two((values, positions), [k, k], spread, &|row, values, positions| {
        let x = &x[row * columns..][..columns];
        let before = |a: &i32, b: &i32| descending(x[*a as usize], x[*b as usize]).then(a.cmp(b));
        let mut order: Vec<i32> = (0..columns as i32).collect();
        if k < columns {
            order.select_nth_unstable_by(k, before);
        }
        order[..k].sort_unstable_by(before);
        positions.copy_from_slice(&order[..k]);
        values.iter_mut().zip(&order).for_each(|(value, at)| *value = x[*at as usize]);
    });
}

fn descending<T: Number>(a: T, b: T) -> Ordering {
    b.partial_cmp(&a).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// The gradient of [`top_k`]: `dy` at its `positions` of each row of `columns`, and 0 elsewhere.
pub(crate) fn top_k_grad<T: Float>(
    dy: &[T],
    positions: &[i32],
    k: usize,
    columns: usize,
    out: &mut [T],
) {
    out.fill(T::ZERO);
    if k == 0 {
        return;
    }
    let rows = out.chunks_exact_mut(columns).zip(dy.chunks_exact(k)).zip(positions.chunks_exact(k));
    for ((out, dy), positions) in rows {
        positions
            .iter()
            .zip(dy)
            .for_each(|(at, dy)| out[*at as usize] = out[*at as usize].plus(*dy));
    }
}

/// Whether fewer than `k` predictions of a row are greater than that of its target (TensorFlow
/// `InTopKV2`).
///
/// False if the target is not a class, or a prediction that is met before that is not finite.
pub(crate) fn in_top_k<I: Position>(
    predictions: &[f32],
    targets: &[I],
    k: usize,
    out: &mut [bool],
) {
    let classes = predictions.len().checked_div(targets.len()).unwrap_or(0);
    let is_in = |(row, target): (usize, &I)| {
        let row = &predictions[row * classes..][..classes];
        let Some(own) = target.at().and_then(|at| row.get(at)).filter(|own| own.is_finite()) else {
            return false;
        };
        let mut greater = 0;
        for prediction in row {
            if !prediction.is_finite() {
                return false;
            }
            greater += usize::from(prediction > own);
            if greater >= k {
                return false;
            }
        }
        k > 0
    };
    out.iter_mut().zip(targets.iter().enumerate()).for_each(|(out, target)| *out = is_in(target));
}
