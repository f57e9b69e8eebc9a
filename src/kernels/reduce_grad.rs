//! The gradients of reductions. Runs and the order of sums are those of [`reduce`].

use super::number::Float;
use super::parallel::{PARALLEL_FROM, for_chunks, for_pieces, map, map2};
use super::reduce::{self, Run, runs};
use crate::graph::{Axes, Reduction};
use crate::tensor::{Shape, Tensor};

/// Spreads `dy`, the gradient of each result, over all elements of that result.
pub(crate) fn spread<T: Float>(dy: &[T], shape: Shape, axes: Axes, out: &mut [T]) {
    match runs(shape, axes).as_slice() {
        [] => out.copy_from_slice(dy),
        [run] => spread_run(dy, *run, out),
        [first, others @ ..] => {
            let mut spread = dy.to_vec();
            for run in others.iter().rev() {
                let mut wider = vec![T::ZERO; run.outer * run.reduced * run.inner];
                spread_run(&spread, *run, &mut wider);
                spread = wider;
            }
            spread_run(&spread, *first, out);
        }
    }
}

/// The gradient of a mean: a share of `dy` for each element.
pub(crate) fn mean<T: Float>(dy: &[T], shape: Shape, axes: Axes, out: &mut [T]) {
    let count: usize = axes.iter().map(|axis| shape.dims()[axis]).product();
    let mut shares = Tensor::uninitialised::<T>(Shape::from([dy.len()]));
    map(dy, shares.make_mut(), |dy| dy.over(count));
    spread(shares.slice(), shape, axes, out);
}

/// The gradient of the greatest or least: `dy`, shared equally among the elements that equal `y`.
pub(crate) fn extreme<T: Float>(
    dy: &[T],
    x: &[T],
    y: &[T],
    shape: Shape,
    axes: Axes,
    out: &mut [T],
) {
    let (mut chosen, mut spread_out) = (vec![T::ZERO; x.len()], vec![T::ZERO; x.len()]);
    spread(y, shape, axes, &mut spread_out);
    map2(x, &spread_out, &mut chosen, |x, y| if x == y { T::ONE } else { T::ZERO });
    let mut counts = vec![T::ZERO; dy.len()];
    reduce::numbers(Reduction::Sum, &chosen, shape, axes, &mut counts);
    let shares: Vec<T> = dy.iter().zip(counts).map(|(dy, count)| dy.quotient(count)).collect();
    spread(&shares, shape, axes, &mut spread_out);
    map2(&chosen, &spread_out, out, T::times);
}

/// The gradient of a product: `dy` times all other elements, also if some are zero.
pub(crate) fn product<T: Float>(dy: &[T], x: &[T], shape: Shape, axes: Axes, out: &mut [T]) {
    product_of_runs(dy, x, &runs(shape, axes), out);
}

/// The product of the first run's results is what the others are of.
fn product_of_runs<T: Float>(dy: &[T], x: &[T], runs: &[Run], out: &mut [T]) {
    let Some((run, others)) = runs.split_first() else { return out.copy_from_slice(dy) };
    let mut products = vec![T::ONE; run.outer * run.inner];
    reduce::fold_run(x, *run, T::ONE, T::times, &mut products);
    let mut by_product = vec![T::ZERO; products.len()];
    product_of_runs(dy, &products, others, &mut by_product);
    if out.is_empty() {
        return;
    }
    let Run { reduced, inner, .. } = *run;
    let (rows, spread) = (reduced * inner, out.len() >= PARALLEL_FROM);
    for_pieces(out, rows, spread, &|i, out| {
        others_times(&by_product[i * inner..][..inner], &x[i * rows..][..rows], inner, out);
    });
}

/// `out[r, c] = (x[0, c] ... x[r - 1, c]) (dy[c] x[last, c] ... x[r + 1, c])`, of rows of `inner`
/// elements.
fn others_times<T: Float>(dy: &[T], x: &[T], inner: usize, out: &mut [T]) {
    let mut before = vec![T::ONE; inner];
    for (out, x) in out.chunks_exact_mut(inner).zip(x.chunks_exact(inner)) {
        out.copy_from_slice(&before);
        before.iter_mut().zip(x).for_each(|(before, x)| *before = before.times(*x));
    }
    let mut behind = dy.to_vec();
    for (out, x) in out.chunks_exact_mut(inner).zip(x.chunks_exact(inner)).rev() {
        out.iter_mut().zip(&behind).for_each(|(out, behind)| *out = out.times(*behind));
        behind.iter_mut().zip(x).for_each(|(behind, x)| *behind = behind.times(*x));
    }
}

/// The value of each result, for all `reduced` rows of `inner` elements that it was made of.
fn spread_run<T: Float>(dy: &[T], Run { reduced, inner, .. }: Run, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    if inner == 1 {
        return for_chunks(out, reduced, |start, out| {
            let values = &dy[start / reduced..];
            out.chunks_exact_mut(reduced).zip(values).for_each(|(out, value)| out.fill(*value));
        });
    }
    for_chunks(out, inner, |start, out| {
        for (row, out) in (start / inner..).zip(out.chunks_exact_mut(inner)) {
            out.copy_from_slice(&dy[row / reduced * inner..][..inner]);
        }
    });
}
