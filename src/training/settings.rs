//! What a task is told of the training: the model, the optimizer, and when to stop.
//!
//! A program may use these or ignore them; the built-in trainer is made of nothing else.

use std::time::Duration;

use serde::Deserialize;

use crate::models::Model;
use crate::optimizer::Optimizer;
use crate::units::Span;

/// The training that a scenario describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is trained.
    pub model: Model,
    /// How gradients are applied.
    pub optimizer: Optimizer,
    /// Samples in each worker's batch.
    pub batch: usize,
    /// When the training is over.
    pub stop: Stop,
}

/// When a training is over: at whichever comes first. A scenario's `[stop]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// After this many global steps.
    pub steps: Option<u64>,
    /// When the accuracy on the test split reaches this: above 0 and at most 1. Never alone, as it
    /// may never be reached.
    pub accuracy: Option<f64>,
    /// How often the chief looks at the test split \[global steps\].
    #[serde(default = "Stop::evaluate_every")]
    pub evaluate_every: u64,
    /// After this time: virtual, or of the wall clock when deployed.
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

    /// What is wrong with it: keys, none for the whole, and what to say of each.
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
