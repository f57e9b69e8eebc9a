//! Adam (Kingma and Ba 2015), and with decoupled weight decay (Loshchilov and Hutter 2019).

use super::at_least_0;
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// Kingma and Ba 2015 as TensorFlow's `AdamOptimizer` has it: ε outside the root.
///
/// TensorFlow keeps one pair of β powers for all variables; here each variable has its own, beside
/// it, so that shards on different parameter servers need not ask each other. The numbers are the
/// same.
///
/// A gradient of some rows moves all rows, as in TensorFlow: their moments decay.
#[derive(Clone, Debug)]
pub struct Adam {
    learning_rate: LearningRate,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    is_lazy: bool,
}

impl Adam {
    /// With the given learning rate, β1 = 0.9, β2 = 0.999, ε = 1e-8.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let learning_rate = learning_rate.into();
        Self { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, is_lazy: false }
    }

    /// With other decay rates.
    #[must_use]
    pub fn betas(mut self, beta1: f32, beta2: f32) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }

    /// With another ε.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// A gradient of some rows moves these rows alone, and their moments (TensorFlow: `contrib`'s
    /// `LazyAdamOptimizer`): other numbers, and a cost that does not grow with the table.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.is_lazy = true;
        self
    }
}

impl Default for Adam {
    /// TensorFlow's default learning rate, 0.001.
    fn default() -> Self {
        Self::new(0.001)
    }
}

impl From<Adam> for Optimizer {
    fn from(from: Adam) -> Self {
        let Adam { beta1, beta2, epsilon, is_lazy, .. } = from;
        let rule = match is_lazy {
            true => UpdateRule::LazyAdam { beta1, beta2, epsilon },
            false => UpdateRule::Adam { beta1, beta2, epsilon },
        };
        Self::new(rule, from.learning_rate)
    }
}

/// [`Adam`] with weight decay apart from the gradient: each step also takes `lr·λ·v` away
/// (Loshchilov and Hutter 2019; `tf.keras.optimizers.AdamW`. TensorFlow 1's `contrib` takes `λ·v`,
/// whatever the rate).
///
/// A gradient of some rows moves all rows.
#[derive(Clone, Debug)]
pub struct AdamW {
    adam: Adam,
    weight_decay: f32,
}

impl AdamW {
    /// With the given learning rate and λ, and Adam's defaults.
    ///
    /// # Panics
    /// If λ is below 0.
    #[track_caller]
    pub fn new(learning_rate: impl Into<LearningRate>, weight_decay: f32) -> Self {
        Self {
            adam: Adam::new(learning_rate),
            weight_decay: at_least_0("AdamW's weight decay", weight_decay),
        }
    }

    /// With other decay rates.
    #[must_use]
    pub fn betas(self, beta1: f32, beta2: f32) -> Self {
        Self { adam: self.adam.betas(beta1, beta2), ..self }
    }

    /// With another ε.
    #[must_use]
    pub fn epsilon(self, epsilon: f32) -> Self {
        Self { adam: self.adam.epsilon(epsilon), ..self }
    }
}

impl From<AdamW> for Optimizer {
    fn from(AdamW { adam, weight_decay }: AdamW) -> Self {
        let Adam { learning_rate, beta1, beta2, epsilon, .. } = adam;
        Self::new(UpdateRule::AdamW { beta1, beta2, epsilon, weight_decay }, learning_rate)
    }
}
