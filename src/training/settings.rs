//! What a task is told of the training: the model, the optimizer, and when to stop.
//!
//! A program may use these or ignore them; the built-in trainer is made of nothing else.

use std::time::Duration;

use crate::graph::UpdateRule;
use crate::optimizer::Optimizer;

/// The training that a scenario describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is trained.
    pub model: Model,
    /// How gradients are applied.
    pub optimizer: OptimizerSettings,
    /// Samples in each worker's batch.
    pub batch: usize,
    /// When the training is over.
    pub stop: Stop,
}

/// A model of the built-in trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// One dense layer.
    Softmax,
    /// Dense layers with relu between them.
    Mlp {
        /// The widths of the layers before the last.
        hidden: Vec<usize>,
    },
    /// Convolutions with relu and pools, then dense layers: for data sets of images. Large ones get the network
    /// of TensorFlow's tutorial for MNIST, small ones a smaller.
    Convnet,
    /// Next to no arithmetic: scalar variables are read and updated, which shows what a step itself costs.
    Null {
        /// How many variables there are.
        variables: usize,
    },
}

/// An update rule and its learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimizerSettings {
    /// The rule.
    pub rule: UpdateRule,
    /// The learning rate.
    pub learning_rate: f32,
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

impl Optimizer for OptimizerSettings {
    fn rule(&self) -> UpdateRule {
        self.rule
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }
}
