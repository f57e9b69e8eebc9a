//! Follow the regularized leader, proximal (McMahan et al. 2013).

use super::Rated;
use super::proximal::with_regularization;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::cost::EXP;
use crate::kernels::update::ElementUpdate;

/// The usual power of the learning rate; with it the powers of the accumulators are roots.
const ROOT: f32 = -0.5;

/// `n = a+g²; z += g'−(n^−p−a^−p)/lr·v; v = |z|>l1 ? (l1·sgn z−z)/(n^−p/lr+2·l2+β/lr) : 0; a = n`,
/// where `g' = g+2·l2_shrinkage·v` (TensorFlow `ApplyFtrlV2`).
///
/// With the power −½, powers are roots; other powers are computed by the platform's library.
#[derive(Clone, Copy, Debug)]
pub struct FtrlRule {
    /// p: the power of the learning rate, at most 0.
    pub learning_rate_power: f32,
    /// The first value of `a`.
    pub initial_accumulator_value: f32,
    /// The strength of the L1 norm.
    pub l1: f32,
    /// The strength of the L2 norm.
    pub l2: f32,
    /// The strength of the L2 norm that shrinks the weights, but not the learning rate.
    pub l2_shrinkage: f32,
    /// β.
    pub beta: f32,
}

impl Default for FtrlRule {
    fn default() -> Self {
        Self {
            learning_rate_power: ROOT,
            initial_accumulator_value: 0.1,
            l1: 0.0,
            l2: 0.0,
            l2_shrinkage: 0.0,
            beta: 0.0,
        }
    }
}

impl Rule for FtrlRule {
    fn name(&self) -> &'static str {
        "ftrl"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyFtrl", "SparseApplyFtrl"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        let (power, first) = (self.learning_rate_power, self.initial_accumulator_value);
        Self {
            learning_rate_power: given.number("learning_rate_power", power, Range::AtMost0),
            initial_accumulator_value: given.number(
                "initial_accumulator_value",
                first,
                Range::AtLeast0,
            ),
            l1: given.number("l1", self.l1, Range::AtLeast0),
            l2: given.number("l2", self.l2, Range::AtLeast0),
            l2_shrinkage: given.number("l2_shrinkage", self.l2_shrinkage, Range::AtLeast0),
            beta: given.number("beta", self.beta, Range::AtLeast0),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        let first = self.initial_accumulator_value;
        vec![Slot::like_variable("Ftrl", first), Slot::like_variable("Ftrl_1", 0.0)]
    }

    fn scales_by_rate(&self) -> bool {
        true
    }

    fn flops(&self) -> usize {
        if self.learning_rate_power == ROOT { 19 } else { 17 + 4 * EXP }
    }

    /// Changes nothing at the rate 0, which a schedule may come down to: the rule divides by the
    /// rate.
    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        if rate != 0.0 {
            state.each_element(PerElement { rate, rule: *self });
        }
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    rate: f32,
    rule: FtrlRule,
}

impl PerElement {
    #[inline(always)]
    fn raised(self, accumulator: f32) -> f32 {
        let power = self.rule.learning_rate_power;
        if power == ROOT { accumulator.sqrt() } else { accumulator.powf(-power) }
    }
}

impl ElementUpdate<3> for PerElement {
    #[inline(always)]
    fn update(self, [v, a, z]: [f32; 3], g: f32) -> [f32; 3] {
        let FtrlRule { l1, l2, l2_shrinkage, beta, .. } = self.rule;
        let n = a + g * g;
        let raised = self.raised(n);
        let z = z + (g + 2.0 * l2_shrinkage * v) - (raised - self.raised(a)) / self.rate * v;
        let curvature = raised / self.rate + 2.0 * l2 + beta / self.rate;
        // The comparison is false of NaN, which so stays in the variable: a training that diverges
        // must show it.
        let v = if z.abs() <= l1 { 0.0 } else { (l1.copysign(z) - z) / curvature };
        [v, n, z]
    }
}

/// FTRL-proximal, for wide linear models: the L1 norm makes weights exactly 0 (TensorFlow:
/// `FtrlOptimizer`).
pub type Ftrl = Rated<FtrlRule>;

impl Ftrl {
    /// Creates the rule with the given learning rate, the power −½, the accumulator beginning at
    /// 0.1, and no regularization. At the rate 0 it changes nothing, while TensorFlow's weights
    /// become NaN.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: FtrlRule::default(), learning_rate: learning_rate.into() }
    }

    /// Sets the power by which a weight's rate falls with the sum of its squared gradients; at 0
    /// the rate is constant.
    ///
    /// # Panics
    /// If the power is above 0.
    #[must_use]
    #[track_caller]
    pub fn learning_rate_power(mut self, power: f32) -> Self {
        self.rule.learning_rate_power = power;
        self.checked()
    }

    /// Sets the first value of the sum of squares.
    ///
    /// # Panics
    /// If the value is below 0.
    #[must_use]
    #[track_caller]
    pub fn initial_accumulator_value(mut self, value: f32) -> Self {
        self.rule.initial_accumulator_value = value;
        self.checked()
    }

    /// Adds the L2 norm to the loss, while `regularization` holds back the weights
    /// themselves.
    ///
    /// # Panics
    /// If the strength is below 0.
    #[must_use]
    #[track_caller]
    pub fn l2_shrinkage(mut self, strength: f32) -> Self {
        self.rule.l2_shrinkage = strength;
        self.checked()
    }

    /// Adds β to the root of the sum of squares, as in the paper.
    ///
    /// # Panics
    /// If β is below 0.
    #[must_use]
    #[track_caller]
    pub fn beta(mut self, beta: f32) -> Self {
        self.rule.beta = beta;
        self.checked()
    }
}

with_regularization!(Ftrl);
