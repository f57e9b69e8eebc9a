//! RMSProp (Tieleman and Hinton 2012), plain and centered (Graves 2013).

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `s += (g²−s)(1−ρ); m = μ·m+lr·g/√(s+ε); v -= m`, centered `c += (g−c)(1−ρ)` and `√(s−c²+ε)`
#[derive(Clone, Copy, Debug)]
pub struct RmsPropRule {
    /// ρ.
    pub decay: f32,
    /// μ, below 1.
    pub momentum: f32,
    /// ε, inside the root.
    pub epsilon: f32,
    /// Whether to divide by the deviation of the gradient instead of its root mean square.
    pub centered: bool,
}

impl Default for RmsPropRule {
    fn default() -> Self {
        Self { decay: 0.9, momentum: 0.0, epsilon: 1e-10, centered: false }
    }
}

impl Rule for RmsPropRule {
    fn name(&self) -> &'static str {
        "rms_prop"
    }

    fn kinds(&self) -> [&'static str; 2] {
        match self.centered {
            false => ["ApplyRMSProp", "SparseApplyRMSProp"],
            true => ["ApplyCenteredRMSProp", "SparseApplyCenteredRMSProp"],
        }
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            decay: given.number("decay", self.decay, Range::Fraction),
            momentum: given.number("momentum", self.momentum, Range::Fraction),
            epsilon: given.number("epsilon", self.epsilon, Range::AtLeast0),
            centered: given.flag("centered", self.centered),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        let first = [("RMSProp", 1.0), ("RMSProp_1", 0.0), ("RMSProp_2", 0.0)];
        let count = if self.centered { 3 } else { 2 };
        first[..count].iter().map(|(name, first)| Slot::like_variable(name, *first)).collect()
    }

    fn flops(&self) -> usize {
        if self.centered { 16 } else { 11 }
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        let Self { decay, momentum, epsilon, .. } = *self;
        let step = Plain { rate, decay, momentum, epsilon };
        match self.centered {
            false => state.each_element(step),
            true => state.each_element(Centered(step)),
        }
    }
}

/// The update of one element.
#[derive(Clone, Copy, Debug)]
struct Plain {
    rate: f32,
    decay: f32,
    momentum: f32,
    epsilon: f32,
}

impl ElementUpdate<3> for Plain {
    #[inline(always)]
    fn update(self, [v, s, m]: [f32; 3], g: f32) -> [f32; 3] {
        let s = s + (g * g - s) * (1.0 - self.decay);
        let m = m * self.momentum + g * self.rate / (s + self.epsilon).sqrt();
        [v - m, s, m]
    }
}

/// The update of one element, by the deviation of the gradient from its mean `c`.
#[derive(Clone, Copy, Debug)]
struct Centered(Plain);

impl ElementUpdate<4> for Centered {
    #[inline(always)]
    fn update(self, [v, s, c, m]: [f32; 4], g: f32) -> [f32; 4] {
        let Self(Plain { rate, decay, momentum, epsilon }) = self;
        let s = s + (g * g - s) * (1.0 - decay);
        let c = c + (g - c) * (1.0 - decay);
        let m = m * momentum + g * rate / (s - c * c + epsilon).sqrt();
        [v - m, s, c, m]
    }
}

/// `s += (g²−s)(1−ρ); m = μ·m + lr·g/√(s+ε); v -= m` (TensorFlow: `RMSPropOptimizer`). As there,
/// `s` begins at 1.
pub type RmsProp = Rated<RmsPropRule>;

impl RmsProp {
    /// Creates the rule with the given learning rate, ρ = 0.9, μ = 0, ε = 1e-10, not centered.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: RmsPropRule::default(), learning_rate: learning_rate.into() }
    }

    /// Sets ρ.
    #[must_use]
    pub fn decay(mut self, decay: f32) -> Self {
        self.rule.decay = decay;
        self
    }

    /// Sets μ.
    #[must_use]
    pub fn momentum(mut self, momentum: f32) -> Self {
        self.rule.momentum = momentum;
        self
    }

    /// Sets ε.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.rule.epsilon = epsilon;
        self
    }

    /// Divides by the deviation of the gradient from its mean instead of its root mean square.
    #[must_use]
    pub fn centered(mut self) -> Self {
        self.rule.centered = true;
        self
    }
}
