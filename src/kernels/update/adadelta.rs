//! Adadelta (Zeiler 2012).

use super::Rule;

/// `a = rho * a + (1 - rho) * g * g; d = sqrt(u + epsilon) / sqrt(a + epsilon) * g; v -= rate * d;
/// u = rho * u + (1 - rho) * d * d` (TensorFlow `ApplyAdadelta`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adadelta {
    /// The learning rate; 1 in the paper.
    pub(crate) rate: f32,
    /// What is kept of both means at each step.
    pub(crate) rho: f32,
    /// What gets the first steps going, and keeps the denominator from 0.
    pub(crate) epsilon: f32,
}

impl Rule<3> for Adadelta {
    #[inline(always)]
    fn step(self, [v, a, u]: [f32; 3], g: f32) -> [f32; 3] {
        let a = a * self.rho + g * g * (1.0 - self.rho);
        let d = (u + self.epsilon).sqrt() / (a + self.epsilon).sqrt() * g;
        [v - self.rate * d, a, u * self.rho + d * d * (1.0 - self.rho)]
    }
}
