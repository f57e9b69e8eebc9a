//! Windows over images as their definitions say: every place, every element that it covers.

use super::super::window::Windows;

/// Calls `see(place, tap, pixel)` for each element of each window that is in the image: the index
/// of the window's place, that of the element in the window, and that of the pixel, of all images.
/// Elements of a place come in order.
fn for_each(windows: &Windows, mut see: impl FnMut(usize, usize, usize)) {
    let Windows { images, extent, size, places, strides, dilations, before } = *windows;
    for (image, y, x) in product([images, places[0], places[1]]) {
        for (_, i, j) in product([1, size[0], size[1]]) {
            let row = (y * strides[0] + i * dilations[0])
                .checked_sub(before[0])
                .filter(|row| *row < extent[0]);
            let column = (x * strides[1] + j * dilations[1])
                .checked_sub(before[1])
                .filter(|x| *x < extent[1]);
            if let (Some(row), Some(column)) = (row, column) {
                let place = (image * places[0] + y) * places[1] + x;
                see(place, i * size[1] + j, (image * extent[0] + row) * extent[1] + column);
            }
        }
    }
}

fn product([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |a| (0..b).flat_map(move |b| (0..c).map(move |c| (a, b, c))))
}

/// The three operands of a convolution: the image, the filter and the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Operand {
    Image,
    Filter,
    Result,
}

/// The convolution, or its gradient by an operand: `wanted`, of `len` elements, from the other two
/// in the order of [`Operand`]. Where channels are apart, `channels` are the image's and the
/// multiplier.
pub(in super::super) fn convolution(
    wanted: Operand,
    [first, second]: [&[f32]; 2],
    len: usize,
    windows: &Windows,
    channels: [usize; 2],
    is_depthwise: bool,
) -> Vec<f32> {
    let mut sums = vec![0.0f64; len];
    let [c, o] = channels;
    for_each(windows, |place, tap, pixel| {
        for (_, i, j) in product([1, c, o]) {
            let result = if is_depthwise { (place * c + i) * o + j } else { place * o + j };
            let (image, filter) = (pixel * c + i, (tap * c + i) * o + j);
            let (at, a, b) = match wanted {
                Operand::Image => (image, filter, result),
                Operand::Filter => (filter, image, result),
                Operand::Result => (result, image, filter),
            };
            sums[at] += f64::from(first[a]) * f64::from(second[b]);
        }
    });
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// For each result the elements of `x` that its window covers, in order: index and value.
fn covered(x: &[f32], windows: &Windows, channels: usize) -> Vec<Vec<(usize, f32)>> {
    let mut covered = vec![Vec::new(); windows.len() * channels];
    for_each(windows, |place, _, pixel| {
        for c in 0..channels {
            let at = pixel * channels + c;
            covered[place * channels + c].push((at, x[at]));
        }
    });
    covered
}

/// The first greatest element of a window: index and value.
fn greatest(elements: &[(usize, f32)]) -> (usize, f32) {
    elements
        .iter()
        .copied()
        .reduce(|most, x| if x.1 > most.1 { x } else { most })
        .expect("no window is all padding")
}

/// The greatest of each window.
pub(in super::super) fn max_pool(x: &[f32], windows: &Windows, channels: usize) -> Vec<f32> {
    covered(x, windows, channels).iter().map(|elements| greatest(elements).1).collect()
}

/// Its gradient.
pub(in super::super) fn max_pool_grad(
    x: &[f32],
    dy: &[f32],
    windows: &Windows,
    channels: usize,
) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    covered(x, windows, channels)
        .iter()
        .zip(dy)
        .for_each(|(elements, dy)| out[greatest(elements).0] += dy);
    out
}

/// The mean of each window.
pub(in super::super) fn avg_pool(x: &[f32], windows: &Windows, channels: usize) -> Vec<f32> {
    let mean = |elements: &Vec<(usize, f32)>| {
        (elements.iter().map(|(_, x)| f64::from(*x)).sum::<f64>() / elements.len() as f64) as f32
    };
    covered(x, windows, channels).iter().map(mean).collect()
}

/// Its gradient, for images of `len` elements.
pub(in super::super) fn avg_pool_grad(
    dy: &[f32],
    len: usize,
    windows: &Windows,
    channels: usize,
) -> Vec<f32> {
    let mut out = vec![0.0f64; len];
    for (elements, dy) in covered(&vec![0.0; len], windows, channels).iter().zip(dy) {
        elements.iter().for_each(|(at, _)| out[*at] += f64::from(*dy) / elements.len() as f64);
    }
    out.into_iter().map(|x| x as f32).collect()
}
