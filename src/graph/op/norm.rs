//! Normalisation, of a batch and of a layer, and dropout.

use serde::{Deserialize, Serialize};

/// A normalisation or a dropout. Channels are the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Norm {
    /// `(x […, channels], scale, offset)`: `y`, each channel with mean 0 and variance 1 over the
    /// batch, then scaled and offset; the means, the variances (over one less than the count), and
    /// the variances over the count, which the gradient needs (TensorFlow `FusedBatchNormV3` in
    /// training).
    Batch {
        /// The number added to each variance.
        epsilon: f32,
    },
    /// `(x […, channels], scale, offset, mean, variance)`: `y` by the moments given (TensorFlow
    /// `FusedBatchNormV3`, not in training).
    BatchInference {
        /// The number added to each variance.
        epsilon: f32,
    },
    /// `(dy, x, scale, mean, variance over the count)`: the gradients for `x`, `scale` and `offset`
    /// (TensorFlow `FusedBatchNormGradV3`).
    BatchGrad {
        /// The number added to each variance.
        epsilon: f32,
        /// Whether the moments are those of `x`, and so depend on `x`.
        is_training: bool,
    },
    /// `(x […, n], scale [n], offset [n])`: `y`, each row with mean 0 and variance 1, then scaled
    /// and offset; the mean of each row, and the inverse of its deviation (Ba et al. 2016).
    Layer {
        /// The number added to each variance.
        epsilon: f32,
    },
    /// `(dy, x, scale, mean, inverse deviation)`: the gradients for `x`, `scale` and `offset`.
    LayerGrad,
    /// `(x, counter)`: a share `rate` of the elements becomes 0, the others are multiplied by
    /// `1 / (1 - rate)`. The choice depends on the seeds, the counter (i64) and the position alone.
    Dropout {
        /// The share, from 0 to below 1.
        rate: f32,
        /// The graph's seed, and the operation's own.
        seeds: (u64, u64),
    },
}

impl Norm {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Batch { .. } | Self::BatchInference { .. } => "FusedBatchNormV3",
            Self::BatchGrad { .. } => "FusedBatchNormGradV3",
            Self::Layer { .. } => "LayerNorm",
            Self::LayerGrad => "LayerNormGrad",
            Self::Dropout { .. } => "Dropout",
        }
    }
}
