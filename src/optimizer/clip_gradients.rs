//! `ClipGradients`: bounds that gradients are clipped to before they are applied.

use crate::graph::{Gradient, GraphError, IndexedSlices, Output, Variable, clip_by_global_norm};

/// The bounds that a worker clips its gradients to before it sends them. With synchronous training
/// each gradient of a round is clipped, and then their mean is applied. So it is with an
/// all-reduce, in which each task is a worker.
///
/// Rows that come more than once are summed first, so that a gradient of rows is clipped as the
/// dense one would be. (TensorFlow clips each occurrence of a row by itself, and so overlooks their
/// sum.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClipGradients {
    /// Keeps each element at least minus this and at most this (TensorFlow: `tf.clip_by_value`).
    ByValue(f32),
    /// Keeps the norm of each variable's gradient at most this (TensorFlow: `tf.clip_by_norm`).
    ByNorm(f32),
    /// Keeps the norm of all gradients together at most this; if that norm is not finite, all
    /// become NaN (Pascanu et al. 2013; TensorFlow: `tf.clip_by_global_norm`).
    ByGlobalNorm(f32),
}

impl ClipGradients {
    #[track_caller]
    pub(super) fn assert_positive(self) {
        let (Self::ByValue(bound) | Self::ByNorm(bound) | Self::ByGlobalNorm(bound)) = self;
        assert!(bound > 0.0, "gradients can't be clipped to {bound}; it must be above 0");
    }

    /// Returns the same variables, with clipped gradients.
    #[track_caller]
    pub(super) fn apply(
        self,
        pairs: &[(Variable, Gradient)],
    ) -> Result<Vec<(Variable, Gradient)>, GraphError> {
        let summed: Vec<Gradient> =
            pairs.iter().map(|(_, gradient)| gradient.sum_duplicates()).collect();
        let values: Vec<Output> = summed.iter().map(|gradient| gradient.values().clone()).collect();
        let clipped = match self {
            Self::ByValue(bound) => {
                each(&values, |value| value.clip_by_value((-bound).into(), bound.into()))?
            }
            Self::ByNorm(bound) => each(&values, |value| value.clip_by_norm(bound.into()))?,
            Self::ByGlobalNorm(bound) => clip_by_global_norm(&values, bound.into())?.0,
        };
        let mut bounded = Vec::with_capacity(pairs.len());
        for (((variable, _), gradient), values) in pairs.iter().zip(&summed).zip(clipped) {
            let gradient = match gradient {
                Gradient::Dense(_) => values.into(),
                Gradient::Slices(slices) => {
                    IndexedSlices::new(&values, slices.indices(), slices.rows())?.into()
                }
            };
            bounded.push((variable.clone(), gradient));
        }
        Ok(bounded)
    }
}

fn each(
    values: &[Output],
    clip: impl Fn(&Output) -> Result<Output, GraphError>,
) -> Result<Vec<Output>, GraphError> {
    values.iter().map(clip).collect()
}
