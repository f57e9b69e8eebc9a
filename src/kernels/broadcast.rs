//! Operands of several shapes, broadcast by the rules of NumPy, and sums back over broadcast
//! dimensions.

use pulp::NullaryFnOnce;
use smallvec::SmallVec;

use super::number::Float;
use super::parallel::{PARALLEL_FROM, for_chunks, for_pieces, vectorised};
use super::{reduce, rows};
use crate::tensor::Shape;

/// The layout of `N` operands beside a result: its dimensions, innermost first, and for each the
/// distance that an operand moves with a step along it: 0 if it is broadcast. Dimensions along
/// which all operands go on alike are joined; none is of size 1.
#[derive(Debug)]
pub(super) struct Layout<const N: usize> {
    dims: SmallVec<[(usize, [usize; N]); 6]>,
}

impl<const N: usize> Layout<N> {
    /// # Panics
    /// If a shape does not broadcast to `out`.
    pub(super) fn new(shapes: [Shape; N], out: Shape) -> Self {
        let mut dims: SmallVec<[(usize, [usize; N]); 6]> = SmallVec::new();
        let mut moved = [1; N];
        for (axis, size) in out.dims().iter().copied().enumerate().rev() {
            let mut strides = [0; N];
            for (k, shape) in shapes.iter().enumerate() {
                let own = (axis + shape.rank())
                    .checked_sub(out.rank())
                    .map_or(1, |axis| shape.dims()[axis]);
                assert!(own == size || own == 1, "{shape} does not broadcast to {out}");
                if own != 1 {
                    strides[k] = moved[k];
                    moved[k] *= own;
                }
            }
            match dims.last_mut() {
                _ if size == 1 => {}
                Some((inner, inner_strides))
                    if (0..N).all(|k| strides[k] == inner_strides[k] * *inner) =>
                {
                    *inner *= size;
                }
                _ => dims.push((size, strides)),
            }
        }
        Self { dims }
    }

    /// Cuts `out`, which begins at element `start` of the result, into pieces within its innermost
    /// dimension. Calls `work(piece, each operand's position at its beginning, each operand's
    /// step)`.
    #[inline(always)]
    fn for_pieces<Y>(
        &self,
        start: usize,
        out: &mut [Y],
        mut work: impl FnMut(&mut [Y], [usize; N], [usize; N]),
    ) {
        if out.is_empty() {
            return;
        }
        let (size, strides) = self.dims.first().copied().unwrap_or((1, [0; N]));
        let (mut row, mut within) = (start / size, start % size);
        let mut left = out;
        while !left.is_empty() {
            let (piece, others) = left.split_at_mut(left.len().min(size - within));
            let mut offsets = self.offsets(row);
            offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset += within * stride);
            work(piece, offsets, strides);
            (left, row, within) = (others, row + 1, 0);
        }
    }

    /// The position of each operand at the beginning of a row of the result; a row is the innermost
    /// dimension.
    #[inline(always)]
    fn offsets(&self, mut row: usize) -> [usize; N] {
        let mut offsets = [0; N];
        let [_, middle @ .., (_, strides)] = self.dims.as_slice() else { return offsets };
        for (size, strides) in middle {
            let at = row % size;
            row /= size;
            offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset += at * stride);
        }
        offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset += row * stride);
        offsets
    }
}

/// The shape that both broadcast to.
///
/// # Panics
/// If they can't be broadcast to one.
pub(crate) fn shape_of(a: Shape, b: Shape) -> Shape {
    let (long, short) = if a.rank() < b.rank() { (b, a) } else { (a, b) };
    let mut dims: SmallVec<[usize; 6]> = SmallVec::from_slice(long.dims());
    for (dim, other) in dims.iter_mut().rev().zip(short.dims().iter().rev()) {
        assert!(*dim == *other || *dim == 1 || *other == 1, "{a} and {b} do not broadcast");
        *dim = if *dim == 1 { *other } else { *dim };
    }
    Shape::new(&dims)
}

/// An operand and its shape.
pub(crate) type Operand<'a, X> = (&'a [X], Shape);

/// `out[i] = op(a[i], b[i])`, both broadcast to the shape `out_shape`.
#[inline(always)]
pub(crate) fn map2_broadcast<X: Copy + Sync, Y: Send>(
    (a, a_shape): Operand<'_, X>,
    (b, b_shape): Operand<'_, X>,
    out: &mut [Y],
    out_shape: Shape,
    op: impl Fn(X, X) -> Y + Copy + Sync,
) {
    let layout = &Layout::new([a_shape, b_shape], out_shape);
    for_chunks(out, 1, |start, out| vectorised(Zipped { layout, start, a, b, out, op }));
}

