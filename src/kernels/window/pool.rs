//! Pools: the greatest or the mean of a window's elements, a channel apart.

use std::ops::Range;

use pulp::NullaryFnOnce;

use super::super::parallel::{for_chunks, vectorised};
use super::Windows;

/// The number of channels that are taken at a time: one for each lane of the widest vectors.
const LANES: usize = 16;

/// `out`: the greatest of each window's elements (TensorFlow `MaxPool`). A NaN is never greatest,
/// unless it is the window's first.
pub(crate) fn max_pool(x: &[f32], out: &mut [f32], windows: &Windows, channels: usize) {
    pool::<true>(x, out, windows, channels);
}

/// `out`: the mean of each window's elements, of those that are in the image (TensorFlow
/// `AvgPool`).
///
/// Order: from the window's first row to its last.
pub(crate) fn avg_pool(x: &[f32], out: &mut [f32], windows: &Windows, channels: usize) {
    pool::<false>(x, out, windows, channels);
}

/// `out`: `dy` at the first element of each window that is its greatest, which `y` tells, 0
/// elsewhere (TensorFlow `MaxPoolGrad`).
///
/// Order: an element in several windows has the sum over them, from the first to the last.
pub(crate) fn max_pool_grad(
    x: &[f32],
    y: &[f32],
    dy: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: usize,
) {
    let grid = Grid { windows, channels };
    assert!(
        x.len() == grid.images() && y.len() == grid.results(),
        "images and maxima have their sizes"
    );
    assert!(
        dy.len() == y.len() && out.len() == x.len(),
        "gradients have the sizes of what they are of"
    );
    for_chunks(out, grid.image().max(1), |start, out| {
        let y = &y[grid.results_at(start)..];
        vectorised(MaxBackward {
            grid,
            x: &x[start..][..out.len()],
            y,
            dy: &dy[grid.results_at(start)..],
            out,
        });
    });
}

/// `out`: `dy` in equal shares to each window's elements (TensorFlow `AvgPoolGrad`).
///
/// Order: an element in several windows has the sum over them, from the first to the last.
pub(crate) fn avg_pool_grad(dy: &[f32], out: &mut [f32], windows: &Windows, channels: usize) {
    let grid = Grid { windows, channels };
    assert!(
        out.len() == grid.images() && dy.len() == grid.results(),
        "gradients have the sizes of what they are of"
    );
    for_chunks(out, grid.image().max(1), |start, out| {
        vectorised(AvgBackward { grid, dy: &dy[grid.results_at(start)..], out });
    });
}

fn pool<const MAX: bool>(x: &[f32], out: &mut [f32], windows: &Windows, channels: usize) {
    let grid = Grid { windows, channels };
    assert!(
        x.len() == grid.images() && out.len() == grid.results(),
        "images and results have their sizes"
    );
    let row = windows.places[1] * channels;
    for_chunks(out, row.max(1), |start, out| {
        vectorised(Forward::<MAX> { grid, x, first: start / row.max(1), out })
    });
}

/// Windows over images of so many channels.
#[derive(Clone, Copy)]
struct Grid<'a> {
    windows: &'a Windows,
    channels: usize,
}

/// The elements of a window that are in the image, and the place of its results among the image's.
struct PooledWindow {
    rows: Range<usize>,
    columns: Range<usize>,
    at: usize,
}

impl Grid<'_> {
    fn image(&self) -> usize {
        self.windows.extent[0] * self.windows.extent[1] * self.channels
    }

    fn images(&self) -> usize {
        self.windows.images * self.image()
    }

    fn results(&self) -> usize {
        self.windows.len() * self.channels
    }

    /// The place of the results of the image whose elements begin at `start`.
    fn results_at(&self, start: usize) -> usize {
        start / self.image().max(1)
            * self.windows.places[0]
            * self.windows.places[1]
            * self.channels
    }

    #[inline(always)]
    fn covered(&self, axis: usize, place: usize) -> Range<usize> {
        let Windows { strides, before, size, extent, .. } = self.windows;
        let first = place * strides[axis];
        let end = (first + size[axis]).saturating_sub(before[axis]).min(extent[axis]);
        first.saturating_sub(before[axis]).min(end)..end
    }

    /// The places of a row of them.
    #[inline(always)]
    fn row(&self, y: usize) -> impl Iterator<Item = PooledWindow> {
        let (rows, columns) = (self.covered(0, y), self.windows.places[1]);
        (0..columns).map(move |x| {
            let at = (y * columns + x) * self.channels;
            PooledWindow { rows: rows.clone(), columns: self.covered(1, x), at }
        })
    }

    /// The place of each element of a window in the image, for channel 0.
    #[inline(always)]
    fn elements(&self, place: &PooledWindow) -> impl Iterator<Item = usize> {
        let (width, channels, columns) =
            (self.windows.extent[1], self.channels, place.columns.clone());
        place
            .rows
            .clone()
            .flat_map(move |y| columns.clone().map(move |x| (y * width + x) * channels))
    }
}

impl PooledWindow {
    #[inline(always)]
    fn count(&self) -> f32 {
        (self.rows.len() * self.columns.len()) as f32
    }
}

