//! Adam (Kingma and Ba 2015), and with decoupled weight decay.

use super::Rule;

/// `m += (g - m) * (1 - beta1); s += (g * g - s) * (1 - beta2);`
/// `v -= alpha * m / (sqrt(s) + epsilon)`
/// with `alpha = rate * sqrt(1 - beta2_power) / (1 - beta1_power)` (TensorFlow `ApplyAdam`;
/// <https://arxiv.org/abs/1412.6980>, before section 2.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adam {
    /// The learning rate.
    pub(crate) rate: f32,
    /// What is kept of the first moment at each step.
    pub(crate) beta1: f32,
    /// What is kept of the second moment at each step.
    pub(crate) beta2: f32,
    /// `beta1` to the power of the step, which counts from 1. (TensorFlow multiplies a variable by
    /// `beta1` after each step; another way to the power changes the update in its sixth digit.)
    pub(crate) beta1_power: f32,
    /// `beta2` to the power of the step, likewise.
    pub(crate) beta2_power: f32,
    /// What keeps the denominator from 0; outside the root ("epsilon hat").
    pub(crate) epsilon: f32,
}

impl Adam {
    #[inline(always)]
    fn alpha(self) -> f32 {
        self.rate * (1.0 - self.beta2_power).sqrt() / (1.0 - self.beta1_power)
    }

    /// The moments after the gradient `g`.
    #[inline(always)]
    pub(super) fn moments(self, m: f32, s: f32, g: f32) -> (f32, f32) {
        (m + (g - m) * (1.0 - self.beta1), s + (g * g - s) * (1.0 - self.beta2))
    }
}

impl Rule<3> for Adam {
    #[inline(always)]
    fn step(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let (m, s) = self.moments(m, s, g);
        [v - m * self.alpha() / (s.sqrt() + self.epsilon), m, s]
    }
}

/// [`Adam`], and the variable decays by `rate * weight_decay` of itself, whatever the gradient
/// (Loshchilov and Hutter 2019, <https://arxiv.org/abs/1711.05101>).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    pub(crate) adam: Adam,
    /// The part of the variable that a step of rate 1 would take away.
    pub(crate) weight_decay: f32,
}

impl Rule<3> for AdamW {
    #[inline(always)]
    fn step(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let decayed = v - self.adam.rate * self.weight_decay * v;
        self.adam.step([decayed, m, s], g)
    }
}
