//! How a kernel's work is cut, vectorised and spread over threads.
//!
//! Every loop here runs its chunk through [`vectorised`] and, from [`PARALLEL_FROM`] elements, its
//! chunks on rayon. Chunks never depend on the number of threads.

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

/// The size from which a kernel is spread over threads, in elements.
///
/// Measured: a second thread that is awake halves the time from a quarter of this on; one that
/// sleeps takes 20 to 50 us to wake, as long as 2^18 additions take on one thread.
pub(crate) const PARALLEL_FROM: usize = 1 << 18;

/// What one thread takes at a time, in elements: 64 KiB, so that three operands fit a second-level
/// cache.
pub(super) const CHUNK: usize = 1 << 14;

/// Runs `work`, compiled for the widest vectors that this machine has.
///
/// That is so as far as the compiler inlines `work`, which it does with a closure of one loop.
/// Longer work is a struct of its operands whose `call` is marked `#[inline(always)]`; a closure
/// can't be.
#[inline(always)]
pub(super) fn vectorised<W: NullaryFnOnce>(work: W) -> W::Output {
    Arch::new().dispatch(work)
}

/// `out[i] = op(x[i])`.
#[inline(always)]
pub(super) fn map<X, Y>(x: &[X], out: &mut [Y], op: impl Fn(X) -> Y + Copy + Sync)
where
    X: Copy + Sync,
    Y: Send,
{
    assert_eq!(x.len(), out.len(), "an elementwise kernel writes as many values as it reads");
    for_chunks(out, 1, |start, out| {
        let x = &x[start..][..out.len()];
        vectorised(|| x.iter().zip(out).for_each(|(x, out)| *out = op(*x)));
    });
}

/// `out[i] = op(a[i], b[i])`.
#[inline(always)]
pub(super) fn map2<X, Y>(a: &[X], b: &[X], out: &mut [Y], op: impl Fn(X, X) -> Y + Copy + Sync)
where
    X: Copy + Sync,
    Y: Send,
{
    assert_eq!(a.len(), b.len(), "the operands of an elementwise kernel have one shape");
    assert_eq!(a.len(), out.len(), "an elementwise kernel writes as many values as it reads");
    for_chunks(out, 1, |start, out| {
        let (a, b) = (&a[start..][..out.len()], &b[start..][..out.len()]);
        vectorised(|| a.iter().zip(b).zip(out).for_each(|((a, b), out)| *out = op(*a, *b)));
    });
}

/// Calls `work(first element of the chunk, chunk of out)` for chunks of about [`CHUNK`] elements
/// that begin at multiples of `unit` (a row, a block).
#[inline(always)]
pub(super) fn for_chunks<Y: Send>(
    out: &mut [Y],
    unit: usize,
    work: impl Fn(usize, &mut [Y]) + Sync,
) {
    spread(out, unit, &work);
}

/// As [`for_chunks`], with the work behind a pointer: a call a chunk costs nothing, and what
/// spreads the chunks over threads is compiled once, not once a kernel, which would take minutes.
fn spread<Y: Send>(out: &mut [Y], unit: usize, work: &(dyn Fn(usize, &mut [Y]) + Sync)) {
    if out.len() < PARALLEL_FROM {
        return work(0, out);
    }
    let chunk = (CHUNK / unit).max(1) * unit;
    out.par_chunks_mut(chunk).enumerate().for_each(|(i, out)| work(i * chunk, out));
}
