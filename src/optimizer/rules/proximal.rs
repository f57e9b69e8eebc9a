//! A step along the gradient, then one by the norms of the variable (Duchi and Singer 2009: FOBOS).

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::number::Number;
use crate::kernels::update::ElementUpdate;

/// `w = v−lr·g; v = sgn(w)·max(|w|−lr·l1, 0)/(1+lr·l2)`
#[derive(Clone, Copy, Debug, Default)]
pub struct ProximalGradientDescentRule {
    /// The strength of the L1 norm.
    pub l1: f32,
    /// The strength of the L2 norm.
    pub l2: f32,
}

impl Rule for ProximalGradientDescentRule {
    fn name(&self) -> &'static str {
        "proximal_gradient_descent"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyProximalGradientDescent", "SparseApplyProximalGradientDescent"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            l1: given.number("l1", self.l1, Range::AtLeast0),
            l2: given.number("l2", self.l2, Range::AtLeast0),
        }
        .into()
    }

    fn flops(&self) -> usize {
        5
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(PerElement { rate, l1: self.l1, l2: self.l2 });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    rate: f32,
    l1: f32,
    l2: f32,
}

impl ElementUpdate<1> for PerElement {
    #[inline(always)]
    fn update(self, [v]: [f32; 1], g: f32) -> [f32; 1] {
        let moved = v - self.rate * g;
        // Not `f32::max`, which makes 0 of NaN: a training that diverges must show it.
        let kept = (moved.abs() - self.rate * self.l1).greater(0.0);
        [kept.copysign(moved) / (1.0 + self.rate * self.l2)]
    }
}

/// `a += g²`, then as [`ProximalGradientDescentRule`] with the rate `lr/√a`
#[derive(Clone, Copy, Debug)]
pub struct ProximalAdagradRule {
    /// The first value of `a`.
    pub initial_accumulator_value: f32,
    /// The strength of the L1 norm.
    pub l1: f32,
    /// The strength of the L2 norm.
    pub l2: f32,
}

impl Default for ProximalAdagradRule {
    fn default() -> Self {
        Self { initial_accumulator_value: 0.1, l1: 0.0, l2: 0.0 }
    }
}

impl Rule for ProximalAdagradRule {
    fn name(&self) -> &'static str {
        "proximal_adagrad"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyProximalAdagrad", "SparseApplyProximalAdagrad"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        let first = self.initial_accumulator_value;
        Self {
            initial_accumulator_value: given.number(
                "initial_accumulator_value",
                first,
                Range::Above0,
            ),
            l1: given.number("l1", self.l1, Range::AtLeast0),
            l2: given.number("l2", self.l2, Range::AtLeast0),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::like_variable("ProximalAdagrad", self.initial_accumulator_value)]
    }

    fn flops(&self) -> usize {
        11
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        state.each_element(AdagradStep(PerElement { rate, l1: self.l1, l2: self.l2 }));
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct AdagradStep(PerElement);

impl ElementUpdate<2> for AdagradStep {
    #[inline(always)]
    fn update(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a + g * g;
        let [v] = PerElement { rate: self.0.rate / a.sqrt(), ..self.0 }.update([v], g);
        [v, a]
    }
}

/// `w = v−lr·g; v = sgn(w)·max(|w|−lr·l1, 0)/(1+lr·l2)` (TensorFlow:
/// `ProximalGradientDescentOptimizer`).
pub type ProximalGradientDescent = Rated<ProximalGradientDescentRule>;

impl ProximalGradientDescent {
    /// Creates the rule with the given learning rate, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let rule = ProximalGradientDescentRule::default();
        Self { rule, learning_rate: learning_rate.into() }
    }
}

/// `a += g²`, then as [`ProximalGradientDescent`] with the rate `lr/√a` (TensorFlow:
/// `ProximalAdagradOptimizer`).
pub type ProximalAdagrad = Rated<ProximalAdagradRule>;

impl ProximalAdagrad {
    /// Creates the rule with the given learning rate, `a` beginning at 0.1, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: ProximalAdagradRule::default(), learning_rate: learning_rate.into() }
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

/// Adds `regularization` to an optimizer whose rule has `l1` and `l2`.
macro_rules! with_regularization {
    ($optimizer:ident) => {
        impl $optimizer {
            /// Regularizes by the L1 and the L2 norm, of these strengths.
            ///
            /// # Panics
            /// If one is below 0.
            #[must_use]
            #[track_caller]
            pub fn regularization(mut self, l1: f32, l2: f32) -> Self {
                (self.rule.l1, self.rule.l2) = (l1, l2);
                self.checked()
            }
        }
    };
}
pub(super) use with_regularization;
with_regularization!(ProximalGradientDescent);
with_regularization!(ProximalAdagrad);
