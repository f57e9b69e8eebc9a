//! Adagrad (Duchi, Hazan and Singer 2011).

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `a += g²; v -= lr·g/√a`: no ε, so `a` must begin above 0.
#[derive(Clone, Copy, Debug)]
pub struct AdagradRule {
    /// The first value of `a`.
    pub initial_accumulator_value: f32,
}

impl Default for AdagradRule {
    fn default() -> Self {
        Self { initial_accumulator_value: 0.1 }
    }
}

impl Rule for AdagradRule {
    fn name(&self) -> &'static str {
        "adagrad"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyAdagrad", "SparseApplyAdagrad"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        let first = self.initial_accumulator_value;
        let first = given.number("initial_accumulator_value", first, Range::Above0);
        Self { initial_accumulator_value: first }.into()
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::like_variable("Adagrad", self.initial_accumulator_value)]
    }

    fn flops(&self) -> usize {
        6
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(PerElement { rate });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    rate: f32,
}

impl ElementUpdate<2> for PerElement {
    #[inline(always)]
    fn update(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a + g * g;
        [v - self.rate * g / a.sqrt(), a]
    }
}

/// `a += g²; v -= lr·g/√a`, without ε (TensorFlow: `AdagradOptimizer`).
pub type Adagrad = Rated<AdagradRule>;

impl Adagrad {
    /// Creates the rule with the given learning rate, and `a` beginning at 0.1.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: AdagradRule::default(), learning_rate: learning_rate.into() }
    }

    /// Sets the first value of `a`.
    ///
    /// # Panics
    /// If the value is not positive: the first update would divide by zero.
    #[must_use]
    #[track_caller]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        self.rule.initial_accumulator_value = value;
        self.checked()
    }
}
