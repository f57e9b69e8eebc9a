//! Adagrad (Duchi, Hazan and Singer 2011), and its form by dual averaging.

use super::{at_least_0, positive};
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// `a += g²; v -= lr·g/√a`, without ε (TensorFlow: `AdagradOptimizer`).
#[derive(Clone, Debug)]
pub struct Adagrad {
    learning_rate: LearningRate,
    initial_accumulator_value: f32,
}

impl Adagrad {
    /// With the given learning rate, and `a` beginning at 0.1.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into(), initial_accumulator_value: 0.1 }
    }

    /// Begins with `a` at `value`.
    ///
    /// # Panics
    /// If the value is not positive: the first update would divide by zero.
    #[must_use]
    #[track_caller]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        self.initial_accumulator_value = positive("Adagrad's initial accumulator value", value);
        self
    }
}

impl From<Adagrad> for Optimizer {
    fn from(from: Adagrad) -> Self {
        Self::new(
            UpdateRule::Adagrad { initial_accumulator_value: from.initial_accumulator_value },
            from.learning_rate,
        )
    }
}

/// Adagrad by dual averaging, for sparse linear models (TensorFlow: `AdagradDAOptimizer`):
/// `G += g; Q += g²; v = −lr·sgn(G)·max(|G|−l1·T, 0)/(l2·T·lr+√Q)`.
///
/// The variable is a function of the sums alone, so what it began with counts for nothing. `T` is
/// how many gradients the sums have, which the variable counts itself. TensorFlow takes the global
/// step plus 1: the same where every step updates every variable, and off by the other workers'
/// open steps where they train asynchronously.
#[derive(Clone, Debug)]
pub struct AdagradDa {
    learning_rate: LearningRate,
    initial_gradient_squared_accumulator_value: f32,
    l1: f32,
    l2: f32,
}

impl AdagradDa {
    /// With the given learning rate, `Q` beginning at 0.1, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let learning_rate = learning_rate.into();
        Self { learning_rate, initial_gradient_squared_accumulator_value: 0.1, l1: 0.0, l2: 0.0 }
    }

    /// Begins with `Q` at `value`.
    ///
    /// # Panics
    /// If the value is not positive: an update without a gradient would divide by zero.
    #[must_use]
    #[track_caller]
    pub fn initial_gradient_squared_accumulator_value(mut self, value: f32) -> Self {
        self.initial_gradient_squared_accumulator_value =
            positive("AdagradDA's initial squared accumulator", value);
        self
    }

    /// Regularizes by the L1 and the L2 norm, of these strengths.
    ///
    /// # Panics
    /// If one is below 0.
    #[must_use]
    #[track_caller]
    pub fn regularization(mut self, l1: f32, l2: f32) -> Self {
        (self.l1, self.l2) = (at_least_0("AdagradDA's l1", l1), at_least_0("AdagradDA's l2", l2));
        self
    }
}

impl From<AdagradDa> for Optimizer {
    fn from(from: AdagradDa) -> Self {
        let AdagradDa { initial_gradient_squared_accumulator_value, l1, l2, .. } = from;
        Self::new(
            UpdateRule::AdagradDa { initial_gradient_squared_accumulator_value, l1, l2 },
            from.learning_rate,
        )
    }
}
