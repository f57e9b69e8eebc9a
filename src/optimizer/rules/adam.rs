//! Adam (Kingma and Ba 2015).

use super::Rated;
use crate::graph::{LearningRate, Parameters, Range, Rule, RuleState, Slot, UpdateRule};
use crate::kernels::update::ElementUpdate;

/// `m += (g−m)(1−β1); s += (g²−s)(1−β2); v -= lr·√(1−β2ᵗ)/(1−β1ᵗ)·m/(√s+ε)`
#[derive(Clone, Copy, Debug)]
pub struct AdamRule {
    /// β1.
    pub beta1: f32,
    /// β2.
    pub beta2: f32,
    /// ε, outside the root ("epsilon hat").
    pub epsilon: f32,
    /// Whether a gradient of some rows reads and writes no other row.
    pub lazy: bool,
}

impl Default for AdamRule {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, lazy: false }
    }
}

impl Rule for AdamRule {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn kinds(&self) -> [&'static str; 2] {
        match self.lazy {
            false => ["ApplyAdam", "SparseApplyAdam"],
            true => ["ApplyLazyAdam", "SparseApplyLazyAdam"],
        }
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        let [beta1, beta2, epsilon] = constants(given, [self.beta1, self.beta2, self.epsilon]);
        Self { beta1, beta2, epsilon, lazy: given.flag("lazy", self.lazy) }.into()
    }

    fn default_learning_rate(&self) -> f32 {
        0.001
    }

    fn slots(&self) -> Vec<Slot> {
        moments_and_powers(["Adam", "Adam_1"], self.beta1, self.beta2)
    }

    fn moves_every_row(&self) -> bool {
        !self.lazy
    }

    fn flops(&self) -> usize {
        12
    }

    fn apply(&self, rate: f32, state: &mut RuleState<'_>) {
        let step = AdamStep::next(rate, [self.beta1, self.beta2, self.epsilon], state);
        state.each_element(step);
    }
}

/// β1, β2 and ε of Adam, and of the rules built on it, as they are given.
pub(super) fn constants(given: &mut Parameters, [beta1, beta2, epsilon]: [f32; 3]) -> [f32; 3] {
    [
        given.number("beta1", beta1, Range::Fraction),
        given.number("beta2", beta2, Range::Fraction),
        given.number("epsilon", epsilon, Range::AtLeast0),
    ]
}

/// As [`constants`], with the weight decay of the rules that have one as the last.
pub(super) fn constants_and_decay(
    given: &mut Parameters,
    [beta1, beta2, epsilon, weight_decay]: [f32; 4],
) -> [f32; 4] {
    let [beta1, beta2, epsilon] = constants(given, [beta1, beta2, epsilon]);
    [beta1, beta2, epsilon, given.number("weight_decay", weight_decay, Range::AtLeast0)]
}

/// The slots of Adam, and of the rules built on it.
pub(super) fn moments_and_powers(names: [&'static str; 2], beta1: f32, beta2: f32) -> Vec<Slot> {
    let [first, second] = names.map(|name| Slot::like_variable(name, 0.0));
    vec![first, second, Slot::scalar("beta1_power", beta1), Slot::scalar("beta2_power", beta2)]
}

/// The update of one element. (<https://arxiv.org/abs/1412.6980>, before section 2.1)
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AdamStep {
    pub(super) rate: f32,
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    /// `beta1` to the power of the step, counted from 1. (TensorFlow multiplies a variable by
    /// `beta1` after each step; any other way to compute the power changes the update in its sixth
    /// digit.)
    pub(super) beta1_power: f32,
    /// `beta2` to the power of the step, likewise.
    pub(super) beta2_power: f32,
    pub(super) epsilon: f32,
}

impl AdamStep {
    /// The constants of this step; it also advances the powers of β to the next step.
    pub(super) fn next(
        rate: f32,
        [beta1, beta2, epsilon]: [f32; 3],
        state: &mut RuleState<'_>,
    ) -> Self {
        let mut next = |slot: usize, beta: f32| {
            let power = state.scalar(slot);
            std::mem::replace(power, *power * beta)
        };
        let (beta1_power, beta2_power) = (next(2, beta1), next(3, beta2));
        Self { rate, beta1, beta2, epsilon, beta1_power, beta2_power }
    }

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

impl ElementUpdate<3> for AdamStep {
    #[inline(always)]
    fn update(self, [v, m, s]: [f32; 3], g: f32) -> [f32; 3] {
        let (m, s) = self.moments(m, s, g);
        [v - m * self.alpha() / (s.sqrt() + self.epsilon), m, s]
    }
}

/// The optimizer of Kingma and Ba 2015 in the form of TensorFlow's `AdamOptimizer`: ε outside the
/// root.
///
/// TensorFlow keeps one pair of β powers for all variables; here each variable has its own, beside
/// it, so that shards on different parameter servers need not ask each other. The numbers are the
/// same.
///
/// A gradient of some rows moves all rows, as in TensorFlow: their moments decay.
pub type Adam = Rated<AdamRule>;

impl Adam {
    /// Creates the rule with the given learning rate, β1 = 0.9, β2 = 0.999, ε = 1e-8.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { rule: AdamRule::default(), learning_rate: learning_rate.into() }
    }

    /// Has a gradient of some rows move only these rows and their moments (TensorFlow: `contrib`'s
    /// `LazyAdamOptimizer`). The numbers differ, and the cost does not grow with the table.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.rule.lazy = true;
        self
    }
}

macro_rules! with_adams_constants {
    ($optimizer:ident) => {
        impl $optimizer {
            /// Sets the decay rates β1 and β2.
            #[must_use]
            pub fn betas(mut self, beta1: f32, beta2: f32) -> Self {
                (self.rule.beta1, self.rule.beta2) = (beta1, beta2);
                self
            }

            /// Sets ε.
            #[must_use]
            pub fn epsilon(mut self, epsilon: f32) -> Self {
                self.rule.epsilon = epsilon;
                self
            }
        }
    };
}
pub(super) use with_adams_constants;
with_adams_constants!(Adam);

impl Default for Adam {
    /// Uses TensorFlow's default learning rate, 0.001.
    fn default() -> Self {
        Self::new(AdamRule::default().default_learning_rate())
    }
}
