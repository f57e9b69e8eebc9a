//! The convolutional network: two convolutions, each with relu and a pool that halves the image,
//! then two dense layers.

use super::extent::Extent;
use super::stages::Stages;
use crate::graph::{GraphError, Output, Padding, conv2d, dense, flatten, max_pool2d};

/// The sizes of a network.
struct Size {
    /// The height and width of the convolutions' windows.
    window: usize,
    /// The number of channels that each convolution computes.
    filters: [usize; 2],
    /// The width of the dense layer before the last.
    dense: usize,
}

/// For images of at least [`LARGE`] pixels either way: the network of TensorFlow's tutorial for
/// MNIST.
const TUTORIAL: Size = Size { window: 5, filters: [32, 64], dense: 1024 };
/// For smaller images, such as the 8x8 digits.
const SMALL: Size = Size { window: 3, filters: [8, 16], dense: 64 };
const LARGE: usize = 16;
/// The number of layers: two convolutions, then two dense ones.
const LAYERS: usize = 4;

impl Size {
    fn of(height: usize, width: usize) -> Self {
        if height.min(width) < LARGE { SMALL } else { TUTORIAL }
    }
}

/// The extent of the network for images of `[height, width, channels]`.
pub(super) fn extent([mut height, mut width, mut channels]: [usize; 3], classes: usize) -> Extent {
    let size = Size::of(height, width);
    let mut extent = Extent::default();
    for filters in size.filters {
        extent.parameters += ((size.window * size.window * channels + 1) * filters) as f64;
        extent.activations += (height * width * (channels * size.window * size.window)) as f64;
        extent.activations += (2 * height * width * filters) as f64;
        extent.widest = extent.widest.max((height * width * filters) as f64);
        (height, width, channels) = (height.div_ceil(2), width.div_ceil(2), filters);
    }
    let mut before = height * width * channels;
    for units in [size.dense, classes] {
        extent.parameters += ((before + 1) * units) as f64;
        extent.activations += units as f64;
        before = units;
    }
    extent
}

/// The logits of `classes` classes for rows that are images of `shape` `[height, width, channels]`.
pub(super) fn logits(
    features: &Output,
    shape: [usize; 3],
    classes: usize,
    stages: &Stages,
) -> Result<Output, GraphError> {
    let [height, width, channels] = shape;
    let size = Size::of(height, width);
    let mut images = features.reshape([None, Some(height), Some(width), Some(channels)])?;
    for (at, filters) in size.filters.into_iter().enumerate() {
        images = stages.layer(at, LAYERS, || {
            let features = conv2d(&images, filters, [size.window; 2], Padding::Same)?.relu();
            max_pool2d(&features, [2, 2], [2, 2], Padding::Same)
        })?;
    }
    let hidden = || Ok::<_, GraphError>(dense(&flatten(&images)?, size.dense)?.relu());
    let hidden = stages.layer(2, LAYERS, hidden)?;
    stages.layer(3, LAYERS, || dense(&hidden, classes))
}
