//! Cuts a kernel's work, vectorises it and spreads it over threads.
//!
//! Every loop here runs its chunk through [`vectorised`] and, from [`PARALLEL_FROM`] elements, its
//! chunks on rayon. Chunks never depend on the number of threads.

use std::marker::PhantomData;

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

/// The size from which a kernel is spread over threads, in elements.
///
/// Measured: a second thread that is awake halves the time from a quarter of this on; one that
/// sleeps takes 20 to 50 us to wake, as long as 2^18 additions take on one thread.
pub(crate) const PARALLEL_FROM: usize = 1 << 18;

/// The number of elements that one thread takes at a time: 64 KiB, so that three operands fit a
/// second-level cache.
pub(super) const CHUNK: usize = 1 << 14;

/// Runs `work`, compiled for the widest vectors that this machine has.
///
/// The compiler must inline `work` for this, which it does with a closure of one loop. Longer work
/// is a struct of its operands whose `call` is marked `#[inline(always)]`, which a closure can't
/// be.
#[inline(always)]
pub(crate) fn vectorised<W: NullaryFnOnce>(work: W) -> W::Output {
    Arch::new().dispatch(work)
}

/// The widest vectors that kernels use on this machine, if they use any.
pub(crate) fn instructions() -> Option<&'static str> {
    match Arch::new() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(_) => Some("AVX-512"),
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => Some("AVX2 and FMA"),
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => Some("NEON"),
        _ => None,
    }
}

/// `out[i] = op(x[i])`.
#[inline(always)]
pub(crate) fn map<X, Y>(x: &[X], out: &mut [Y], op: impl Fn(X) -> Y + Copy + Sync)
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
pub(crate) fn map2<X, Y>(a: &[X], b: &[X], out: &mut [Y], op: impl Fn(X, X) -> Y + Copy + Sync)
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
pub(crate) fn for_chunks<Y: Send>(
    out: &mut [Y],
    unit: usize,
    work: impl Fn(usize, &mut [Y]) + Sync,
) {
    chunks(out, unit, &work);
}

fn chunks<Y: Send>(out: &mut [Y], unit: usize, work: &(dyn Fn(usize, &mut [Y]) + Sync)) {
    if out.len() < PARALLEL_FROM {
        return work(0, out);
    }
    let chunk = (CHUNK / unit).max(1) * unit;
    for_pieces(out, chunk, true, &|i, out| work(i * chunk, out));
}

/// Calls `work` with each number below `count`: on rayon's threads if `spread`, or in order.
///
/// The work is behind a pointer: a call for each piece costs nothing, and the code that spreads the
/// calls over threads is compiled once. Compiling it for each kernel and element type took half a
/// minute.
pub(super) fn for_each(count: usize, spread: bool, work: &(dyn Fn(usize) + Sync)) {
    if spread {
        (0..count).into_par_iter().for_each(work);
    } else {
        (0..count).for_each(work);
    }
}

/// Calls `work(i, piece)` for each piece of `len` elements of `out`; the last may have fewer.
pub(super) fn for_pieces<T: Send>(
    out: &mut [T],
    len: usize,
    spread: bool,
    work: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let pieces = Pieces::new(out, len);
    for_each(pieces.count(), spread, &|i| {
        // SAFETY: `for_each` gives each number once.
        #[expect(unsafe_code, reason = "threads write pieces of one slice")]
        work(i, unsafe { pieces.piece(i) });
    });
}

/// The work on two slices' pieces of the same number.
type WorkOnTwo<'a, T, U> = dyn Fn(usize, &mut [T], &mut [U]) + Sync + 'a;

/// As [`for_pieces`], for two slices with as many pieces each, of the lengths `lens`.
pub(super) fn for_pieces_of_two<T: Send, U: Send>(
    (one, other): (&mut [T], &mut [U]),
    lens: [usize; 2],
    spread: bool,
    work: &WorkOnTwo<'_, T, U>,
) {
    let (one, other) = (Pieces::new(one, lens[0]), Pieces::new(other, lens[1]));
    assert_eq!(one.count(), other.count(), "each piece has one beside it");
    for_each(one.count(), spread, &|i| {
        // SAFETY: `for_each` gives each number once.
        #[expect(unsafe_code, reason = "threads write pieces of two slices")]
        let (one, other) = unsafe { (one.piece(i), other.piece(i)) };
        work(i, one, other);
    });
}

/// A slice that several threads write, piece by piece.
struct Pieces<'a, T> {
    start: *mut T,
    elements: usize,
    /// The length of each piece; the last may have fewer elements.
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: each thread accesses only elements that no other thread accesses, and may send them.
#[expect(unsafe_code, reason = "threads write pieces of one slice")]
unsafe impl<T: Send> Sync for Pieces<'_, T> {}

impl<'a, T: Send> Pieces<'a, T> {
    fn new(slice: &'a mut [T], len: usize) -> Self {
        let elements = slice.len();
        assert!(len > 0 || elements == 0, "a piece has elements");
        Self { start: slice.as_mut_ptr(), elements, len, slice: PhantomData }
    }

    fn count(&self) -> usize {
        if self.elements == 0 { 0 } else { self.elements.div_ceil(self.len) }
    }

    /// Piece `i`.
    ///
    /// # Safety
    /// Each piece must be taken only once.
    #[expect(unsafe_code, reason = "threads write pieces of one slice")]
    #[expect(clippy::mut_from_ref, reason = "each piece is asked for once")]
    unsafe fn piece(&self, i: usize) -> &mut [T] {
        let begin = i * self.len;
        assert!(begin < self.elements, "there are {} pieces", self.count());
        let len = self.len.min(self.elements - begin);
        // SAFETY: the piece is within the slice, which is borrowed for as long as `self`, and no
        // other piece has an element of it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(begin), len) }
    }
}
