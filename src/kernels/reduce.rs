//! Reductions along any axes of a row-major tensor.
//!
//! Neighbouring axes that are reduced are one *run*: its elements are `[outer, reduced, inner]`. Of
//! several runs the innermost is folded first, and what it leaves is folded by the next.
//!
//! Order of a run that ends with the tensor (`inner` is 1): chunks of [`CHUNK`] elements are each
//! folded over 16 lanes ([`fold`]), what they give then likewise. Order of any other: the `reduced`
//! rows of `inner` elements are cut into blocks of as many rows as have [`CHUNK`] elements; a block
//! is folded from its first row to its last, then what the blocks give is.

use pulp::NullaryFnOnce;
use smallvec::SmallVec;

use super::number::Number;
use super::parallel::{CHUNK, PARALLEL_FROM, for_pieces, vectorised};
use crate::graph::{Axes, Reduction};
use crate::tensor::{Element, Shape, Tensor};

/// The number of partial results of a fold: one for each lane of the widest vectors.
const LANES: usize = 16;

/// Neighbouring axes that are reduced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The number of elements of all axes before.
    pub(crate) outer: usize,
    /// The number of elements of the axes that are reduced.
    pub(crate) reduced: usize,
    /// The number of elements of the axes after.
    pub(crate) inner: usize,
}

/// The runs that the `axes` of `shape` are, the innermost first, each without those before it in
/// the list.
pub(super) fn runs(shape: Shape, axes: Axes) -> SmallVec<[Run; 3]> {
    let mut runs = SmallVec::new();
    let (mut reduced, mut inner) = (None, 1);
    for (axis, dim) in shape.dims().iter().enumerate().rev().filter(|(_, dim)| **dim != 1) {
        if axes.contains(axis) {
            reduced = Some(reduced.unwrap_or(1) * dim);
            continue;
        }
        if let Some(reduced) = reduced.take() {
            runs.push(Run { outer: shape.dims()[..=axis].iter().product(), reduced, inner });
        }
        inner *= dim;
    }
    runs.extend(reduced.map(|reduced| Run { outer: 1, reduced, inner }));
    runs
}

/// `x` along some axes, the sum, the mean, the product, the greatest or the least of numbers.
///
/// # Panics
/// If the reduction is one of truth values.
pub(crate) fn numbers<T: Number>(
    reduction: Reduction,
    x: &[T],
    shape: Shape,
    axes: Axes,
    out: &mut [T],
) {
    match reduction {
        Reduction::Sum => fold_axes(x, shape, axes, T::ZERO, T::plus, out),
        Reduction::Mean => {
            fold_axes(x, shape, axes, T::ZERO, T::plus, out);
            let count = axes.iter().map(|axis| shape.dims()[axis]).product();
            out.iter_mut().for_each(|out| *out = out.over(count));
        }
        Reduction::Prod => fold_axes(x, shape, axes, T::ONE, T::times, out),
        Reduction::Max => fold_axes(x, shape, axes, T::LEAST, T::greater, out),
        Reduction::Min => fold_axes(x, shape, axes, T::GREATEST, T::lesser, out),
        Reduction::Any | Reduction::All => {
            panic!("shape inference lets no numbers pass for truth values")
        }
    }
}

/// The mean of i32 along some axes, cut towards 0. Their sum is one of i64, as TensorFlow's is.
pub(crate) fn mean_of_i32(x: &[i32], shape: Shape, axes: Axes, out: &mut [i32]) {
    let x: Vec<i64> = x.iter().copied().map(i64::from).collect();
    let mut means = vec![0; out.len()];
    numbers(Reduction::Mean, &x, shape, axes, &mut means);
    out.iter_mut().zip(means).for_each(|(out, mean)| *out = mean as i32);
}

/// `x` along some axes, whether one is true (TensorFlow `Any`) or all are (`All`).
pub(crate) fn truth(reduction: Reduction, x: &[bool], shape: Shape, axes: Axes, out: &mut [bool]) {
    match reduction {
        Reduction::Any => fold_axes(x, shape, axes, false, |a, b| a | b, out),
        _ => fold_axes(x, shape, axes, true, |a, b| a & b, out),
    }
}

/// The sum of the squares of all elements, in the order of a sum.
pub(crate) fn sum_of_squares<T: Number>(x: &[T]) -> T {
    all_chunks(x, T::ZERO, T::plus, |x| {
        vectorised(|| fold_mapped(x, |x| x.times(x), T::ZERO, T::plus))
    })
}

fn fold_axes<T: Element>(
    x: &[T],
    shape: Shape,
    axes: Axes,
    neutral: T,
    op: impl Fn(T, T) -> T + Copy + Sync,
    out: &mut [T],
) {
    match runs(shape, axes).as_slice() {
        [] => out.copy_from_slice(x),
        [run] => fold_run(x, *run, neutral, op, out),
        [first, others @ .., last] => {
            let mut folded = folded_run(x, *first, neutral, op);
            for run in others {
                folded = folded_run(&folded, *run, neutral, op);
            }
            fold_run(&folded, *last, neutral, op, out);
        }
    }
}

fn folded_run<T: Element>(
    x: &[T],
    run: Run,
    neutral: T,
    op: impl Fn(T, T) -> T + Copy + Sync,
) -> Vec<T> {
    let mut out = vec![neutral; run.outer * run.inner];
    fold_run(x, run, neutral, op, &mut out);
    out
}

