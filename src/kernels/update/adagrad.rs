//! Adagrad (Duchi, Hazan and Singer 2011), and its form by dual averaging.

use super::Rule;

/// `a += g * g; v -= rate * g / sqrt(a)` (TensorFlow `ApplyAdagrad`): no epsilon, so the
/// accumulator must begin above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adagrad {
    /// The learning rate.
    pub(crate) rate: f32,
}

impl Rule<2> for Adagrad {
    #[inline(always)]
    fn step(self, [v, a]: [f32; 2], g: f32) -> [f32; 2] {
        let a = a + g * g;
        [v - self.rate * g / a.sqrt(), a]
    }
}

/// `G += g; Q += g * g; v = -rate * sign(G) * max(|G| - l1 * t, 0) / (l2 * t * rate + sqrt(Q))`
/// (TensorFlow `ApplyAdagradDA`): the variable is a function of the sums, whatever it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdagradDa {
    /// The learning rate.
    pub(crate) rate: f32,
    /// The strength of the L1 norm.
    pub(crate) l1: f32,
    /// The strength of the L2 norm.
    pub(crate) l2: f32,
    /// Which update this is, from 1: how many gradients the sums have after it.
    pub(crate) update: f32,
}

impl Rule<3> for AdagradDa {
    #[inline(always)]
    fn step(self, [_, sum, squared]: [f32; 3], g: f32) -> [f32; 3] {
        let (sum, squared) = (sum + g, squared + g * g);
        let shrunk = (sum.abs() - self.l1 * self.update).max(0.0).copysign(sum);
        [-self.rate * shrunk / (self.l2 * self.update * self.rate + squared.sqrt()), sum, squared]
    }
}
