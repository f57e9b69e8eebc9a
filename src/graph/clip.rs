//! Clipping of values and gradients, composed of operations as TensorFlow does it.

use super::error::{GraphError, GraphProblem};
use super::output::Output;

impl Output {
    /// Each element, raised to `low` or lowered to `high`; both are cast to the element type
    /// (TensorFlow `tf.clip_by_value`).
    ///
    /// # Errors
    /// If the elements are not numbers.
    #[track_caller]
    pub fn clip_by_value(&self, low: f64, high: f64) -> Result<Self, GraphError> {
        self.minimum(&self.scalar_alike(high))?.maximum(&self.scalar_alike(low))
    }

    /// All elements times one factor, so that the square root of the sum of their squares is at
    /// most `norm` (TensorFlow `tf.clip_by_norm`, over all axes).
    ///
    /// # Errors
    /// If the elements are not real numbers.
    #[track_caller]
    pub fn clip_by_norm(&self, norm: f64) -> Result<Self, GraphError> {
        let sum = self.square().sum();
        let positive = sum.greater(&self.scalar_alike(0.0))?;
        // The square root has no derivative at 0.
        let root = positive.select(&sum, &self.scalar_alike(1.0))?.sqrt();
        let (own, limit) = (positive.select(&root, &sum)?, self.scalar_alike(norm));
        self.mul(&limit)?.div(&own.maximum(&limit)?)
    }
}

/// The square root of the sum of the squares of all elements of all `values` (TensorFlow
/// `tf.linalg.global_norm`).
///
/// # Errors
/// If there are no values, or they are not real numbers of one type.
#[track_caller]
pub fn global_norm(values: &[Output]) -> Result<Output, GraphError> {
    let Some((first, others)) = values.split_first() else {
        let needs = "at least one value".to_owned();
        return Err(GraphError::new(
            "global_norm",
            GraphProblem::Inputs { needs, inputs: Vec::new() },
        ));
    };
    let sums: Vec<Output> = others.iter().map(|value| value.square().sum()).collect();
    Ok(first.square().sum().add_all(&sums.iter().collect::<Vec<_>>())?.sqrt())
}

/// All `values` times one factor, so that their [`global_norm`] is at most `norm`; and the norm
/// that they had before (TensorFlow `tf.clip_by_global_norm`). If that norm is not finite, all
/// values become NaN.
///
/// # Errors
/// If there are no values, or they are not real numbers of one type.
#[track_caller]
pub fn clip_by_global_norm(
    values: &[Output],
    norm: f64,
) -> Result<(Vec<Output>, Output), GraphError> {
    let own = global_norm(values)?;
    let limit = own.scalar_alike(norm);
    let of_finite = limit.mul(&own.reciprocal().minimum(&limit.reciprocal())?)?;
    let factor = of_finite.add(&own.sub(&own)?)?;
    let mut clipped = Vec::new();
    for value in values {
        clipped.push(value.mul(&factor)?);
    }
    Ok((clipped, own))
}
