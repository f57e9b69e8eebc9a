//! LAMB (You et al. 2020).

use super::at_least_0;
use crate::graph::{LearningRate, UpdateRule};
use crate::optimizer::Optimizer;

/// For large batches: a direction like Adam's with weight decay, as long as the variable itself is
/// (You et al. 2020; `LAMB` of TensorFlow's add-ons).
///
/// The trust ratio `‖v‖/‖u‖` is that of one variable: of a partitioned one, each shard has its own.
/// It is 1 where either norm is 0, as with a bias that begins at 0. A gradient of some rows moves
/// all rows.
#[derive(Clone, Debug)]
pub struct Lamb {
    learning_rate: LearningRate,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    weight_decay: f32,
}

impl Lamb {
    /// With the given learning rate, β1 = 0.9, β2 = 0.999, ε = 1e-6, and no weight decay.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let learning_rate = learning_rate.into();
        Self { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-6, weight_decay: 0.0 }
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

    /// Adds `λ·v` to the direction.
    ///
    /// # Panics
    /// If λ is below 0.
    #[must_use]
    #[track_caller]
    pub fn weight_decay(mut self, weight_decay: f32) -> Self {
        self.weight_decay = at_least_0("LAMB's weight decay", weight_decay);
        self
    }
}

impl From<Lamb> for Optimizer {
    fn from(from: Lamb) -> Self {
        let Lamb { beta1, beta2, epsilon, weight_decay, .. } = from;
        Self::new(UpdateRule::Lamb { beta1, beta2, epsilon, weight_decay }, from.learning_rate)
    }
}
