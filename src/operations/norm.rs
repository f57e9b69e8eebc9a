//! Normalisation, of a batch and of a layer, and dropout.

mod compute;

use smallvec::smallvec;

use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, KernelKind, Known,
    OpDef, Output, OutputTypes, Outputs, TensorType, agree, bytes,
};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// A normalisation or a dropout. Channels are the last axis.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![
        Norm::Batch { epsilon: 0.0 }.into(),
        Norm::BatchGrad { epsilon: 0.0, is_training: true }.into(),
        Norm::Layer { epsilon: 0.0 }.into(),
        Norm::LayerGrad.into(),
        Norm::Dropout { rate: 0.0, seeds: (0, 0) }.into(),
    ]
}

impl OpDef for Norm {
    fn kind(&self) -> &'static str {
        match self {
            Self::Batch { .. } | Self::BatchInference { .. } => "FusedBatchNormV3",
            Self::BatchGrad { .. } => "FusedBatchNormGradV3",
            Self::Layer { .. } => "LayerNorm",
            Self::LayerGrad => "LayerNormGrad",
            Self::Dropout { .. } => "Dropout",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        match *self {
            Self::Batch { epsilon: own } | Self::BatchInference { epsilon: own } => {
                let epsilon = given.float("epsilon", own);
                match given.flag("is_training", matches!(self, Self::Batch { .. })) {
                    true => Self::Batch { epsilon },
                    false => Self::BatchInference { epsilon },
                }
            }
            Self::BatchGrad { epsilon: own, is_training } => Self::BatchGrad {
                epsilon: given.float("epsilon", own),
                is_training: given.flag("is_training", is_training),
            },
            Self::Layer { epsilon: own } => Self::Layer { epsilon: given.float("epsilon", own) },
            Self::LayerGrad => Self::LayerGrad,
            Self::Dropout { rate, seeds: (graph, own) } => Self::Dropout {
                rate: given.float("rate", rate),
                seeds: (given.seed("graph_seed", graph), given.seed("seed", own)),
            },
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (outputs, needs) = match (self, inputs) {
            (Self::Batch { .. }, [x, channels @ ..]) if channels.len() == 2 => (
                normal(*x, channels).map(|(x, channel)| smallvec![x, channel, channel, channel]),
                "f32 […, n], and a scale and an offset [n]",
            ),
            (Self::BatchInference { .. }, [x, channels @ ..]) if channels.len() == 4 => (
                normal(*x, channels).map(|(x, _)| smallvec![x]),
                "f32 […, n], and a scale, an offset, a mean and a variance [n]",
            ),
            (Self::BatchGrad { .. }, [dy, x, channels @ ..]) if channels.len() == 3 => (
                normal(*x, channels)
                    .filter(|(x, _)| fits(*dy, *x))
                    .map(|(x, channel)| smallvec![x, channel, channel]),
                "f32 […, n], two of one shape, and a scale, a mean and a variance [n]",
            ),
            (Self::Layer { .. }, [x, channels @ ..]) if channels.len() == 2 => (
                normal(*x, channels).map(|(x, _)| smallvec![x, rows(x), rows(x)]),
                "f32 […, n], and a scale and an offset [n]",
            ),
            (Self::LayerGrad, [dy, x, scale, moments @ ..]) if moments.len() == 2 => (
                normal(*x, &[*scale])
                    .filter(|(x, _)| {
                        fits(*dy, *x) && moments.iter().all(|moment| fits(*moment, rows(*x)))
                    })
                    .map(|(x, channel)| smallvec![x, channel, channel]),
                "f32 […, n], two of one shape, a scale [n], and a mean and a deviation for each \
                 row",
            ),
            (Self::Dropout { .. }, [x, counter]) => (
                (x.dtype.is_real() && *counter == TensorType::new(DType::I64, Shape::SCALAR))
                    .then(|| smallvec![*x]),
                "f32 or f64, and an i64 scalar that counts the steps",
            ),
            _ => (None, "another number of inputs"),
        };
        outputs.ok_or_else(|| GraphProblem::needs(needs, inputs))
    }

    /// The gradient of a normalisation, of whose outputs only `y` has one; or of a dropout, masked
    /// as its output was.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        let (grad, moments) = match *self {
            Self::Batch { epsilon } => {
                let grad = Self::BatchGrad { epsilon, is_training: true };
                (grad, [of.output(1), of.output(3)])
            }
            Self::BatchInference { epsilon } if !of.wants(3) && !of.wants(4) => {
                let grad = Self::BatchGrad { epsilon, is_training: false };
                (grad, [of.input(3), of.input(4)])
            }
            Self::Layer { .. } => (Self::LayerGrad, [of.output(1), of.output(2)]),
            Self::Dropout { .. } => {
                return Ok(vec![Some(dy.with(&[&of.input(1)], *self)?), None]);
            }
            _ => return Err(of.no_gradient()),
        };
        let [mean, spread] = moments;
        let by = dy.with(&[&of.input(0), &of.input(1), &mean, &spread], grad)?;
        let part = |i: usize| (i < 3 && of.wants(i)).then(|| by.sibling(i as u32));
        Ok((0..of.inputs()).map(part).collect())
    }

    /// The operations of each pass an element; every element of each operand once.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        let flops = match self {
            Self::Batch { .. } | Self::Layer { .. } => 7,
            Self::BatchInference { .. } => 3,
            Self::BatchGrad { .. } => 9,
            Self::LayerGrad => 14,
            Self::Dropout { .. } => 14,
        };
        let elements = outputs[0].1.elements();
        Cost::work(flops * elements, bytes(inputs) + bytes(outputs))
    }

    fn kernel_kind(&self) -> KernelKind {
        match self {
            Self::Dropout { .. } => KernelKind::Elementwise,
            _ => KernelKind::Reduction,
        }
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(compute::call(*self, inputs))
    }
}

