//! Gradient descent.

use super::Rated;
use crate::graph::{LearningRate, Parameters, Rule, RuleState, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `v -= lr·g`
#[derive(Clone, Copy, Debug, Default)]
pub struct GradientDescentRule;

impl Rule for GradientDescentRule {
    fn name(&self) -> &'static str {
        "gradient_descent"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyGradientDescent", "SparseApplyGradientDescent"]
    }

    fn parameters(&self, _: &mut Parameters) -> UpdateRule {
        Self.into()
    }

    fn flops(&self) -> usize {
        2
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(Descent { rate });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent {
    pub(super) rate: f32,
}

impl ElementUpdate<1> for Descent {
    #[inline(always)]
    fn update(self, [v]: [f32; 1], g: f32) -> [f32; 1] {
        [v - self.rate * g]
    }
}

/// `v -= lr·g` (TensorFlow: `GradientDescentOptimizer`).
pub type GradientDescent = Rated<GradientDescentRule>;

impl GradientDescent {
    /// Creates the rule with the given learning rate.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: GradientDescentRule, learning_rate: learning_rate.into() }
    }
}
