//! Moving elements between a dense tensor and a view of another: transposition, slices, tiles,
//! reversal.
//!
//! A view selects elements of a slice by a length and a step for each axis. A step may be negative,
//! or 0 if one element stands for many. Copies are the same on any number of threads; sums are
//! added one element after the other, in the order of the dense operand.

use std::ops::Range;

use pulp::NullaryFnOnce;
use smallvec::SmallVec;

use super::parallel::{for_chunks, vectorised};

/// Elements of a slice, in the view's own row-major order.
#[derive(Clone, Debug)]
pub(crate) struct View {
    first: isize,
    axes: SmallVec<[Axis; 6]>,
}

/// An axis of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) len: usize,
    /// The distance of two neighbours in the slice, in elements.
    pub(crate) step: isize,
}

impl View {
    /// The elements from the one at `first` on.
    pub(crate) fn new(first: isize, axes: impl IntoIterator<Item = Axis>) -> Self {
        Self { first, axes: axes.into_iter().collect() }
    }

    /// The same elements by fewer axes: those of length 1 left out, those that go on where the next
    /// ends joined.
    fn joined(&self) -> Self {
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        for axis in self.axes.iter().filter(|axis| axis.len != 1) {
            match axes.last_mut() {
                Some(last) if last.step == axis.step * axis.len as isize => {
                    *last = Axis { len: last.len * axis.len, step: axis.step };
                }
                _ => axes.push(*axis),
            }
        }
        Self { first: self.first, axes }
    }

    /// The outer axes, and the innermost; an axis of one element if there are no axes.
    fn rows(&self) -> (&[Axis], Axis) {
        self.axes
            .split_last()
            .map_or((&[], Axis { len: 1, step: 1 }), |(inner, outer)| (outer, *inner))
    }
}

/// The steps from one element of a dense tensor to the next along each axis.
pub(crate) fn dense(dims: &[usize]) -> SmallVec<[Axis; 6]> {
    let mut step = 1;
    let mut axes: SmallVec<[Axis; 6]> =
        dims.iter().map(|len| Axis { len: *len, step: 0 }).collect();
    for axis in axes.iter_mut().rev() {
        axis.step = step;
        step *= axis.len as isize;
    }
    axes
}

/// The place of each combination of positions along `axes`, in row-major order, over and over.
struct Walk<'a> {
    axes: &'a [Axis],
    at: SmallVec<[usize; 6]>,
    place: isize,
}

impl<'a> Walk<'a> {
    /// Begins with combination number `begin`.
    fn new(first: isize, axes: &'a [Axis], mut begin: usize) -> Self {
        let (mut at, mut place): (SmallVec<[usize; 6]>, _) =
            (SmallVec::from_elem(0, axes.len()), first);
        for (at, axis) in at.iter_mut().zip(axes).rev() {
            *at = begin % axis.len;
            begin /= axis.len;
            place += *at as isize * axis.step;
        }
        Self { axes, at, place }
    }
}

impl Iterator for Walk<'_> {
    type Item = isize;

    #[inline]
    fn next(&mut self) -> Option<isize> {
        let place = self.place;
        for (at, axis) in self.at.iter_mut().zip(self.axes).rev() {
            *at += 1;
            self.place += axis.step;
            if *at < axis.len {
                break;
            }
            self.place -= axis.step * axis.len as isize;
            *at = 0;
        }
        Some(place)
    }
}

/// `out[i] = x[view[i]]`.
pub(crate) fn copy<T: Copy + Send + Sync>(x: &[T], view: &View, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let view = view.joined();
    let (outer, inner) = view.rows();
    match outer.iter().position(|axis| axis.step == 1 && axis.len > 1) {
        Some(at) if inner.step > 1 => transposed(x, &view, at, out),
        _ => for_chunks(out, 1, |begin, out| {
            let mut places = Walk::new(view.first, outer, begin / inner.len);
            for_rows(begin, out, inner.len, |columns, out| {
                let place = places.next().unwrap_or_default() + columns.start as isize * inner.step;
                copy_row(x, place, inner.step, out);
            });
        }),
    }
}

/// Calls `work` for the part of each row of `len` elements that is in `part`, which begins at
/// `begin`.
fn for_rows<T>(
    begin: usize,
    mut part: &mut [T],
    len: usize,
    mut work: impl FnMut(Range<usize>, &mut [T]),
) {
    let mut column = begin % len;
    while !part.is_empty() {
        let here = (len - column).min(part.len());
        let (row, rest) = part.split_at_mut(here);
        work(column..column + here, row);
        (part, column) = (rest, 0);
    }
}

