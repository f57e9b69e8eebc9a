//! Gradient descent with momentum.

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `m = μ·m + g; v -= lr·m`, with Nesterov `v -= lr·g + lr·μ·m`
#[derive(Clone, Copy, Debug)]
pub struct MomentumRule {
    /// μ, below 1: what moves the variable never fades otherwise.
    pub momentum: f32,
    /// Whether to look ahead (Nesterov).
    pub use_nesterov: bool,
}

impl Default for MomentumRule {
    fn default() -> Self {
        Self { momentum: 0.9, use_nesterov: false }
    }
}

impl Rule for MomentumRule {
    fn name(&self) -> &'static str {
        "momentum"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyMomentum", "SparseApplyMomentum"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            momentum: given.number("momentum", self.momentum, Range::Fraction),
            use_nesterov: given.flag("use_nesterov", self.use_nesterov),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::like_variable("Momentum", 0.0)]
    }

    fn flops(&self) -> usize {
        if self.use_nesterov { 7 } else { 4 }
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(PerElement {
            rate,
            momentum: self.momentum,
            use_nesterov: self.use_nesterov,
        });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    rate: f32,
    momentum: f32,
    use_nesterov: bool,
}

impl ElementUpdate<2> for PerElement {
    #[inline(always)]
    fn update(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a * self.momentum + g;
        let step = if self.use_nesterov {
            g * self.rate + a * self.momentum * self.rate
        } else {
            self.rate * a
        };
        [v - step, a]
    }
}

/// `m = μ·m + g; v -= lr·m` (TensorFlow: `MomentumOptimizer`).
pub type Momentum = Rated<MomentumRule>;

impl Momentum {
    /// Creates the rule with the given learning rate and μ.
    pub fn new(learning_rate: impl Into<LearningRate>, momentum: f32) -> Self {
        let rule = MomentumRule { momentum, use_nesterov: false };
        Self { rule, learning_rate: learning_rate.into() }
    }

    /// Looks ahead: `v -= lr·g + lr·μ·m` (Nesterov).
    #[must_use]
    pub fn use_nesterov(mut self) -> Self {
        self.rule.use_nesterov = true;
        self
    }
}
