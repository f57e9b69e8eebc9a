//! Maps each element of an image to the elements of another that it is computed from, forwards or
//! backwards through a convolution.

use super::padded::{Columns, ImageRows, Images};
use super::{BLOCK, Windows};

/// The least number of parts of a batch, if it has as many rows.
const PARTS: usize = 16;

/// Images `to`, each element of which is a sum over some of the images `from`.
///
/// The elements of `to` come in phases, one for each remainder of a place by `to_step`: those of a
/// phase see the same taps.
pub(super) struct Slide {
    pub(super) from: Images,
    pub(super) to: Images,
    /// The distances in `from` and in `to` from one element of a phase to the next.
    pub(super) from_step: [usize; 2],
    pub(super) to_step: [usize; 2],
    /// The element of `from` that taps are counted from, for the first element of each phase.
    origin: [isize; 2],
    /// The number of elements of `from` that the taps span.
    reach: [usize; 2],
    pub(super) phases: Vec<Phase>,
}

/// The elements at one remainder.
pub(super) struct Phase {
    /// The remainder.
    pub(super) at: [usize; 2],
    /// The taps, in the order of their places in `from`.
    pub(super) taps: Vec<Tap>,
}

/// An element of `from` that goes into one of `to`, times an element of the filter.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    /// The tap's place in `from`, counted from the origin.
    pub(super) at: [usize; 2],
    /// The index of the filter's element.
    pub(super) filter: usize,
}

/// The parts of an image that are worked on at a time.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// The rows of `to` in a part, but for the last.
    pub(super) rows: usize,
    /// The columns of `from` that each has.
    pub(super) columns: Columns,
}

/// One axis of a slide: for each phase the taps, as their place in `from` and in the filter.
struct Axis {
    origin: isize,
    reach: usize,
    phases: Vec<Vec<(usize, usize)>>,
}

impl Axis {
    fn new(phases: Vec<Vec<(isize, usize)>>) -> Self {
        let places = || phases.iter().flatten().map(|(at, _)| *at);
        let (origin, last) = (places().min().unwrap_or(0), places().max().unwrap_or(0));
        let from_origin = |taps: &Vec<(isize, usize)>| {
            let mut taps: Vec<_> =
                taps.iter().map(|(at, tap)| ((at - origin) as usize, *tap)).collect();
            taps.sort_unstable();
            taps
        };
        Self {
            origin,
            reach: (last - origin) as usize + 1,
            phases: phases.iter().map(from_origin).collect(),
        }
    }

    /// From the image to the places of the window.
    fn forward(windows: &Windows, axis: usize) -> Self {
        let before = windows.before[axis] as isize;
        let tap = |k: usize| ((k * windows.dilations[axis]) as isize - before, k);
        Self::new(vec![(0..windows.size[axis]).map(tap).collect()])
    }

    /// From the places of the window to the image: element `y` is tap `k` of place
    /// `(y + before - k * dilation) / stride`, where that is a whole number.
    fn backward(windows: &Windows, axis: usize) -> Self {
        let stride = windows.strides[axis] as isize;
        let of_phase = |phase: isize| {
            let first = phase + windows.before[axis] as isize;
            let place = |k: usize| (first - (k * windows.dilations[axis]) as isize, k);
            let places = (0..windows.size[axis])
                .map(place)
                .filter(|(place, _)| place.rem_euclid(stride) == 0);
            places.map(|(place, k)| (place.div_euclid(stride), k)).collect()
        };
        Self::new((0..stride).map(of_phase).collect())
    }
}

impl Slide {
    /// From images of `depth` channels to the window's results, of `to_depth`.
    pub(super) fn forward(windows: &Windows, depth: usize, to_depth: usize) -> Self {
        let from = Images { extent: windows.extent, depth };
        let to = Images { extent: windows.places, depth: to_depth };
        let axes = [0, 1].map(|axis| Axis::forward(windows, axis));
        Self::new((from, windows.strides), (to, [1, 1]), axes, windows.size[1])
    }

    /// From the gradient by the window's results, of `depth` channels, to the gradient by the
    /// images, of `to_depth`.
    pub(super) fn backward(windows: &Windows, depth: usize, to_depth: usize) -> Self {
        let from = Images { extent: windows.places, depth };
        let to = Images { extent: windows.extent, depth: to_depth };
        let axes = [0, 1].map(|axis| Axis::backward(windows, axis));
        Self::new((from, [1, 1]), (to, windows.strides), axes, windows.size[1])
    }

    fn new(
        (from, from_step): (Images, [usize; 2]),
        (to, to_step): (Images, [usize; 2]),
        [rows, columns]: [Axis; 2],
        filter_width: usize,
    ) -> Self {
        let mut phases = Vec::new();
        for (y, row_taps) in rows.phases.iter().enumerate() {
            for (x, column_taps) in columns.phases.iter().enumerate() {
                let in_row = |(row, i): (usize, usize)| {
                    let tap =
                        move |(column, j)| Tap { at: [row, column], filter: i * filter_width + j };
                    column_taps.iter().copied().map(tap)
                };
                let taps = row_taps.iter().copied().flat_map(in_row).collect();
                phases.push(Phase { at: [y, x], taps });
            }
        }
        let (origin, reach) = ([rows.origin, columns.origin], [rows.reach, columns.reach]);
        Self { from, to, from_step, to_step, origin, reach, phases }
    }

    /// The number of elements of a phase along `axis`, among `extent` elements in all; the phase is
    /// `at` there.
    pub(super) fn count(&self, axis: usize, at: usize, extent: usize) -> usize {
        extent.saturating_sub(at).div_ceil(self.to_step[axis])
    }

    /// The parts into which the images of a batch are cut.
    pub(super) fn parts(&self, images: usize) -> Parts {
        let across = self.count(1, 0, self.to.extent[1]).max(1);
        let columns = Columns::at_least(
            (across - 1) * self.from_step[1] + self.reach[1],
            self.origin[1],
            &self.from,
        );
        let row = (columns.count * self.from.depth * self.from_step[0]).max(1);
        let down = self.count(0, 0, self.to.extent[0]).max(1);
        let steps = (BLOCK / row).clamp(1, (images * down).div_ceil(PARTS).max(1));
        Parts { rows: steps.min(down) * self.to_step[0], columns }
    }

    /// The part of the image `from` that goes into the `rows` rows of `to` that begin at `first`.
    pub(super) fn part<'a>(
        &self,
        parts: &Parts,
        image: &'a [f32],
        first: usize,
        rows: usize,
    ) -> ImageRows<'a> {
        let top = self.origin[0] + (first / self.to_step[0] * self.from_step[0]) as isize;
        let rows = (self.count(0, 0, rows).max(1) - 1) * self.from_step[0] + self.reach[0];
        ImageRows::of(image, &self.from, top, rows, parts.columns)
    }

    /// The place of `tap` in a part, counted from the part's corner.
    pub(super) fn tap(&self, parts: &Parts, tap: &Tap) -> usize {
        (tap.at[0] * parts.columns.count + tap.at[1]) * self.from.depth
    }
}
