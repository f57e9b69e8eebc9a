//! Normalisation and dropout: what keeps deep networks trainable.

/// How elements are brought to a mean of 0 and a variance of 1, or left out by chance.
///
/// `scale` and `offset` have a value for each position of the last axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Normalise {
    /// `(x, scale, offset)`: each position of the last axis, over all others (TensorFlow `FusedBatchNormV3` in
    /// training). Gives the result, and the batch's mean and variance, that of a sample (divided by `n - 1`).
    Batch {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `(dy, x, scale, mean, variance)`: the gradients of [`Normalise::Batch`] by `x`, `scale` and `offset`.
    BatchGrad {
        /// As that of the normalisation.
        epsilon: f32,
    },
    /// `(x, scale, offset)`: each row of the last axis by itself (Ba, Kiros and Hinton 2016).
    Layer {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `(dy, x, scale)`: the gradients of [`Normalise::Layer`] by `x`, `scale` and `offset`.
    LayerGrad {
        /// As that of the normalisation.
        epsilon: f32,
    },
    /// `(x, counter)`: a share of the elements as 0, the others scaled up to make up for it. Which, depends
    /// on the seeds and on the counter, an i64 scalar, alone. Its own gradient.
    Dropout {
        /// The share.
        rate: f32,
        /// The graph's seed, and the operation's own.
        seeds: (u64, u64),
    },
}

impl Normalise {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Batch { .. } => "FusedBatchNormV3",
            Self::BatchGrad { .. } => "FusedBatchNormGradV3",
            Self::Layer { .. } => "LayerNorm",
            Self::LayerGrad { .. } => "LayerNormGrad",
            Self::Dropout { .. } => "Dropout",
        }
    }
}