fn fits(a: TensorType, b: TensorType) -> bool {
    a.dtype == b.dtype && a.shape.merge(&b.shape).is_some()
}

/// The type of `x` and that of a value for each of its channels, as far as `x` and `channels` tell
/// them.
fn normal(x: TensorType, channels: &[TensorType]) -> Option<(TensorType, TensorType)> {
    let (last, rows) = x.float_dims()?.split_last()?;
    let mut width = *last;
    for channel in channels {
        let &[own] = channel.float_dims()? else { return None };
        width = agree(width, own)?;
    }
    let shape = PartialShape::new(&[rows, &[width]].concat());
    Some((TensorType { shape, ..x }, TensorType::new(DType::F32, [width])))
}

/// The type of one value for each row.
fn rows(x: TensorType) -> TensorType {
    let dims = x.shape.dims();
    TensorType::new(x.dtype, PartialShape::new(&dims[..dims.len() - 1]))
}

impl Output {
    /// These, normalised by the moments of the batch, and its moments.
    #[track_caller]
    pub(crate) fn batch_norm(&self, affine: &[&Self; 2], epsilon: f32) -> Result<Self, GraphError> {
        self.with(affine, Norm::Batch { epsilon })
    }

    /// These, normalised by moments that are given after scale and offset.
    #[track_caller]
    pub(crate) fn batch_norm_by(
        &self,
        affine_and_moments: &[&Self; 4],
        epsilon: f32,
    ) -> Result<Self, GraphError> {
        self.with(affine_and_moments, Norm::BatchInference { epsilon })
    }

    /// Each row, normalised.
    #[track_caller]
    pub(crate) fn layer_norm(&self, affine: &[&Self; 2], epsilon: f32) -> Result<Self, GraphError> {
        self.with(affine, Norm::Layer { epsilon })
    }

    /// See [`dropout`](crate::graph::dropout).
    #[track_caller]
    pub(crate) fn dropped_out(
        &self,
        counter: &Self,
        rate: f32,
        seeds: (u64, u64),
    ) -> Result<Self, GraphError> {
        self.with(&[counter], Norm::Dropout { rate, seeds })
    }
}
