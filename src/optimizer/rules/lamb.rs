//! LAMB (You et al. 2020): a direction like Adam's, scaled to the length of the variable.

use super::Rated;
use super::adam::{AdamStep, constants_and_decay, moments_and_powers, with_adams_constants};
use super::gradient_descent::Descent;
use crate::graph::{LearningRate, Parameters, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::reduce::sum_of_squares;
use crate::kernels::update::{ElementUpdate, update_elements};

/// `m` and `s` as Adam's; `u = m/(1−β1ᵗ)/(√(s/(1−β2ᵗ))+ε)+λ·v; v -= lr·‖v‖/‖u‖·u`
///
/// The trust ratio `‖v‖/‖u‖` is 1 where either norm is 0 (<https://arxiv.org/abs/1904.00962>,
/// algorithm 2 with φ(x) = x). The norms are the roots of `sum_of_squares`, whose order is fixed.
#[derive(Clone, Copy, Debug)]
pub struct LambRule {
    /// β1.
    pub beta1: f32,
    /// β2.
    pub beta2: f32,
    /// ε.
    pub epsilon: f32,
    /// λ: the share of the variable that is added to the direction.
    pub weight_decay: f32,
}

impl Default for LambRule {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-6, weight_decay: 0.0 }
    }
}

impl Rule for LambRule {
    fn name(&self) -> &'static str {
        "lamb"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyLAMB", "SparseApplyLAMB"]
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        let own = [self.beta1, self.beta2, self.epsilon, self.weight_decay];
        let [beta1, beta2, epsilon, weight_decay] = constants_and_decay(given, own);
        Self { beta1, beta2, epsilon, weight_decay }.into()
    }

    fn default_learning_rate(&self) -> f32 {
        0.001
    }

    fn slots(&self) -> Vec<Slot> {
        moments_and_powers(["LAMB", "LAMB_1"], self.beta1, self.beta2)
    }

    fn moves_every_row(&self) -> bool {
        true
    }

    /// Includes four for the two norms and two for the last step.
    fn flops(&self) -> usize {
        20
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        let adam = AdamStep::next(rate, [self.beta1, self.beta2, self.epsilon], state);
        let by = Direction { adam, weight_decay: self.weight_decay };
        state.each_slice(|[variable, first, second]: [&mut [f32]; 3], gradient| {
            let mut direction = variable.to_vec();
            update_elements(by, [&mut direction, first, second], gradient);
            let norms = [&*variable, &direction].map(|values| sum_of_squares::<f32>(values).sqrt());
            let trust = if norms.contains(&0.0) { 1.0 } else { norms[0] / norms[1] };
            update_elements(Descent { rate: rate * trust }, [variable], &direction);
        });
    }
}

/// Computes the direction of one element, in place of the element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub(super) adam: AdamStep,
    pub(super) weight_decay: f32,
}

impl ElementUpdate<3> for Direction {
    #[inline(always)]
    fn update(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let AdamStep { beta1_power, beta2_power, epsilon, .. } = self.adam;
        let (m, s) = self.adam.moments(m, s, g);
        let denominator = (s / (1.0 - beta2_power)).sqrt() + epsilon;
        [m / (1.0 - beta1_power) / denominator + self.weight_decay * v, m, s]
    }
}

/// LAMB, for large batches: a direction like Adam's with weight decay, scaled to the length of the
/// variable (You et al. 2020; `LAMB` of TensorFlow's add-ons).
/// The trust ratio `‖v‖/‖u‖` is that of one variable; each shard of a partitioned variable has its
/// own. It is 1 if either norm is 0, as with a bias that begins at 0. A gradient of some rows moves
/// all rows.
pub type Lamb = Rated<LambRule>;

impl Lamb {
    /// Creates the rule with the given learning rate, β1 = 0.9, β2 = 0.999, ε = 1e-6, and no weight
    /// decay.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: LambRule::default(), learning_rate: learning_rate.into() }
    }

    /// Adds `λ·v` to the direction.
    ///
    /// # Panics
    /// If λ is below 0.
    #[must_use]
    #[track_caller]
    pub fn weight_decay(mut self, weight_decay: f32) -> Self {
        self.rule.weight_decay = weight_decay;
        self.checked()
    }
}

with_adams_constants!(Lamb);
