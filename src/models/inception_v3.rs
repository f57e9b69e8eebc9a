//! Inception-v3 (Szegedy et al. 2015) without its auxiliary head: 23.8 million parameters, 5.7 G
//! multiply-adds an image. The names of the blocks are those of the paper's figures and of
//! TensorFlow's `mixed` end points.

use super::table::{Layer, Table};

pub(super) const INCEPTION_V3: Table = Table { image: [299, 299, 3], classes: 1000, layers };

fn layers() -> Vec<Layer> {
    let mut layers = vec![
        conv(32, 3, 3).stride(2).valid(),
        conv(32, 3, 3).valid(),
        conv(64, 3, 3),
        Layer::max_pool(3, 2).valid(),
        conv(80, 1, 1).valid(),
        conv(192, 3, 3).valid(),
        Layer::max_pool(3, 2).valid(),
    ];
    layers.extend([32, 64, 64].map(figure_5));
    layers.push(to_17());
    layers.extend([128, 160, 160, 192].map(figure_6));
    layers.push(to_8());
    layers.extend([figure_7(), figure_7(), Layer::GlobalAvgPool, Layer::logits(1000)]);
    layers
}

fn conv(filters: usize, height: usize, width: usize) -> Layer {
    Layer::conv_of(filters, [height, width]).normalised()
}

/// Average pooling in place, then a projection to `filters` channels.
fn pooled(filters: usize) -> Vec<Layer> {
    vec![Layer::avg_pool(3, 1), conv(filters, 1, 1)]
}

/// On a grid of 35 (`mixed_0` to `mixed_2`).
fn figure_5(pool: usize) -> Layer {
    Layer::Branches(vec![
        vec![conv(64, 1, 1)],
        vec![conv(48, 1, 1), conv(64, 5, 5)],
        vec![conv(64, 1, 1), conv(96, 3, 3), conv(96, 3, 3)],
        pooled(pool),
    ])
}

/// From a grid of 35 to one of 17 (`mixed_3`).
fn to_17() -> Layer {
    Layer::Branches(vec![
        vec![conv(384, 3, 3).stride(2).valid()],
        vec![conv(64, 1, 1), conv(96, 3, 3), conv(96, 3, 3).stride(2).valid()],
        vec![Layer::max_pool(3, 2).valid()],
    ])
}

/// On a grid of 17, with convolutions factorised into rows and columns (`mixed_4` to `mixed_7`).
fn figure_6(width: usize) -> Layer {
    let (row, column) = (conv(width, 1, 7), conv(width, 7, 1));
    Layer::Branches(vec![
        vec![conv(192, 1, 1)],
        vec![conv(width, 1, 1), row.clone(), conv(192, 7, 1)],
        vec![conv(width, 1, 1), column.clone(), row, column, conv(192, 1, 7)],
        pooled(192),
    ])
}

/// From a grid of 17 to one of 8 (`mixed_8`).
fn to_8() -> Layer {
    Layer::Branches(vec![
        vec![conv(192, 1, 1), conv(320, 3, 3).stride(2).valid()],
        vec![conv(192, 1, 1), conv(192, 1, 7), conv(192, 7, 1), conv(192, 3, 3).stride(2).valid()],
        vec![Layer::max_pool(3, 2).valid()],
    ])
}

/// On a grid of 8 (`mixed_9` and `mixed_10`).
fn figure_7() -> Layer {
    let spread = || Layer::Branches(vec![vec![conv(384, 1, 3)], vec![conv(384, 3, 1)]]);
    Layer::Branches(vec![
        vec![conv(320, 1, 1)],
        vec![conv(384, 1, 1), spread()],
        vec![conv(448, 1, 1), conv(384, 3, 3), spread()],
        pooled(192),
    ])
}
