//! Convolutions in which all channels meet, forwards and backwards to the image.

use super::slide::{Parts, Phase, Slide};
use super::tile::{PANEL, Panel, Row, Run, append};
use super::{Windows, check_lengths, for_parts, is_spread, narrow, scratch};

/// The number of rows of a panel of the filter that are used at a time: 128 KiB, a part of a
/// second-level cache.
const DEPTH: usize = 1 << 10;

/// `out[n, y, x, o]`: the sum over a window of `x` and its channels, each times
/// `filter[i, j, c, o]` (TensorFlow `Conv2D`). `channels` are how many there are of `c` and of `o`.
///
/// Order: chains of at most [`DEPTH`] fused multiply-adds, row by row of the window, added from the
/// first to the last.
pub(crate) fn convolution(
    x: &[f32],
    filter: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, o] = channels;
    check_lengths(windows, x.len(), filter.len(), out.len(), [c, o, c * o]);
    let filter = Filter { values: filter, by_tap: c * o, by_depth: o, by_column: 1 };
    convolve(&Slide::forward(windows, c, o), windows, x, &filter, out);
}

/// `out`: the gradient of a convolution by its image, when `dy` is that by its result (TensorFlow
/// `Conv2DBackpropInput`).
///
/// Order: as [`convolution`], the window turned round; of few channels as [`narrow`] says.
pub(crate) fn input_gradient(
    dy: &[f32],
    filter: &[f32],
    out: &mut [f32],
    windows: &Windows,
    channels: [usize; 2],
) {
    let [c, o] = channels;
    check_lengths(windows, out.len(), filter.len(), dy.len(), [c, o, c * o]);
    if c <= narrow::CHANNELS {
        return narrow::input_gradient(dy, filter, out, windows, channels);
    }
    let filter = Filter { values: filter, by_tap: c * o, by_depth: 1, by_column: o };
    convolve(&Slide::backward(windows, o, c), windows, dy, &filter, out);
}

/// A filter, and the distances between its elements: by tap, by input channel, by output channel.
struct Filter<'a> {
    values: &'a [f32],
    by_tap: usize,
    by_depth: usize,
    by_column: usize,
}

/// The inputs of the elements of one phase.
struct Sum {
    /// The phase's elements in a part of as many rows as parts have.
    rows: Vec<Row>,
    /// The number of them in a row of the image.
    across: usize,
    /// The phase's own row of the first that it has.
    at: usize,
    /// The runs that each is a sum of, in groups of at most [`DEPTH`].
    groups: Vec<Vec<Run>>,
    depth: usize,
    /// The place of its panels among the packed ones.
    panels: usize,
}

fn convolve(slide: &Slide, windows: &Windows, from: &[f32], filter: &Filter<'_>, to: &mut [f32]) {
    if to.is_empty() || from.is_empty() {
        return to.fill(0.0);
    }
    let spread = is_spread(windows.len() * filter.values.len());
    let parts = slide.parts(windows.images);
    let mut panels = 0;
    let mut sum = |phase: &Phase| {
        let sum = Sum::new(slide, &parts, phase, panels);
        panels += sum.depth * slide.to.depth.div_ceil(PANEL) * PANEL;
        sum
    };
    let sums: Vec<Sum> = slide.phases.iter().map(&mut sum).collect();
    let mut packed = scratch(panels);
    for (sum, phase) in sums.iter().zip(&slide.phases) {
        let packed = &mut packed.make_mut()[sum.panels..];
        pack(filter, phase, [slide.from.depth, slide.to.depth], packed, spread);
    }
    let packed = packed.slice();
    for_parts(to, [slide.to.len(), parts.rows * slide.to.row()], spread, |image, part, to| {
        let from = &from[image * slide.from.len()..][..slide.from.len()];
        let from = slide.part(&parts, from, part * parts.rows, to.len() / slide.to.row());
        if sums.iter().any(|sum| sum.depth == 0) {
            to.fill(0.0);
        }
        sums.iter().for_each(|sum| sum.write(slide, from.values(), packed, to));
    });
}

impl Sum {
    fn new(slide: &Slide, parts: &Parts, phase: &Phase, panels: usize) -> Self {
        let [down, across] = [parts.rows, slide.to.extent[1]];
        let [down, across] =
            [slide.count(0, phase.at[0], down), slide.count(1, phase.at[1], across)];
        let row = |i: usize, j: usize| Row {
            a: (i * slide.from_step[0] * parts.columns.count + j * slide.from_step[1])
                * slide.from.depth,
            out: (phase.at[0] + i * slide.to_step[0]) * slide.to.row()
                + (phase.at[1] + j * slide.to_step[1]) * slide.to.depth,
        };
        let rows = (0..down)
            .flat_map(|i| (0..across).map(move |j| (i, j)))
            .map(|(i, j)| row(i, j))
            .collect();
        let mut runs = Vec::new();
        for tap in &phase.taps {
            append(&mut runs, Run { start: slide.tap(parts, tap), len: slide.from.depth }, 1);
        }
        let depth = runs.iter().map(|run| run.len).sum();
        Self { rows, across, at: phase.at[0], groups: groups(&runs), depth, panels }
    }

    /// Writes the phase's elements of a part of the result, which is computed from the part `from`.
    fn write(&self, slide: &Slide, from: &[f32], packed: &[f32], to: &mut [f32]) {
        let rows = &self.rows[..self.across * slide.count(0, self.at, to.len() / slide.to.row())];
        if rows.is_empty() {
            return;
        }
        for first in (0..slide.to.depth).step_by(PANEL) {
            let mut b = &packed[self.panels + first * self.depth..];
            for (i, runs) in self.groups.iter().enumerate() {
                let columns = PANEL.min(slide.to.depth - first);
                let panel = Panel { a: from, step: 1, runs, b, b_stride: PANEL, columns };
                panel.write(rows, &mut to[first..], i > 0);
                b = &b[runs.iter().map(|run| run.len).sum::<usize>() * PANEL..];
            }
        }
    }
}

/// The runs in groups that are at most [`DEPTH`] long together.
fn groups(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut groups: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for run in runs {
        let mut run = *run;
        while run.len > 0 {
            if room == 0 {
                groups.push(Vec::new());
                room = DEPTH;
            }
            let len = run.len.min(room);
            groups.last_mut().expect("one was pushed").push(Run { len, ..run });
            (room, run) = (room - len, Run { start: run.start + len, len: run.len - len });
        }
    }
    groups
}

/// Writes the filter's elements as the taps of `phase` use them: panel by panel, of each a row for
/// each tap and each of the `depth` channels that go in; zeros where the `columns` that come out
/// don't fill the last.
fn pack(
    filter: &Filter<'_>,
    phase: &Phase,
    [depth, columns]: [usize; 2],
    packed: &mut [f32],
    spread: bool,
) {
    let panel = phase.taps.len() * depth * PANEL;
    let used = &mut packed[..panel * columns.div_ceil(PANEL)];
    for_parts(used, [panel, depth * PANEL], spread, |i, tap, rows| {
        let columns = PANEL.min(columns - i * PANEL);
        let first = phase.taps[tap].filter * filter.by_tap + i * PANEL * filter.by_column;
        let values = &filter.values[first..];
        rows.fill(0.0);
        for (k, row) in rows.chunks_exact_mut(PANEL).enumerate() {
            let values = values[k * filter.by_depth..].iter().step_by(filter.by_column);
            row[..columns].iter_mut().zip(values).for_each(|(to, value)| *to = *value);
        }
    });
}
