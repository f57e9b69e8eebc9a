//! The settings of a training: the model, the optimizer, and when to stop.
//!
//! A program may use or ignore them, but for the time limit, which ends every monitored session;
//! the built-in trainer uses nothing else.

use std::time::Duration;

use serde::Deserialize;

use crate::graph::Partitioner;
use crate::models::Model;
use crate::optimizer::Optimizer;
use crate::runtime::Patience;
use crate::units::Span;

/// The training that a scenario describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The model to train.
    pub model: Model,
    /// The rule by which the weights of layers are cut into shards; none leaves them whole.
    pub partitioner: Option<Partitioner>,
    /// The optimizer that applies the gradients.
    pub optimizer: Optimizer,
    /// The batch of each worker \[samples\].
    pub batch: usize,
    /// The conditions that end the training.
    pub stop: Stop,
    /// How often an evaluator measures.
    pub evaluator: Evaluating,
    /// How long tasks wait for one another.
    pub patience: Patience,
}

/// How often the task of the job `evaluator` measures the newest checkpoint. A scenario's
/// `[evaluator]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluating {
    /// The time before it begins. Default: none.
    #[serde(deserialize_with = "Span::duration")]
    pub start_delay: Duration,
    /// The least time between the beginnings of two measurements. Default: none, so that each
    /// checkpoint is measured that is the newest when the evaluator is free.
    #[serde(deserialize_with = "Span::duration")]
    pub throttle: Duration,
}

/// The conditions that end a training; the first that is met ends it. A scenario's `[stop]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The number of global steps, if limited.
    pub steps: Option<u64>,
    /// The accuracy on the test split to reach, above 0 and at most 1. It needs another condition
    /// beside it, as it may never be reached.
    pub accuracy: Option<f64>,
    /// The distance between two evaluations by the chief on the test split \[global steps\].
    #[serde(default = "Stop::evaluate_every")]
    pub evaluate_every: u64,
    /// The time limit: virtual, or of the wall clock when deployed. Monitored sessions of all
    /// programs end at it.
    #[serde(default, deserialize_with = "Span::some_duration")]
    pub time: Option<Duration>,
}

impl Default for Stop {
    /// After 1000 global steps.
    fn default() -> Self {
        Self {
            steps: Some(1000),
            accuracy: None,
            evaluate_every: Self::evaluate_every(),
            time: None,
        }
    }
}

impl Stop {
    fn evaluate_every() -> u64 {
        50
    }

    /// The mistakes in it: for each a key (or none, for the whole) and a message.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for (key, number) in
            [("evaluate_every", self.evaluate_every), ("steps", self.steps.unwrap_or(1))]
        {
            if number == 0 {
                found.push((key, "0 must be at least 1".to_owned()));
            }
        }
        if self.time.is_some_and(|time| time.is_zero()) {
            found.push(("time", "must be above 0".to_owned()));
        }
        if let Some(accuracy) = self.accuracy.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            found.push(("accuracy", format!("{accuracy} must be above 0 and at most 1")));
        }
        if self.steps.is_none() && self.time.is_none() {
            let why = match self.accuracy {
                None => "no condition, so no run would end; give `steps` or `time`",
                Some(_) => "the accuracy may never be reached; give `steps` or `time` as well",
            };
            found.push(("", why.to_owned()));
        }
        found
    }
}
