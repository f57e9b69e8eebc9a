//! ResNet-50 (He et al. 2015; the stride is in the 3x3 convolution, "v1.5"): 25.6 million
//! parameters, 4.1 G multiply-adds an image.

use super::table::{Layer, Table};

pub(super) const RESNET50: Table = Table { image: [224, 224, 3], classes: 1000, layers };

fn layers() -> Vec<Layer> {
    let mut layers = vec![Layer::conv(64, 7).stride(2).normalised(), Layer::max_pool(3, 2)];
    for (stage, (blocks, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate()
    {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            layers.push(bottleneck(width, stride, block == 0));
        }
    }
    layers.extend([Layer::GlobalAvgPool, Layer::logits(1000)]);
    layers
}

/// A bottleneck to `width` channels, and out of it to four times as many.
fn bottleneck(width: usize, stride: usize, projects: bool) -> Layer {
    let project = Layer::conv(4 * width, 1).stride(stride).normalised().linear();
    Layer::Residual {
        branch: vec![
            Layer::conv(width, 1).normalised(),
            Layer::conv(width, 3).stride(stride).normalised(),
            Layer::conv(4 * width, 1).normalised().linear(),
        ],
        shortcut: if projects { vec![project] } else { Vec::new() },
    }
}