#[inline]
fn copy_row<T: Copy>(x: &[T], place: isize, step: isize, out: &mut [T]) {
    match step {
        1 => out.copy_from_slice(&x[place as usize..][..out.len()]),
        0 => out.fill(x[place as usize]),
        _ => (0..).zip(out).for_each(|(i, out)| *out = x[(place + i * step) as usize]),
    }
}

/// The number of rows and columns that are transposed at a time: a cache line of 4-byte elements.
const TILE: usize = 16;

/// [`copy`] of a view whose axis `at` is dense in `x`, and whose innermost is not.
fn transposed<T: Copy + Send + Sync>(x: &[T], view: &View, at: usize, out: &mut [T]) {
    let (before, rest) = view.axes.split_at(at);
    let (rows, columns) = (rest[0].len, rest[rest.len() - 1]);
    let between = &rest[1..rest.len() - 1];
    let row_step = rest[1..].iter().map(|axis| axis.len).product::<usize>();
    let unit = row_step * if before.is_empty() { TILE } else { rows };
    for_chunks(out, unit, |begin, out| {
        let first_row = begin / row_step % rows;
        let mut places = Walk::new(view.first, before, begin / (row_step * rows));
        for block in out.chunks_mut(row_step * rows) {
            let place = places.next().unwrap_or_default() + first_row as isize;
            let offsets = (0..row_step).step_by(columns.len);
            for (offset, place) in offsets.zip(Walk::new(place, between, 0)) {
                let from = Columns {
                    x: &x[place as usize..],
                    step: columns.step as usize,
                    len: columns.len,
                };
                vectorised(Transpose {
                    from,
                    rows: block.len() / row_step,
                    out: &mut block[offset..],
                    row_step,
                });
            }
        }
    });
}

/// `len` columns, each dense and `step` elements after the one before.
struct Columns<'a, T> {
    x: &'a [T],
    step: usize,
    len: usize,
}

/// Writes columns as rows: `out[r * row_step + c] = x[c * step + r]`.
struct Transpose<'a, T> {
    from: Columns<'a, T>,
    out: &'a mut [T],
    rows: usize,
    row_step: usize,
}

impl<T: Copy> NullaryFnOnce for Transpose<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        const SIDE: usize = 8;
        let Self { from: Columns { x, step, len }, out, rows, row_step } = self;
        for row in (0..rows).step_by(TILE) {
            let high = TILE.min(rows - row);
            for column in (0..len).step_by(SIDE) {
                let wide = SIDE.min(len - column);
                for row in (row..row + high).step_by(SIDE) {
                    if wide == SIDE && row + SIDE <= rows {
                        let read = |c: usize| -> &[T] { &x[(column + c) * step + row..][..SIDE] };
                        let tile: [&[T]; SIDE] = std::array::from_fn(read);
                        for r in 0..SIDE {
                            let turned: [T; SIDE] = std::array::from_fn(|c| tile[c][r]);
                            out[(row + r) * row_step + column..][..SIDE].copy_from_slice(&turned);
                        }
                        continue;
                    }
                    for r in row..rows.min(row + SIDE) {
                        let out = &mut out[r * row_step + column..][..wide];
                        (column..).zip(out).for_each(|(c, out)| *out = x[c * step + r]);
                    }
                }
            }
        }
    }
}

/// `out[view[i]] = x[i]`, in order.
pub(crate) fn spread<T: Copy>(x: &[T], view: &View, out: &mut [T]) {
    each(x, view, out, |out, x| *out = x);
}

/// `out[view[i]] += x[i]`, in order.
pub(crate) fn accumulate<T: Copy + std::ops::Add<Output = T>>(x: &[T], view: &View, out: &mut [T]) {
    each(x, view, out, |out, x| *out = *out + x);
}

#[inline(always)]
fn each<T: Copy>(x: &[T], view: &View, out: &mut [T], put: impl Fn(&mut T, T) + Copy) {
    if x.is_empty() {
        return;
    }
    let view = view.joined();
    let (outer, inner) = view.rows();
    for (x, place) in x.chunks(inner.len).zip(Walk::new(view.first, outer, 0)) {
        match inner.step {
            1 => {
                let out = &mut out[place as usize..][..x.len()];
                vectorised(|| out.iter_mut().zip(x).for_each(|(out, x)| put(out, *x)));
            }
            step => (0..).zip(x).for_each(|(i, x)| put(&mut out[(place + i * step) as usize], *x)),
        }
    }
}
