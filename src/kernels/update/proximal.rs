//! A step of the gradient, then one of the norms of the variable (Duchi and Singer 2009: FOBOS).

use super::Rule;

/// `w = v - rate * g; v = sign(w) * max(|w| - rate * l1, 0) / (1 + rate * l2)` (TensorFlow
/// `ApplyProximalGradientDescent`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProximalGradientDescent {
    /// The learning rate.
    pub(crate) rate: f32,
    /// The strength of the L1 norm.
    pub(crate) l1: f32,
    /// The strength of the L2 norm.
    pub(crate) l2: f32,
}

impl Rule<1> for ProximalGradientDescent {
    #[inline(always)]
    fn step(self, [v]: [f32; 1], g: f32) -> [f32; 1] {
        let moved = v - self.rate * g;
        [(moved.abs() - self.rate * self.l1).max(0.0).copysign(moved) / (1.0 + self.rate * self.l2)]
    }
}

/// `a += g * g`, then as [`ProximalGradientDescent`] with the rate `rate / sqrt(a)` (TensorFlow
/// `ApplyProximalAdagrad`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProximalAdagrad(pub(crate) ProximalGradientDescent);

impl Rule<2> for ProximalAdagrad {
    #[inline(always)]
    fn step(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a + g * g;
        let [v] = ProximalGradientDescent { rate: self.0.rate / a.sqrt(), ..self.0 }.step([v], g);
        [v, a]
    }
}
