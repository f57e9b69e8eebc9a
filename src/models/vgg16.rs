//! VGG-16 (Simonyan and Zisserman 2014, configuration D): 138.4 million parameters, 15.5 G
//! multiply-adds an image.

use super::table::{Layer, Table};

pub(super) const VGG16: Table = Table { image: [224, 224, 3], classes: 1000, layers };

fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    for (filters, convolutions) in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] {
        layers.extend(std::iter::repeat_n(Layer::conv(filters, 3), convolutions));
        layers.push(Layer::max_pool(2, 2).valid());
    }
    layers.extend([Layer::Flatten, Layer::dense(4096), Layer::dense(4096), Layer::logits(1000)]);
    layers
}
