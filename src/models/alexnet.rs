//! AlexNet in one column (Krizhevsky 2014): 61.1 million parameters, 0.71 G multiply-adds an image.

use super::table::{Layer, Table};

/// The image is 227 wide, so that the first convolution fits without padding.
pub(super) const ALEXNET: Table = Table { image: [227, 227, 3], classes: 1000, layers };

fn layers() -> Vec<Layer> {
    vec![
        Layer::conv(64, 11).stride(4).valid(),
        Layer::max_pool(3, 2).valid(),
        Layer::conv(192, 5),
        Layer::max_pool(3, 2).valid(),
        Layer::conv(384, 3),
        Layer::conv(256, 3),
        Layer::conv(256, 3),
        Layer::max_pool(3, 2).valid(),
        Layer::Flatten,
        Layer::dense(4096),
        Layer::dense(4096),
        Layer::logits(1000),
    ]
}
