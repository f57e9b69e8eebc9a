//! Kernels that pad a value, and that join values.

use smallvec::SmallVec;

use super::parallel::{for_chunks, map};
use crate::graph::Mirror;

/// An axis, with the numbers of elements to add before and after its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padded {
    pub(crate) before: usize,
    pub(crate) len: usize,
    pub(crate) after: usize,
}

impl Padded {
    fn width(self) -> usize {
        self.before + self.len + self.after
    }

    fn is_bare(self) -> bool {
        self.before + self.after == 0
    }
}

/// The same elements by fewer axes: an axis without padding is joined to the axis outside it.
fn joined(axes: &[Padded]) -> SmallVec<[Padded; 6]> {
    let mut joined: SmallVec<[Padded; 6]> = SmallVec::new();
    for axis in axes {
        match joined.last_mut() {
            Some(last) if axis.is_bare() => {
                let times = |n: usize| n * axis.len;
                *last = Padded {
                    before: times(last.before),
                    len: times(last.len),
                    after: times(last.after),
                };
            }
            _ => joined.push(*axis),
        }
    }
    joined
}

/// `x` with `value` around it (TensorFlow `PadV2`).
pub(crate) fn pad<T: Copy + Send + Sync>(x: &[T], axes: &[Padded], value: T, out: &mut [T]) {
    let axes = joined(axes);
    let Some((inner, outer)) = axes.split_last() else { return out.copy_from_slice(x) };
    let width = inner.width();
    if out.is_empty() {
        return;
    }
    for_chunks(out, width, |begin, out| {
        for (row, out) in (begin / width..).zip(out.chunks_mut(width)) {
            let Some(from) = row_within(row, outer) else {
                out.fill(value);
                continue;
            };
            out[..inner.before].fill(value);
            out[inner.before..][..inner.len].copy_from_slice(&x[from * inner.len..][..inner.len]);
            out[inner.before + inner.len..].fill(value);
        }
    });
}

/// The unpadded row at the padded `row`; `None` if that is padding.
fn row_within(mut row: usize, outer: &[Padded]) -> Option<usize> {
    let (mut within, mut step) = (0, 1);
    for axis in outer.iter().rev() {
        let at = (row % axis.width()).checked_sub(axis.before).filter(|at| *at < axis.len)?;
        row /= axis.width();
        within += at * step;
        step *= axis.len;
    }
    Some(within)
}

/// `x` with itself, mirrored, around it (TensorFlow `MirrorPad`).
pub(crate) fn mirror_pad<T: Copy + Send + Sync>(
    x: &[T],
    axes: &[Padded],
    mirror: Mirror,
    out: &mut [T],
) {
    let origins = Origins::new(axes, mirror);
    let width = origins.inner.len();
    if out.is_empty() {
        return;
    }
    for_chunks(out, width, |begin, out| {
        for (row, out) in (begin / width..).zip(out.chunks_mut(width)) {
            let x = &x[origins.of_row(row) * origins.inner_len..][..origins.inner_len];
            out.iter_mut().zip(&origins.inner).for_each(|(out, from)| *out = x[*from]);
        }
    });
}

/// The gradient of [`mirror_pad`], added to `out`, which begins as zeros: the elements of the
/// padding are added to their origins, in the order of `dy`.
pub(crate) fn mirror_pad_grad<T>(dy: &[T], axes: &[Padded], mirror: Mirror, out: &mut [T])
where
    T: Copy + std::ops::AddAssign,
{
    let origins = Origins::new(axes, mirror);
    for (row, dy) in dy.chunks(origins.inner.len().max(1)).enumerate() {
        let out = &mut out[origins.of_row(row) * origins.inner_len..][..origins.inner_len];
        dy.iter().zip(&origins.inner).for_each(|(dy, to)| out[*to] += *dy);
    }
}

/// The origin of each element of a mirrored value.
struct Origins {
    /// By outer axis and position: the position that is mirrored there, and the length of the axis.
    outer: SmallVec<[(Vec<usize>, usize); 6]>,
    inner: Vec<usize>,
    inner_len: usize,
}

impl Origins {
    fn new(axes: &[Padded], mirror: Mirror) -> Self {
        let own = usize::from(mirror == Mirror::Reflect);
        let origins = |axis: &Padded| {
            let before = (0..axis.before).rev().map(|distance| distance + own);
            let after = (0..axis.after).map(|distance| axis.len - 1 - own - distance);
            (before.chain(0..axis.len).chain(after).collect(), axis.len)
        };
        let mut outer: SmallVec<[(Vec<usize>, usize); 6]> = axes.iter().map(origins).collect();
        let (inner, inner_len) = outer.pop().unwrap_or_else(|| (vec![0], 1));
        Self { outer, inner, inner_len }
    }

    fn of_row(&self, mut row: usize) -> usize {
        let (mut origin, mut step) = (0, 1);
        for (origins, len) in self.outer.iter().rev() {
            origin += origins[row % origins.len()] * step;
            row /= origins.len();
            step *= len;
        }
        origin
    }
}

/// Joins the inputs' rows one after the other, row by row; each input comes with the length of its
/// rows (TensorFlow `ConcatV2`).
pub(crate) fn concat<T: Copy + Send + Sync>(inputs: &[(&[T], usize)], out: &mut [T]) {
    let width: usize = inputs.iter().map(|(_, width)| width).sum();
    if out.len() == width {
        let mut rest = out;
        for (x, _) in inputs {
            let (part, after) = rest.split_at_mut(x.len());
            map(x, part, |x| x);
            rest = after;
        }
        return;
    }
    if out.is_empty() {
        return;
    }
    for_chunks(out, width, |begin, out| {
        for (row, mut out) in (begin / width..).zip(out.chunks_mut(width)) {
            for (x, width) in inputs {
                let (part, after) = out.split_at_mut(*width);
                part.copy_from_slice(&x[row * width..][..*width]);
                out = after;
            }
        }
    });
}