/// Folds one run.
pub(super) fn fold_run<T: Element>(
    x: &[T],
    run: Run,
    neutral: T,
    op: impl Fn(T, T) -> T + Copy + Sync,
    out: &mut [T],
) {
    let Run { outer, reduced, inner } = run;
    assert_eq!(x.len(), outer * reduced * inner, "a reduction takes every element");
    assert_eq!(out.len(), outer * inner, "a reduction leaves what is not reduced");
    if x.is_empty() {
        return out.fill(neutral);
    }
    if inner == 1 {
        return rows(x, neutral, op, out);
    }
    let (block, spread) = (reduced * inner, x.len() >= PARALLEL_FROM && outer > 1);
    for_pieces(out, inner, spread, &|i, out| columns(&x[i * block..][..block], neutral, op, out));
}

/// Folds each row of a matrix of as many rows as `out` has elements.
fn rows<T: Element>(x: &[T], neutral: T, op: impl Fn(T, T) -> T + Copy + Sync, out: &mut [T]) {
    let columns = x.len() / out.len();
    if columns > CHUNK {
        return out
            .iter_mut()
            .zip(x.chunks_exact(columns))
            .for_each(|(out, row)| *out = all(row, neutral, op));
    }
    if x.len() < PARALLEL_FROM {
        return vectorised(FoldRows { x, neutral, op, out });
    }
    let together = CHUNK / columns;
    for_pieces(out, together, true, &|i, out| {
        let x = &x[i * together * columns..][..out.len() * columns];
        vectorised(FoldRows { x, neutral, op, out });
    });
}

/// Folds all elements, chunk by chunk.
pub(super) fn all<T: Element>(x: &[T], neutral: T, op: impl Fn(T, T) -> T + Copy + Sync) -> T {
    all_chunks(x, neutral, op, |x| vectorised(|| fold(x, neutral, op)))
}

/// Folds what `of_chunk` makes of each chunk.
fn all_chunks<T: Element>(
    x: &[T],
    neutral: T,
    op: impl Fn(T, T) -> T + Copy + Sync,
    of_chunk: impl Fn(&[T]) -> T + Sync,
) -> T {
    if x.len() <= CHUNK {
        return of_chunk(x);
    }
    let mut partial = vec![neutral; x.len().div_ceil(CHUNK)];
    for_pieces(&mut partial, 1, x.len() >= PARALLEL_FROM, &|i, out| {
        out[0] = of_chunk(&x[i * CHUNK..x.len().min((i + 1) * CHUNK)]);
    });
    all(&partial, neutral, op)
}

/// Folds the rows of a matrix of as many columns as `out` has elements.
pub(super) fn columns<T: Element>(
    x: &[T],
    neutral: T,
    op: impl Fn(T, T) -> T + Copy + Sync,
    out: &mut [T],
) {
    let columns = out.len();
    let block = (CHUNK / columns).max(1) * columns;
    if x.len() <= block {
        return vectorised(FoldColumns { x, neutral, op, out });
    }
    let mut partial = Tensor::uninitialised::<T>(Shape::from([x.len().div_ceil(block), columns]));
    let partial = partial.make_mut::<T>();
    for_pieces(partial, columns, x.len() >= PARALLEL_FROM, &|i, out| {
        let x = &x[i * block..x.len().min((i + 1) * block)];
        vectorised(FoldColumns { x, neutral, op, out });
    });
    vectorised(FoldColumns { x: partial, neutral, op, out });
}

struct FoldRows<'a, T, F> {
    x: &'a [T],
    neutral: T,
    op: F,
    out: &'a mut [T],
}

impl<T: Element, F: Fn(T, T) -> T + Copy> NullaryFnOnce for FoldRows<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let columns = self.x.len() / self.out.len();
        for (out, row) in self.out.iter_mut().zip(self.x.chunks_exact(columns)) {
            *out = fold(row, self.neutral, self.op);
        }
    }
}

struct FoldColumns<'a, T, F> {
    x: &'a [T],
    neutral: T,
    op: F,
    out: &'a mut [T],
}

impl<T: Element, F: Fn(T, T) -> T + Copy> NullaryFnOnce for FoldColumns<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.out.fill(self.neutral);
        for row in self.x.chunks_exact(self.out.len()) {
            self.out.iter_mut().zip(row).for_each(|(out, x)| *out = (self.op)(*out, *x));
        }
    }
}

/// `x` folded by `op`, whose neutral element is `neutral`, in a fixed order.
///
/// Fewer than [`LANES`] elements are folded from the first to the last. Of more, lane `i` takes the
/// elements `i`, `i + 16`, `i + 32` ... in that order, then lane `i` takes lane `i + 8`, `i + 4`,
/// `i + 2`, `i + 1` in turn.
#[inline(always)]
pub(super) fn fold<T: Copy>(x: &[T], neutral: T, op: impl Fn(T, T) -> T) -> T {
    fold_mapped(x, |x| x, neutral, op)
}

/// As [`fold`], of what `map` makes of each element: bit for bit as if that had been stored before.
#[inline(always)]
fn fold_mapped<T: Copy>(x: &[T], map: impl Fn(T) -> T, neutral: T, op: impl Fn(T, T) -> T) -> T {
    if x.len() < LANES {
        return x.iter().fold(neutral, |folded, x| op(folded, map(*x)));
    }
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [neutral; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = op(lanes[i], map(chunk[i]));
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = op(*lane, map(*x)));
    for half in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = op(*low, *high));
    }
    lanes[0]
}
