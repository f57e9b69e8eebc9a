//! LAMB (You et al. 2020): a direction like Adam's, as long as the variable is large.

use super::adam::Adam;
use super::{GradientDescent, Rule, apply};
use crate::kernels::reduce::sum_of_squares;

/// The constants of [`lamb`] at one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lamb {
    pub(crate) adam: Adam,
    /// How much of the variable is added to the direction.
    pub(crate) weight_decay: f32,
}

/// `u = m / (1 - beta1_power) / (sqrt(s / (1 - beta2_power)) + epsilon) + weight_decay * v;`
/// `v -= rate * r * u`,
/// where `m` and `s` are Adam's moments and the trust ratio `r` is the norm of `v` over that of
/// `u`, 1 where either is 0 (<https://arxiv.org/abs/1904.00962>, algorithm 2 with φ(x) = x).
///
/// The norms are the roots of [`sum_of_squares`], whose order is fixed.
pub(crate) fn lamb([variable, first, second]: [&mut [f32]; 3], gradient: &[f32], by: Lamb) {
    let mut direction = variable.to_vec();
    apply(by, [&mut direction, first, second], gradient);
    let norms = [&*variable, &direction].map(|values| sum_of_squares::<f32>(values).sqrt());
    let trust = if norms.contains(&0.0) { 1.0 } else { norms[0] / norms[1] };
    apply(GradientDescent { rate: by.adam.rate * trust }, [variable], &direction);
}

/// Makes the direction of an element of the element itself.
impl Rule<3> for Lamb {
    #[inline(always)]
    fn step(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let Adam { beta1_power, beta2_power, epsilon, .. } = self.adam;
        let (m, s) = self.adam.moments(m, s, g);
        let denominator = (s / (1.0 - beta2_power)).sqrt() + epsilon;
        [m / (1.0 - beta1_power) / denominator + self.weight_decay * v, m, s]
    }
}