/// Calls `$work::<LANES>` for so many channels at a time, then `$work::<1>` for each of the rest.
macro_rules! by_lanes {
    ($channels:expr, $c:ident => $work:ident($($operand:expr),*)) => {{
        let whole = $channels / LANES * LANES;
        for $c in (0..whole).step_by(LANES) {
            $work::<LANES>($($operand),*);
        }
        for $c in whole..$channels {
            $work::<1>($($operand),*);
        }
    }};
}

/// Pools into `out`, which begins at row `first` of all images' results.
struct Forward<'a, const MAX: bool> {
    grid: Grid<'a>,
    x: &'a [f32],
    first: usize,
    out: &'a mut [f32],
}

impl<const MAX: bool> NullaryFnOnce for Forward<'_, MAX> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        #[inline(always)]
        fn max<const L: usize>(
            grid: &Grid<'_>,
            x: &[f32],
            place: &PooledWindow,
            c: usize,
            out: &mut [f32],
        ) {
            let mut elements = grid.elements(place).map(|at| &x[at + c..][..L]);
            let mut greatest = [f32::NEG_INFINITY; L];
            elements.next().into_iter().for_each(|first| greatest.copy_from_slice(first));
            for x in elements {
                greatest
                    .iter_mut()
                    .zip(x)
                    .for_each(|(most, x)| *most = if *x > *most { *x } else { *most });
            }
            out[c..][..L].copy_from_slice(&greatest);
        }
        #[inline(always)]
        fn mean<const L: usize>(
            grid: &Grid<'_>,
            x: &[f32],
            place: &PooledWindow,
            c: usize,
            out: &mut [f32],
        ) {
            let mut sums = [0.0; L];
            for at in grid.elements(place) {
                sums.iter_mut().zip(&x[at + c..][..L]).for_each(|(sum, x)| *sum += x);
            }
            out[c..][..L].iter_mut().zip(sums).for_each(|(out, sum)| *out = sum / place.count());
        }
        let Self { grid, x, first, out } = self;
        let (down, channels) = (grid.windows.places[0], grid.channels);
        for (row, out) in
            (first..).zip(out.chunks_exact_mut((grid.windows.places[1] * channels).max(1)))
        {
            let x = &x[row / down * grid.image()..][..grid.image()];
            for (place, out) in grid.row(row % down).zip(out.chunks_exact_mut(channels)) {
                if MAX {
                    by_lanes!(channels, c => max(&grid, x, &place, c, out));
                } else {
                    by_lanes!(channels, c => mean(&grid, x, &place, c, out));
                }
            }
        }
    }
}

/// The gradient of the greatest: of whole images, as many as `x` and `out` have.
struct MaxBackward<'a> {
    grid: Grid<'a>,
    x: &'a [f32],
    y: &'a [f32],
    dy: &'a [f32],
    out: &'a mut [f32],
}

impl NullaryFnOnce for MaxBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        #[inline(always)]
        fn give<const L: usize>(
            grid: &Grid<'_>,
            [x, y, dy]: [&[f32]; 3],
            place: &PooledWindow,
            c: usize,
            out: &mut [f32],
        ) {
            let (mut most, mut left) = ([0.0; L], [0.0; L]);
            most.copy_from_slice(&y[place.at + c..][..L]);
            left.copy_from_slice(&dy[place.at + c..][..L]);
            for at in grid.elements(place) {
                let (x, out) = (&x[at + c..][..L], &mut out[at + c..][..L]);
                for i in 0..L {
                    let is_greatest = x[i] == most[i];
                    out[i] += if is_greatest { left[i] } else { 0.0 };
                    left[i] = if is_greatest { 0.0 } else { left[i] };
                }
            }
        }
        let Self { grid, x, y, dy, out } = self;
        out.fill(0.0);
        let (image, down) = (grid.image().max(1), grid.windows.places[0]);
        let results = (down * grid.windows.places[1] * grid.channels).max(1);
        let images = out.chunks_exact_mut(image).zip(x.chunks_exact(image));
        for ((out, x), (y, dy)) in images.zip(y.chunks_exact(results).zip(dy.chunks_exact(results)))
        {
            for place in (0..down).flat_map(|row| grid.row(row)) {
                by_lanes!(grid.channels, c => give(&grid, [x, y, dy], &place, c, out));
            }
        }
    }
}

/// The gradient of the mean: of whole images, as many as `out` has.
struct AvgBackward<'a> {
    grid: Grid<'a>,
    dy: &'a [f32],
    out: &'a mut [f32],
}

impl NullaryFnOnce for AvgBackward<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        #[inline(always)]
        fn give<const L: usize>(
            grid: &Grid<'_>,
            dy: &[f32],
            place: &PooledWindow,
            c: usize,
            out: &mut [f32],
        ) {
            let mut share = [0.0; L];
            share
                .iter_mut()
                .zip(&dy[place.at + c..])
                .for_each(|(share, dy)| *share = dy / place.count());
            for at in grid.elements(place) {
                out[at + c..][..L].iter_mut().zip(share).for_each(|(out, share)| *out += share);
            }
        }
        let Self { grid, dy, out } = self;
        out.fill(0.0);
        let (image, down) = (grid.image().max(1), grid.windows.places[0]);
        let results = (down * grid.windows.places[1] * grid.channels).max(1);
        for (out, dy) in out.chunks_exact_mut(image).zip(dy.chunks_exact(results)) {
            for place in (0..down).flat_map(|row| grid.row(row)) {
                by_lanes!(grid.channels, c => give(&grid, dy, &place, c, out));
            }
        }
    }
}
