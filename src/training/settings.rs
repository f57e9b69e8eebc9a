//! What a task is told of the training: the model, the optimizer, and when to stop.
//!
//! A program may use these or ignore them; the built-in trainer is made of nothing else.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::graph::UpdateRule;
use crate::models::Model;
use crate::optimizer::{ClipGradients, LearningRate, Optimizer};

/// The training that a scenario describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is trained.
    pub model: Model,
    /// How gradients are applied.
    pub optimizer: OptimizerSettings,
    /// Samples in each worker's batch.
    pub batch: usize,
    /// How workers that train variables of their own average them; none where all train the same.
    pub averaging: Option<Averaging>,
    /// When the training is over.
    pub stop: Stop,
}

/// An update rule, its learning rate and the bounds of its gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerSettings {
    /// The rule.
    pub rule: UpdateRule,
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The bounds that gradients are kept in.
    pub clip: Option<ClipGradients>,
    /// The share of each gradient that is sent at once; all of it, where there is none.
    pub top_k: Option<f64>,
}

/// How workers that train variables of their own average them
/// ([`LocalSgd`](crate::optimizer::LocalSgd)).
#[derive(Clone, Debug, PartialEq)]
pub struct Averaging {
    /// A worker's steps from one average to the next.
    pub every: NonZeroU32,
    /// What applies the average.
    pub outer: OptimizerSettings,
}

/// When a training is over: at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// After this many global steps.
    pub steps: Option<u64>,
    /// When the accuracy on the test split reaches this.
    pub accuracy: Option<f64>,
    /// How often the chief looks at the test split \[global steps\].
    pub evaluate_every: u64,
    /// After this time.
    pub time: Option<Duration>,
}

impl From<OptimizerSettings> for Optimizer {
    fn from(settings: OptimizerSettings) -> Self {
        let OptimizerSettings { rule, learning_rate, clip, top_k } = settings;
        Self { clip, top_k, ..Self::new(rule, learning_rate) }
    }
}
