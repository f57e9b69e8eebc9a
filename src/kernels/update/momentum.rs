//! Gradient descent, and with momentum.

use super::Rule;

/// `v -= rate * g` (TensorFlow `ApplyGradientDescent`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct GradientDescent {
    /// The learning rate.
    pub(crate) rate: f32,
}

impl Rule<1> for GradientDescent {
    #[inline(always)]
    fn step(self, [v]: [f32; 1], g: f32) -> [f32; 1] {
        [v - self.rate * g]
    }
}

/// `a = momentum * a + g; v -= rate * a`, with Nesterov `v -= rate * g + rate * momentum * a`
/// (TensorFlow `ApplyMomentum`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Momentum {
    /// The learning rate.
    pub(crate) rate: f32,
    /// What is kept of the accumulated gradient at each step.
    pub(crate) momentum: f32,
    /// Whether to look ahead by one step (Nesterov).
    pub(crate) nesterov: bool,
}

impl Rule<2> for Momentum {
    #[inline(always)]
    fn step(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a * self.momentum + g;
        let step = if self.nesterov {
            g * self.rate + a * self.momentum * self.rate
        } else {
            self.rate * a
        };
        [v - step, a]
    }
}
