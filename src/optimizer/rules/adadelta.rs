//! Adadelta (Zeiler 2012).

use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// `a = ρ·a+(1−ρ)g²; d = √(u+ε)/√(a+ε)·g; v -= lr·d; u = ρ·u+(1−ρ)d²` (TensorFlow:
/// `AdadeltaOptimizer`).
#[derive(Clone, Debug)]
pub struct Adadelta {
    learning_rate: LearningRate,
    rho: f32,
    epsilon: f32,
}

impl Adadelta {
    /// With the given learning rate (1 in the paper), ρ = 0.95, ε = 1e-8.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into(), rho: 0.95, epsilon: 1e-8 }
    }

    /// With another ρ.
    #[must_use]
    pub fn rho(mut self, rho: f32) -> Self {
        self.rho = rho;
        self
    }

    /// With another ε, which sets the size of the first steps.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }
}

impl Default for Adadelta {
    /// TensorFlow's default learning rate, 0.001.
    fn default() -> Self {
        Self::new(0.001)
    }
}

impl From<Adadelta> for Optimizer {
    fn from(from: Adadelta) -> Self {
        Self::new(UpdateRule::Adadelta { rho: from.rho, epsilon: from.epsilon }, from.learning_rate)
    }
}
