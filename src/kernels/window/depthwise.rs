//! Convolutions in which each channel is by itself.

use super::super::parallel::vectorised;
use super::filter_gradient::shared;
use super::slide::{Parts, Phase, Slide};
use super::{Windows, check_lengths, for_parts, is_spread};

/// `out[n, y, x, c * m + q]`: the sum over a window of channel `c` of `x`, times
/// `filter[i, j, c, q]`, of which there are `m` (TensorFlow `DepthwiseConv2dNative`). `channels`
/// are how many there are of `c` and of `q`.
///
/// Order: from the first row of the window to the last.
pub(crate) fn convolution(
    x: &[f32],
    filter: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, m] = channels;
    check_lengths(windows, x.len(), filter.len(), out.len(), [c, c * m, c * m]);
    let slide = Slide::forward(windows, c, c * m);
    convolve(&slide, windows, [x, filter], out, |x, filter, sums| expand(x, filter, sums, m));
}

/// `out`: the gradient of a convolution by its image, when `dy` is that by its result (TensorFlow
/// `DepthwiseConv2dNativeBackpropInput`).
///
/// Order: as [`convolution`], the window turned round, and of each element of it from the first
/// result to the last.
pub(crate) fn input_gradient(
    dy: &[f32],
    filter: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, m] = channels;
    check_lengths(windows, out.len(), filter.len(), dy.len(), [c, c * m, c * m]);
    let slide = Slide::backward(windows, c * m, c);
    convolve(&slide, windows, [dy, filter], out, |dy, filter, sums| contract(dy, filter, sums, m));
}

/// `out[i, j, c, q]`: the sum over the places of the window of what it has of `x` at `i, j, c`,
/// times `dy` at `c * m + q` (TensorFlow `DepthwiseConv2dNativeBackpropFilter`).
///
/// Order: the images are cut into as many shares as the sizes say; of a share, from place to place;
/// then the shares' sums are added from the first to the last.
pub(crate) fn filter_gradient(
    x: &[f32],
    dy: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, m] = channels;
    check_lengths(windows, x.len(), out.len(), dy.len(), [c, c * m, c * m]);
    if dy.is_empty() || out.is_empty() {
        return out.fill(0.0);
    }
    let slide = Slide::forward(windows, c, c * m);
    let parts = slide.parts(windows.images);
    let spread = is_spread(windows.len() * out.len());
    shared(windows.images, out, spread, out.len(), |images, _, sums| {
        sums.fill(0.0);
        for image in images {
            let x = &x[image * slide.from.len()..][..slide.from.len()];
            let dy = &dy[image * slide.to.len()..][..slide.to.len()];
            for (i, dy) in dy.chunks(parts.rows * slide.to.row()).enumerate() {
                let part = slide.part(&parts, x, i * parts.rows, dy.len() / slide.to.row());
                for (tap, sums) in slide.phases[0].taps.iter().zip(sums.chunks_exact_mut(c * m)) {
                    for (at, dy) in elements(&slide, &parts, &slide.phases[0], dy.len())
                        .zip(dy.chunks_exact(c * m))
                    {
                        expand(&part.values()[at.0 + slide.tap(&parts, tap)..][..c], dy, sums, m);
                    }
                }
            }
        }
    });
}

/// Fills `to` with sums over windows of `values[0]`, where `add(element, its filter, sums)` adds
/// one element of them.
fn convolve(
    slide: &Slide,
    windows: &Windows,
    [from, filter]: [&[f32]; 2],
    to: &mut [f32],
    add: impl Fn(&[f32], &[f32], &mut [f32]) + Sync,
) {
    if to.is_empty() || from.is_empty() {
        return to.fill(0.0);
    }
    let spread = is_spread(windows.len() * filter.len());
    let parts = slide.parts(windows.images);
    let by_tap = filter.len() / windows.taps();
    for_parts(to, [slide.to.len(), parts.rows * slide.to.row()], spread, |image, i, to| {
        let from = &from[image * slide.from.len()..][..slide.from.len()];
        let part = slide.part(&parts, from, i * parts.rows, to.len() / slide.to.row());
        to.fill(0.0);
        for phase in &slide.phases {
            for (at, out) in elements(slide, &parts, phase, to.len()) {
                let sums = &mut to[out..][..slide.to.depth];
                for tap in &phase.taps {
                    let from = &part.values()[at + slide.tap(&parts, tap)..][..slide.from.depth];
                    add(from, &filter[tap.filter * by_tap..][..by_tap], sums);
                }
            }
        }
    });
}

/// The places of the elements of `phase`, in a part of `from` and in that of `to`, which has `len`
/// values.
fn elements(
    slide: &Slide,
    parts: &Parts,
    phase: &Phase,
    len: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let down = slide.count(0, phase.at[0], len / slide.to.row());
    let across = slide.count(1, phase.at[1], slide.to.extent[1]);
    let (from, from_row) =
        (slide.from_step[1] * slide.from.depth, slide.from_step[0] * parts.columns.count);
    let from_row = from_row * slide.from.depth;
    let (to, to_row) = (slide.to_step[1] * slide.to.depth, slide.to_step[0] * slide.to.row());
    let first = phase.at[0] * slide.to.row() + phase.at[1] * slide.to.depth;
    let at = move |i: usize, j: usize| (i * from_row + j * from, first + i * to_row + j * to);
    (0..down).flat_map(move |i| (0..across).map(move |j| at(i, j)))
}

/// `sums[c * m + q] += x[c] * y[c * m + q]`.
fn expand(x: &[f32], y: &[f32], sums: &mut [f32], m: usize) {
    if m == 1 {
        return vectorised(|| {
            sums.iter_mut().zip(x).zip(y).for_each(|((sum, x), y)| *sum += x * y)
        });
    }
    vectorised(|| {
        for ((sums, y), x) in sums.chunks_exact_mut(m).zip(y.chunks_exact(m)).zip(x) {
            sums.iter_mut().zip(y).for_each(|(sum, y)| *sum += x * y);
        }
    });
}

/// `sums[c] +=` the sum of `x[c * m + q] * y[c * m + q]` over `q`.
fn contract(x: &[f32], y: &[f32], sums: &mut [f32], m: usize) {
    if m == 1 {
        return expand(x, y, sums, m);
    }
    for ((sum, x), y) in sums.iter_mut().zip(x.chunks_exact(m)).zip(y.chunks_exact(m)) {
        x.iter().zip(y).for_each(|(x, y)| *sum += x * y);
    }
}
