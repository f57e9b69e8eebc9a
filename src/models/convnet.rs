//! The convolutional network: two convolutions, each with relu and a pool that halves the image,
//! then two dense layers.

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

/// The logits of `classes` classes for rows that are images of `shape` `[height, width, channels]`.
pub(super) fn logits(
    features: &Output,
    shape: [usize; 3],
    classes: usize,
) -> Result<Output, GraphError> {
    let [height, width, channels] = shape;
    let size = if height.min(width) < LARGE { SMALL } else { TUTORIAL };
    let mut images = features.reshape([None, Some(height), Some(width), Some(channels)])?;
    for filters in size.filters {
        let features = conv2d(&images, filters, [size.window; 2], Padding::Same)?.relu();
        images = max_pool2d(&features, [2, 2], [2, 2], Padding::Same)?;
    }
    let layer = dense(&flatten(&images)?, size.dense)?.relu();
    dense(&layer, classes)
}
