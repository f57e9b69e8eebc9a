//! Adagrad by dual averaging (Duchi, Hazan and Singer 2011).

use super::Rated;
use super::proximal::with_regularization;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::number::Number;
use crate::kernels::update::ElementUpdate;

/// `G += g; Q += g²; T += 1; v = −lr·sgn(G)·max(|G|−l1·T, 0)/(l2·T·lr+√Q)`: the new value of the
/// variable depends on the sums alone.
#[derive(Clone, Copy, Debug)]
pub struct AdagradDaRule {
    /// The first value of `Q`.
    pub initial_gradient_squared_accumulator_value: f32,
    /// The strength of the L1 norm.
    pub l1: f32,
    /// The strength of the L2 norm.
    pub l2: f32,
}

impl Default for AdagradDaRule {
    fn default() -> Self {
        Self { initial_gradient_squared_accumulator_value: 0.1, l1: 0.0, l2: 0.0 }
    }
}

impl Rule for AdagradDaRule {
    fn name(&self) -> &'static str {
        "adagrad_da"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyAdagradDA", "SparseApplyAdagradDA"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            initial_gradient_squared_accumulator_value: given.number(
                "initial_gradient_squared_accumulator_value",
                self.initial_gradient_squared_accumulator_value,
                Range::Above0,
            ),
            l1: given.number("l1", self.l1, Range::AtLeast0),
            l2: given.number("l2", self.l2, Range::AtLeast0),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        let squared = self.initial_gradient_squared_accumulator_value;
        vec![
            Slot::like_variable("AdagradDA", 0.0),
            Slot::like_variable("AdagradDA_1", squared),
            Slot::count("updates"),
        ]
    }

    fn scales_by_rate(&self) -> bool {
        true
    }

    fn flops(&self) -> usize {
        10
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        let updates = state.count(2);
        *updates += 1;
        let update = *updates as f32;
        state.each_element(PerElement { rate, l1: self.l1, l2: self.l2, update });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerElement {
    pub(super) rate: f32,
    pub(super) l1: f32,
    pub(super) l2: f32,
    /// The number of this update, from 1: how many gradients the sums have after it.
    pub(super) update: f32,
}

impl ElementUpdate<3> for PerElement {
    #[inline(always)]
    fn update(self, [_, sum, squared]: [f32; 3], g: f32) -> [f32; 3] {
        let (sum, squared) = (sum + g, squared + g * g);
        // Not `f32::max`, which makes 0 of NaN: a training that diverges must show it.
        let shrunk = (sum.abs() - self.l1 * self.update).greater(0.0).copysign(sum);
        [-self.rate * shrunk / (self.l2 * self.update * self.rate + squared.sqrt()), sum, squared]
    }
}

/// Adagrad by dual averaging, for sparse linear models (TensorFlow: `AdagradDAOptimizer`):
/// `G += g; Q += g²; v = −lr·sgn(G)·max(|G|−l1·T, 0)/(l2·T·lr+√Q)`.
///
/// The variable depends on the sums alone, so its first value counts for nothing. `T` is the number
/// of gradients in the sums, which the variable counts itself. TensorFlow uses the global step plus
/// 1: the same if every step updates every variable, and off by the other workers' open steps if
/// they train asynchronously.
pub type AdagradDa = Rated<AdagradDaRule>;

impl AdagradDa {
    /// Creates the rule with the given learning rate, `Q` beginning at 0.1, and no regularization.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: AdagradDaRule::default(), learning_rate: learning_rate.into() }
    }

    /// Sets the first value of `Q`.
    ///
    /// # Panics
    /// If the value is not positive: an update without a gradient would divide by zero.
    #[must_use]
    #[track_caller]
    pub fn initial_gradient_squared_accumulator_value(mut self, value: f32) -> Self {
        self.rule.initial_gradient_squared_accumulator_value = value;
        self.checked()
    }
}

with_regularization!(AdagradDa);
