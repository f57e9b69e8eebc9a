//! Gradient descent, and with momentum.

use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// `v -= lr·g` (TensorFlow: `GradientDescentOptimizer`).
#[derive(Clone, Debug)]
pub struct GradientDescent {
    learning_rate: LearningRate,
}

impl GradientDescent {
    /// With the given learning rate.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into() }
    }
}

impl From<GradientDescent> for Optimizer {
    fn from(from: GradientDescent) -> Self {
        Self::new(UpdateRule::GradientDescent, from.learning_rate)
    }
}

/// `m = μ·m + g; v -= lr·m` (TensorFlow: `MomentumOptimizer`).
#[derive(Clone, Debug)]
pub struct Momentum {
    learning_rate: LearningRate,
    momentum: f32,
    use_nesterov: bool,
}

impl Momentum {
    /// With the given learning rate and μ.
    pub fn new(learning_rate: impl Into<LearningRate>, momentum: f32) -> Self {
        Self { learning_rate: learning_rate.into(), momentum, use_nesterov: false }
    }

    /// Looks ahead: `v -= lr·g + lr·μ·m` (Nesterov).
    #[must_use]
    pub fn use_nesterov(mut self) -> Self {
        self.use_nesterov = true;
        self
    }
}

impl From<Momentum> for Optimizer {
    fn from(from: Momentum) -> Self {
        Self::new(
            UpdateRule::Momentum { momentum: from.momentum, use_nesterov: from.use_nesterov },
            from.learning_rate,
        )
    }
}
