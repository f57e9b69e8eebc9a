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

impl Optimizer for GradientDescent {
    fn rule(&self) -> UpdateRule {
        UpdateRule::GradientDescent
    }

    fn learning_rate(&self) -> LearningRate {
        self.learning_rate.clone()
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

impl Optimizer for Momentum {
    fn rule(&self) -> UpdateRule {
        UpdateRule::Momentum { momentum: self.momentum, use_nesterov: self.use_nesterov }
    }

    fn learning_rate(&self) -> LearningRate {
        self.learning_rate.clone()
    }
}
