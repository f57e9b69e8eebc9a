//! A step of the gradient, then one of the norms of the variable (Duchi and Singer 2009: FOBOS).

use super::{at_least_0, positive};
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// `w = v−lr·g; v = sgn(w)·max(|w|−lr·l1, 0)/(1+lr·l2)` (TensorFlow:
/// `ProximalGradientDescentOptimizer`).
#[derive(Clone, Debug)]
pub struct ProximalGradientDescent {
    learning_rate: LearningRate,
    l1: f32,
    l2: f32,
}

impl ProximalGradientDescent {
    /// With the given learning rate, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into(), l1: 0.0, l2: 0.0 }
    }

    /// Regularizes by the L1 and the L2 norm, of these strengths.
    ///
    /// # Panics
    /// If one is below 0.
    #[must_use]
    #[track_caller]
    pub fn regularization(mut self, l1: f32, l2: f32) -> Self {
        (self.l1, self.l2) = (at_least_0("the strength l1", l1), at_least_0("the strength l2", l2));
        self
    }
}

impl From<ProximalGradientDescent> for Optimizer {
    fn from(from: ProximalGradientDescent) -> Self {
        Self::new(
            UpdateRule::ProximalGradientDescent { l1: from.l1, l2: from.l2 },
            from.learning_rate,
        )
    }
}

/// `a += g²`, then as [`ProximalGradientDescent`] with the rate `lr/√a` (TensorFlow:
/// `ProximalAdagradOptimizer`).
#[derive(Clone, Debug)]
pub struct ProximalAdagrad {
    learning_rate: LearningRate,
    initial_accumulator_value: f32,
    l1: f32,
    l2: f32,
}

impl ProximalAdagrad {
    /// With the given learning rate, `a` beginning at 0.1, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            initial_accumulator_value: 0.1,
            l1: 0.0,
            l2: 0.0,
        }
    }

    /// Begins with `a` at `value`.
    ///
    /// # Panics
    /// If the value is not positive: the first update would divide by zero.
    #[must_use]
    #[track_caller]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        self.initial_accumulator_value =
            positive("ProximalAdagrad's initial accumulator value", value);
        self
    }

    /// Regularizes by the L1 and the L2 norm, of these strengths.
    ///
    /// # Panics
    /// If one is below 0.
    #[must_use]
    #[track_caller]
    pub fn regularization(mut self, l1: f32, l2: f32) -> Self {
        (self.l1, self.l2) = (at_least_0("the strength l1", l1), at_least_0("the strength l2", l2));
        self
    }
}

impl From<ProximalAdagrad> for Optimizer {
    fn from(from: ProximalAdagrad) -> Self {
        let ProximalAdagrad { initial_accumulator_value, l1, l2, .. } = from;
        Self::new(
            UpdateRule::ProximalAdagrad { initial_accumulator_value, l1, l2 },
            from.learning_rate,
        )
    }
}
