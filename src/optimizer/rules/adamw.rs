//! Adam with weight decay apart from the gradient (Loshchilov and Hutter 2019).

use super::Rated;
use super::adam::{AdamStep, constants_and_decay, moments_and_powers, with_adams_constants};
use crate::graph::{LearningRate, Parameters, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// As [`AdamRule`](super::AdamRule), and `v -= lr·λ·v`, which does not depend on the gradient
/// (<https://arxiv.org/abs/1711.05101>).
#[derive(Clone, Copy, Debug)]
pub struct AdamWRule {
    /// β1.
    pub beta1: f32,
    /// β2.
    pub beta2: f32,
    /// ε, as Adam's.
    pub epsilon: f32,
    /// λ: the share of the variable that a step of rate 1 takes away.
    pub weight_decay: f32,
}

impl Default for AdamWRule {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 }
    }
}

impl Rule for AdamWRule {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn kinds(&self) -> [&'static str; 2] {
        ["ApplyAdamW", "SparseApplyAdamW"]
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
        moments_and_powers(["AdamW", "AdamW_1"], self.beta1, self.beta2)
    }

    fn moves_every_row(&self) -> bool {
        true
    }

    fn flops(&self) -> usize {
        14
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        let adam = AdamStep::next(rate, [self.beta1, self.beta2, self.epsilon], state);
        state.each_element(PerElement { adam, weight_decay: self.weight_decay });
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct PerElement {
    adam: AdamStep,
    weight_decay: f32,
}

impl ElementUpdate<3> for PerElement {
    #[inline(always)]
    fn update(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let decayed = v - self.adam.rate * self.weight_decay * v;
        self.adam.update([decayed, m, s], g)
    }
}

/// [`Adam`](super::Adam) with weight decay apart from the gradient: each step also subtracts
/// `lr·λ·v` (Loshchilov and Hutter 2019; `tf.keras.optimizers.AdamW`. TensorFlow 1's `contrib`
/// subtracts `λ·v` at any rate).
///
/// A gradient of some rows moves all rows.
pub type AdamW = Rated<AdamWRule>;

impl AdamW {
    /// Creates the rule with the given learning rate and λ, and Adam's defaults.
    ///
    /// # Panics
    /// If λ is below 0.
    #[track_caller]
    pub fn new(learning_rate: impl Into<LearningRate>, weight_decay: f32) -> Self {
        let rule = AdamWRule { weight_decay, ..AdamWRule::default() };
        Self { rule, learning_rate: learning_rate.into() }.checked()
    }
}

with_adams_constants!(AdamW);
