//! Follow the regularized leader (McMahan et al. 2013).

use super::{at_least_0, checked};
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// FTRL-proximal, for wide linear models: weights that the L1 norm makes exactly 0 (TensorFlow:
/// `FtrlOptimizer`).
#[derive(Clone, Debug)]
pub struct Ftrl {
    learning_rate: LearningRate,
    learning_rate_power: f32,
    initial_accumulator_value: f32,
    l1: f32,
    l2: f32,
    l2_shrinkage: f32,
    beta: f32,
}

impl Ftrl {
    /// With the given learning rate, the power −½, the accumulator beginning at 0.1, and no
    /// regularization. At the rate 0 nothing changes, where TensorFlow's weights become NaN.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            learning_rate_power: -0.5,
            initial_accumulator_value: 0.1,
            l1: 0.0,
            l2: 0.0,
            l2_shrinkage: 0.0,
            beta: 0.0,
        }
    }

    /// How the rate of a weight falls with the sum of its squared gradients; at 0 it stays.
    ///
    /// # Panics
    /// If the power is above 0.
    #[must_use]
    #[track_caller]
    pub fn learning_rate_power(mut self, power: f32) -> Self {
        self.learning_rate_power =
            checked("FTRL's learning rate power", power, "at most 0", |power| power <= 0.0);
        self
    }

    /// Begins with the sum of squares at `value`.
    ///
    /// # Panics
    /// If the value is below 0.
    #[must_use]
    #[track_caller]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        self.initial_accumulator_value = at_least_0("FTRL's initial accumulator value", value);
        self
    }

    /// Regularizes by the L1 and the L2 norm, of these strengths.
    ///
    /// # Panics
    /// If one is below 0.
    #[must_use]
    #[track_caller]
    pub fn regularization(mut self, l1: f32, l2: f32) -> Self {
        (self.l1, self.l2) = (at_least_0("FTRL's l1", l1), at_least_0("FTRL's l2", l2));
        self
    }

    /// Adds the L2 norm to the loss, where [`Ftrl::regularization`] holds the weights themselves
    /// back.
    ///
    /// # Panics
    /// If the strength is below 0.
    #[must_use]
    #[track_caller]
    pub fn l2_shrinkage(mut self, strength: f32) -> Self {
        self.l2_shrinkage = at_least_0("FTRL's l2 shrinkage", strength);
        self
    }

    /// Adds β to the root of the sum of squares, as the paper has it.
    ///
    /// # Panics
    /// If β is below 0.
    #[must_use]
    #[track_caller]
    pub fn beta(mut self, beta: f32) -> Self {
        self.beta = at_least_0("FTRL's beta", beta);
        self
    }
}

impl From<Ftrl> for Optimizer {
    fn from(from: Ftrl) -> Self {
        let Ftrl {
            learning_rate_power, initial_accumulator_value, l1, l2, l2_shrinkage, beta, ..
        } = from;
        let rule = UpdateRule::Ftrl {
            learning_rate_power,
            initial_accumulator_value,
            l1,
            l2,
            l2_shrinkage,
            beta,
        };
        Self::new(rule, from.learning_rate)
    }
}
