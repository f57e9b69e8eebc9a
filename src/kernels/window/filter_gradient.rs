//! The gradient of a convolution by its filter.

use super::super::elementwise::add_n;
use super::slide::{Parts, Slide};
use super::tile::{PANEL, Panel, Row, Run, append};
use super::{Windows, check_lengths, for_parts, is_spread, scratch};

/// The number of rows of the gradient that are computed at a time, in passes over the images: a
/// multiple of the rows that the registers hold.
const ROWS: usize = 120;
/// The most sums over a share of the images, and the most elements that they have together.
const SHARES: usize = 16;
const SHARED: usize = 1 << 20;

/// `out[i, j, c, o]`: the sum over the places of the window of what it has of `x` at `i, j, c`,
/// times `dy` at `o` (TensorFlow `Conv2DBackpropFilter`). `channels` are how many there are of `c`
/// and of `o`.
///
/// Order: the images are cut into as many shares as the sizes say, and these into parts; of a part,
/// the sum is a chain of fused multiply-adds from place to place; the parts' sums are added from
/// the first to the last, then the shares'.
pub(crate) fn filter_gradient(
    x: &[f32],
    dy: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, o] = channels;
    check_lengths(windows, x.len(), out.len(), dy.len(), [c, o, c * o]);
    if dy.is_empty() || out.is_empty() {
        return out.fill(0.0);
    }
    let slide = Slide::forward(windows, c, o);
    let gradient = Gradient { parts: slide.parts(windows.images), x, dy, slide };
    let spread = is_spread(windows.len() * out.len());
    shared(windows.images, out, spread, ROWS * o, |images, first, sums| {
        let rows = gradient.rows(first / o, sums.len() / o);
        images.enumerate().for_each(|(i, image)| gradient.add_image(image, &rows, sums, i == 0));
    });
}

/// The inputs of all rows of the gradient.
struct Gradient<'a> {
    slide: Slide,
    parts: Parts,
    x: &'a [f32],
    dy: &'a [f32],
}

impl Gradient<'_> {
    /// The `count` rows from `first`: where the elements of the window are that they belong to.
    fn rows(&self, first: usize, count: usize) -> Vec<Row> {
        let (depth, taps) = (self.slide.from.depth, &self.slide.phases[0].taps);
        let at = |row: usize| self.slide.tap(&self.parts, &taps[row / depth]) + row % depth;
        (0..count).map(|i| Row { a: at(first + i), out: i * self.slide.to.depth }).collect()
    }

    /// Adds an image's part of `rows` to `sums`, or writes it if the image is the first.
    fn add_image(&self, image: usize, rows: &[Row], sums: &mut [f32], is_first: bool) {
        let (from, to) = (&self.slide.from, &self.slide.to);
        let x = &self.x[image * from.len()..][..from.len()];
        let dy = &self.dy[image * to.len()..][..to.len()];
        for (i, dy) in dy.chunks(self.parts.rows * to.row()).enumerate() {
            let down = dy.len() / to.row();
            let part = self.slide.part(&self.parts, x, i * self.parts.rows, down);
            let runs = self.runs(down);
            for first in (0..to.depth).step_by(PANEL) {
                let columns = PANEL.min(to.depth - first);
                let packed = (columns < PANEL).then(|| pack(dy, to.depth, first));
                let (b, b_stride) = packed
                    .as_ref()
                    .map_or((&dy[first..], to.depth), |packed| (packed.slice(), PANEL));
                let step = self.slide.from_step[1] * from.depth;
                let panel = Panel { a: part.values(), step, runs: &runs, b, b_stride, columns };
                panel.write(rows, &mut sums[first..], !(is_first && i == 0));
            }
        }
    }

    /// The beginnings of the places of `down` rows.
    fn runs(&self, down: usize) -> Vec<Run> {
        let (from, step) = (&self.slide.from, self.slide.from_step);
        let row = step[0] * self.parts.columns.count * from.depth;
        let mut runs = Vec::new();
        for y in 0..down {
            append(
                &mut runs,
                Run { start: y * row, len: self.slide.to.extent[1] },
                step[1] * from.depth,
            );
        }
        runs
    }
}

/// The columns of `dy` from `first`, filled up to a panel.
fn pack(dy: &[f32], depth: usize, first: usize) -> crate::tensor::Tensor {
    let mut packed = scratch(dy.len() / depth * PANEL);
    for (to, dy) in packed.make_mut::<f32>().chunks_exact_mut(PANEL).zip(dy.chunks_exact(depth)) {
        let dy = &dy[first..];
        to[..dy.len()].copy_from_slice(dy);
        to[dy.len()..].fill(0.0);
    }
    packed
}

/// Fills `out` with a sum over images, in parts of `part` elements:
/// `work(images, first element, part)` writes what some of the images make of a part.
pub(super) fn shared(
    images: usize,
    out: &mut [f32],
    spread: bool,
    part: usize,
    work: impl Fn(std::ops::Range<usize>, usize, &mut [f32]) + Sync,
) {
    let each = images.div_ceil((SHARED / out.len()).clamp(1, SHARES));
    let len = out.len();
    let of_share = |share: usize| share * each..images.min((share + 1) * each);
    if each == images {
        return for_parts(out, [len, part], spread, |_, i, sums| work(0..images, i * part, sums));
    }
    let mut shares = scratch(images.div_ceil(each) * len);
    for_parts(shares.make_mut(), [len, part], spread, |share, i, sums| {
        work(of_share(share), i * part, sums)
    });
    let shares: Vec<&[f32]> = shares.slice().chunks_exact(len).collect();
    add_n(&shares, 1.0, out);
}
