//! Windows that slide over images `[n, height, width, channels]`: convolutions, their gradients,
//! and pools.
//!
//! A convolution is a product of matrices, one of which is never stored: each of its rows is a
//! window of the image, gathered from the image itself. [`tile`] computes such products. Padding is
//! copied with the part of the image that a thread works on, as much of it as its cache holds.

mod convolution;
mod depthwise;
mod filter_gradient;
mod narrow;
mod padded;
mod pool;
mod slide;
mod tile;

use std::ops::Range;

use super::matmul;
use super::parallel::for_pieces;
use crate::graph::Sliding;
use crate::tensor::{Shape, Tensor};

pub(crate) use convolution::{convolution, input_gradient};
pub(crate) use depthwise::{
    convolution as depthwise, filter_gradient as depthwise_filter_gradient,
    input_gradient as depthwise_input_gradient,
};
pub(crate) use filter_gradient::filter_gradient;
pub(crate) use pool::{avg_pool, avg_pool_grad, max_pool, max_pool_grad};

/// The number of elements of the image that a thread works on at a time: 256 KiB, a part of a
/// second-level cache.
const BLOCK: usize = 1 << 16;

/// The places of a window on a batch of images; heights before widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// The number of images.
    pub(crate) images: usize,
    /// The size of an image.
    pub(crate) extent: [usize; 2],
    /// The size of the window.
    pub(crate) size: [usize; 2],
    /// The number of places of the window on an image.
    pub(crate) places: [usize; 2],
    /// The distance from one place to the next.
    pub(crate) strides: [usize; 2],
    /// The distance between neighbouring elements of the window.
    pub(crate) dilations: [usize; 2],
    /// The number of elements before the image's edge at which the first place begins.
    pub(crate) before: [usize; 2],
}

impl Windows {
    /// The places that a window of `size` has as it slides over images of shape
    /// `[n, height, width, …]`.
    ///
    /// # Panics
    /// If it has none, which shape inference refuses.
    pub(crate) fn new(sliding: &Sliding, images: Shape, size: [usize; 2]) -> Self {
        let &[images, height, width, _] = images.dims() else {
            panic!("shape inference lets only images through")
        };
        let extent = [height, width];
        let places = |axis: usize| {
            sliding.places(axis, extent[axis], size[axis]).expect("the window has a place")
        };
        let before = |axis: usize| sliding.before(axis, extent[axis], size[axis]);
        Self {
            images,
            extent,
            size,
            places: [places(0), places(1)],
            strides: sliding.strides,
            dilations: sliding.dilations,
            before: [before(0), before(1)],
        }
    }

    /// The number of places on all images.
    pub(crate) fn len(&self) -> usize {
        self.images * self.places[0] * self.places[1]
    }

    /// The number of elements of a window, in one channel.
    pub(crate) fn taps(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// The places along `axis` from which `tap` is in the image.
    fn places_inside(&self, axis: usize, tap: usize) -> Range<usize> {
        let (before, at) = (self.before[axis], tap * self.dilations[axis]);
        let first = before.saturating_sub(at).div_ceil(self.strides[axis]);
        let end = (self.extent[axis] + before).saturating_sub(at).div_ceil(self.strides[axis]);
        first..end.min(self.places[axis]).max(first)
    }

    /// The element along `axis` that is under `tap` at `place`, which is one of
    /// [`Self::places_inside`].
    fn element(&self, axis: usize, place: usize, tap: usize) -> usize {
        place * self.strides[axis] + tap * self.dilations[axis] - self.before[axis]
    }
}

/// Whether so many multiply-adds are spread over threads.
fn is_spread(products: usize) -> bool {
    products >= matmul::PARALLEL_FROM
}

/// Asserts that the operands have the lengths that `windows` and the channels of images, results
/// and filter say.
fn check_lengths(
    windows: &Windows,
    images: usize,
    filter: usize,
    results: usize,
    [c, o, f]: [usize; 3],
) {
    assert_eq!(
        images,
        windows.images * windows.extent[0] * windows.extent[1] * c,
        "images have their size"
    );
    assert_eq!(filter, windows.taps() * f, "a filter has the window's size");
    assert_eq!(results, windows.len() * o, "there is a result for each place of the window");
}

/// Calls `work(i, j, part)` for part `j` of `lens[1]` elements of whole `i` of `lens[0]`, of all
/// that `out` has.
fn for_parts(
    out: &mut [f32],
    lens: [usize; 2],
    spread: bool,
    work: impl Fn(usize, usize, &mut [f32]) + Sync,
) {
    let [whole, part] = lens.map(|len| len.max(1));
    for_pieces(out, whole, spread, &|i, out| {
        for_pieces(out, part, spread, &|j, out| work(i, j, out));
    });
}

/// Memory for `len` values that hold anything, given back when dropped.
fn scratch(len: usize) -> Tensor {
    Tensor::uninitialised::<f32>(Shape::from([len]))
}