/// A part of a result of two broadcast operands, from element `start` on.
struct Zipped<'a, X, Y, F> {
    layout: &'a Layout<2>,
    start: usize,
    a: &'a [X],
    b: &'a [X],
    out: &'a mut [Y],
    op: F,
}

impl<X: Copy, Y, F: Fn(X, X) -> Y> NullaryFnOnce for Zipped<'_, X, Y, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self { layout, start, a, b, out, op } = self;
        layout.for_pieces(start, out, |out, [a_at, b_at], strides| {
            let (a, b) = (&a[a_at..], &b[b_at..]);
            match strides {
                [0, _] => out.iter_mut().zip(b).for_each(|(out, b)| *out = op(a[0], *b)),
                [_, 0] => out.iter_mut().zip(a).for_each(|(out, a)| *out = op(*a, b[0])),
                _ => {
                    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = op(*a, *b))
                }
            }
        });
    }
}

/// `out[i] = if condition[i] { a[i] } else { b[i] }`, all broadcast to `out_shape` (TensorFlow
/// `SelectV2`).
pub(crate) fn select<X: Copy + Send + Sync>(
    (condition, condition_shape): Operand<'_, bool>,
    (a, a_shape): Operand<'_, X>,
    (b, b_shape): Operand<'_, X>,
    out: &mut [X],
    out_shape: Shape,
) {
    let layout = &Layout::new([condition_shape, a_shape, b_shape], out_shape);
    for_chunks(out, 1, |start, out| vectorised(Selected { layout, start, condition, a, b, out }));
}

/// A part of a selection, from element `start` on.
struct Selected<'a, X> {
    layout: &'a Layout<3>,
    start: usize,
    condition: &'a [bool],
    a: &'a [X],
    b: &'a [X],
    out: &'a mut [X],
}

impl<X: Copy> NullaryFnOnce for Selected<'_, X> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self { layout, start, condition, a, b, out } = self;
        layout.for_pieces(start, out, |out, [c_at, a_at, b_at], strides| {
            let (c, a, b) = (&condition[c_at..], &a[a_at..], &b[b_at..]);
            let out = out.iter_mut();
            match strides {
                [0, a_moves, b_moves] => {
                    let (chosen, moves) = if c[0] { (a, a_moves) } else { (b, b_moves) };
                    out.enumerate().for_each(|(i, out)| *out = chosen[i * moves]);
                }
                [_, 0, 0] => out.zip(c).for_each(|(out, c)| *out = if *c { a[0] } else { b[0] }),
                [_, 0, _] => out
                    .zip(c.iter().zip(b))
                    .for_each(|(out, (c, b))| *out = if *c { a[0] } else { *b }),
                [_, _, 0] => out
                    .zip(c.iter().zip(a))
                    .for_each(|(out, (c, a))| *out = if *c { *a } else { b[0] }),
                _ => {
                    let values = c.iter().zip(a.iter().zip(b));
                    out.zip(values).for_each(|(out, (c, (a, b)))| *out = if *c { *a } else { *b });
                }
            }
        });
    }
}

/// The sums of `x`, of shape `x_shape`, over the dimensions along which `out_shape` broadcasts to
/// it.
///
/// Order: one dimension after the other, from the innermost; rows as [`reduce::all`] folds them,
/// other dimensions as [`rows::bias_add_grad`] does.
pub(crate) fn sum_to<T: Float>((x, x_shape): Operand<'_, T>, out: &mut [T], out_shape: Shape) {
    let layout = Layout::new([out_shape], x_shape);
    if x.is_empty() || out.is_empty() {
        return out.fill(T::ZERO);
    }
    let mut left: Vec<T> = Vec::new();
    let (mut inner, mut is_copy) = (1, true);
    for (size, [stride]) in &layout.dims {
        if *stride > 0 {
            inner *= size;
            continue;
        }
        let from = if is_copy { x } else { &left };
        let mut sums = vec![T::ZERO; from.len() / size];
        let (block, spread) = (size * inner, from.len() >= PARALLEL_FROM);
        for_pieces(&mut sums, inner, spread, &|i, sums| {
            let block = &from[i * block..][..block];
            match sums {
                [sum] => *sum = reduce::all(block, T::ZERO, T::plus),
                sums => rows::bias_add_grad(block, sums),
            }
        });
        (left, is_copy) = (sums, false);
    }
    out.copy_from_slice(if is_copy { x } else { &left });
}
