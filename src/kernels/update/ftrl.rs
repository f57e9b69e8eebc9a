//! Follow the regularized leader, proximal (McMahan et al. 2013).

use super::Rule;

/// The power of the learning rate that all use, and whose accumulators are roots.
pub(super) const ROOT: f32 = -0.5;

/// `n = a + g * g; z += g' - (n^-p - a^-p) / rate * v; a = n`, where
/// `g' = g + 2 * l2_shrinkage * v`; then
/// `v = (l1 * sign(z) - z) / (n^-p / rate + 2 * l2 + beta / rate)`, 0 where `|z| <= l1` (TensorFlow
/// `ApplyFtrlV2`).
///
/// With the power −½, powers are roots; others are those of the platform's library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ftrl {
    /// The learning rate.
    pub(crate) rate: f32,
    /// p.
    pub(crate) power: f32,
    /// The strength of the L1 norm.
    pub(crate) l1: f32,
    /// The strength of the L2 norm.
    pub(crate) l2: f32,
    /// The strength of the L2 norm in the gradient.
    pub(crate) l2_shrinkage: f32,
    /// β.
    pub(crate) beta: f32,
}

impl Ftrl {
    #[inline(always)]
    fn raised(self, accumulator: f32) -> f32 {
        if self.power == ROOT { accumulator.sqrt() } else { accumulator.powf(-self.power) }
    }
}

impl Rule<3> for Ftrl {
    #[inline(always)]
    fn step(self, [v, a, z]: [f32; 3], g: f32) -> [f32; 3] {
        let n = a + g * g;
        let raised = self.raised(n);
        let z = z + (g + 2.0 * self.l2_shrinkage * v) - (raised - self.raised(a)) / self.rate * v;
        let curvature = raised / self.rate + 2.0 * self.l2 + self.beta / self.rate;
        let v = if z.abs() > self.l1 { (self.l1.copysign(z) - z) / curvature } else { 0.0 };
        [v, n, z]
    }
}
