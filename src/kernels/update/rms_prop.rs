//! RMSProp (Tieleman and Hinton 2012), plain and centered (Graves 2013).

use super::Rule;

/// `s += (g * g - s) * (1 - decay); m = momentum * m + rate * g / sqrt(s + epsilon); v -= m`
/// (TensorFlow `ApplyRMSProp`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmsProp {
    /// The learning rate.
    pub(crate) rate: f32,
    /// What is kept of the mean square at each step.
    pub(crate) decay: f32,
    /// What is kept of the last step.
    pub(crate) momentum: f32,
    /// What keeps the denominator from 0; inside the root.
    pub(crate) epsilon: f32,
}

impl Rule<3> for RmsProp {
    #[inline(always)]
    fn step(self, [v, s, m]: [f32; 3], g: f32) -> [f32; 3] {
        let s = s + (g * g - s) * (1.0 - self.decay);
        let m = m * self.momentum + g * self.rate / (s + self.epsilon).sqrt();
        [v - m, s, m]
    }
}

/// As [`RmsProp`], by the deviation of the gradient from its mean `c`:
/// `c += (g - c) * (1 - decay)`, and `sqrt(s - c * c + epsilon)` below (TensorFlow
/// `ApplyCenteredRMSProp`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CenteredRmsProp(pub(crate) RmsProp);

impl Rule<4> for CenteredRmsProp {
    #[inline(always)]
    fn step(self, [v, s, c, m]: [f32; 4], g: f32) -> [f32; 4] {
        let Self(RmsProp { rate, decay, momentum, epsilon }) = self;
        let s = s + (g * g - s) * (1.0 - decay);
        let c = c + (g - c) * (1.0 - decay);
        let m = m * momentum + g * rate / (s - c * c + epsilon).sqrt();
        [v - m, s, c, m]
    }
}
