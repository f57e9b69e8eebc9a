//! Adadelta (Zeiler 2012).

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `a = ρ·a+(1−ρ)g²; d = √(u+ε)/√(a+ε)·g; v -= lr·d; u = ρ·u+(1−ρ)d²`
#[derive(Clone, Copy, Debug)]
pub struct AdadeltaRule {
    /// ρ: the share of both means that is kept at each step.
    pub rho: f32,
    /// ε: gets the first steps going, and keeps the denominator from 0.
    pub epsilon: f32,
}

impl Default for AdadeltaRule {
    fn default() -> Self {
        Self { rho: 0.95, epsilon: 1e-8 }
    }
}

impl Rule for AdadeltaRule {
    fn name(&self) -> &'static str {
        "adadelta"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyAdadelta", "SparseApplyAdadelta"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            rho: given.number("rho", self.rho, Range::Fraction),
            epsilon: given.number("epsilon", self.epsilon, Range::AtLeast0),
        }
        .into()
    }

    fn default_learning_rate(&self) -> f32 {
        0.001
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::like_variable("Adadelta", 0.0), Slot::like_variable("Adadelta_1", 0.0)]
    }

    fn flops(&self) -> usize {
        16
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(PerElement { rate, rho: self.rho, epsilon: self.epsilon });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    rate: f32,
    rho: f32,
    epsilon: f32,
}

impl ElementUpdate<3> for PerElement {
    #[inline(always)]
    fn update(self, [v, a, u]: [f32; 3], g: f32) -> [f32; 3] {
        let a = a * self.rho + g * g * (1.0 - self.rho);
        let d = (u + self.epsilon).sqrt() / (a + self.epsilon).sqrt() * g;
        [v - self.rate * d, a, u * self.rho + d * d * (1.0 - self.rho)]
    }
}

/// `a = ρ·a+(1−ρ)g²; d = √(u+ε)/√(a+ε)·g; v -= lr·d; u = ρ·u+(1−ρ)d²` (TensorFlow:
/// `AdadeltaOptimizer`).
pub type Adadelta = Rated<AdadeltaRule>;

impl Adadelta {
    /// Creates the rule with the given learning rate (1 in the paper), ρ = 0.95, ε = 1e-8.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: AdadeltaRule::default(), learning_rate: learning_rate.into() }
    }

    /// Sets ρ.
    #[must_use]
    pub fn rho(mut self, rho: f32) -> Self {
        self.rule.rho = rho;
        self
    }

    /// Sets ε, which determines the size of the first steps.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.rule.epsilon = epsilon;
        self
    }
}

impl Default for Adadelta {
    /// Uses TensorFlow's default learning rate, 0.001.
    fn default() -> Self {
        Self::new(AdadeltaRule::default().default_learning_rate())
    }
}
