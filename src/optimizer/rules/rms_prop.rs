//! RMSProp (Tieleman and Hinton 2012), plain and centered (Graves 2013).

use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// `s += (g²−s)(1−ρ); m = μ·m + lr·g/√(s+ε); v -= m` (TensorFlow: `RMSPropOptimizer`). As there,
/// `s` begins at 1.
#[derive(Clone, Debug)]
pub struct RmsProp {
    learning_rate: LearningRate,
    decay: f32,
    momentum: f32,
    epsilon: f32,
    centered: bool,
}

impl RmsProp {
    /// With the given learning rate, ρ = 0.9, μ = 0, ε = 1e-10, not centered.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let learning_rate = learning_rate.into();
        Self { learning_rate, decay: 0.9, momentum: 0.0, epsilon: 1e-10, centered: false }
    }

    /// With another ρ.
    #[must_use]
    pub fn decay(mut self, decay: f32) -> Self {
        self.decay = decay;
        self
    }

    /// With another μ.
    #[must_use]
    pub fn momentum(mut self, momentum: f32) -> Self {
        self.momentum = momentum;
        self
    }

    /// With another ε.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Divides by the deviation of the gradient from its mean, and not by its root mean square.
    #[must_use]
    pub fn centered(mut self) -> Self {
        self.centered = true;
        self
    }
}

impl From<RmsProp> for Optimizer {
    fn from(from: RmsProp) -> Self {
        let RmsProp { decay, momentum, epsilon, centered, .. } = from;
        Self::new(UpdateRule::RmsProp { decay, momentum, epsilon, centered }, from.learning_rate)
    }
}
