//! Reductions: the sum, the mean, the greatest of a row.

use rayon::prelude::*;

use super::number::Float;
use super::parallel::{CHUNK, PARALLEL_FROM, vectorised};

/// How many partial results a fold keeps: one a lane of the widest vectors.
const LANES: usize = 16;

/// `x` folded by `op`, whose neutral element is `neutral`, in the fixed order of this module.
///
/// Fewer than [`LANES`] elements are folded from the first to the last. Of more, lane `i` takes the
/// elements `i`, `i + 16`, `i + 32` ... in that order, then lane `i` takes lane `i + 8`, `i + 4`, `i + 2`,
/// `i + 1` in turn.
#[inline(always)]
pub(super) fn fold<T: Copy>(x: &[T], neutral: T, op: impl Fn(T, T) -> T) -> T {
    if x.len() < LANES {
        return x.iter().fold(neutral, |folded, x| op(folded, *x));
    }
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [neutral; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = op(lanes[i], chunk[i]);
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = op(*lane, *x));
    for half in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = op(*low, *high));
    }
    lanes[0]
}

/// The sum of all elements; 0 of none (TensorFlow `Sum` over all axes).
///
/// Order: chunks of [`CHUNK`] elements are each folded over 16 lanes, their sums then likewise, by index.
pub(crate) fn sum<T: Float>(x: &[T]) -> T {
    let of_chunk = |x: &[T]| vectorised(|| fold(x, T::ZERO, |a, b| a + b));
    if x.len() <= CHUNK {
        return of_chunk(x);
    }
    let partial: Vec<T> = if x.len() < PARALLEL_FROM {
        x.chunks(CHUNK).map(of_chunk).collect()
    } else {
        x.par_chunks(CHUNK).map(of_chunk).collect()
    };
    sum(&partial)
}

/// The mean of all elements, [`sum`] over their number; NaN of none (TensorFlow `Mean` over all axes).
pub(crate) fn mean(x: &[f32]) -> f32 {
    sum(x) / x.len() as f32
}

/// The index of each row's greatest element, of equal ones the first (TensorFlow `ArgMax` over axis 1).
///
/// A NaN is never greatest, unless it is first.
///
/// # Panics
/// If the rows have no elements.
pub(crate) fn argmax(x: &[f32], out: &mut [i64]) {
    if out.is_empty() {
        return assert!(x.is_empty(), "there is one index a row");
    }
    assert!(!x.is_empty() && x.len().is_multiple_of(out.len()), "every row has a greatest element");
    let columns = x.len() / out.len();
    for (out, row) in out.iter_mut().zip(x.chunks_exact(columns)) {
        let mut best = 0;
        for (i, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = i;
            }
        }
        *out = best as i64;
    }
}
