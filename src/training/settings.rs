//! The settings of a training: the model, the optimizer, and when to stop.
//!
//! A program may use or ignore them, but for the time limit, which ends every monitored session;
//! the built-in trainer uses nothing else.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use crate::graph::{AllReduce, Partitioner};
use crate::models::Model;
use crate::optimizer::{Optimizer, tokens_of_an_update};
use crate::runtime::Patience;
use crate::sync::Mode;
use crate::units::{BytesPerSecond, Span};

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
    /// The concentration of the Dirichlet distribution that each worker's mix of labels is drawn
    /// from, of samples in memory; none deals each epoch's samples to all workers alike.
    pub label_concentration: Option<f64>,
    /// The rate at which a simulation lets a worker read samples that are not in memory; none reads
    /// them in no time. A deployment takes what it takes.
    pub read_rate: Option<BytesPerSecond>,
    /// The towers of each worker: copies of the model that share its variables, the N-th on
    /// `/gpu:N`, each with an equal share of the batch. One is no tower, and on no device by name.
    pub towers: usize,
    /// How mirrored towers on the tasks of a replica sum their gradients; none if towers share
    /// their variables. The batch then is that of the replica's tasks together.
    pub all_reduce: Option<AllReduceSettings>,
    /// Whether an operation that asks for a device that its task does not have runs on another of
    /// the task, in sessions that do not say otherwise.
    pub allow_soft_placement: bool,
    /// The number of cores that the kernels of each task spread over; none leaves that to its
    /// machine.
    pub num_cores: Option<NonZeroU32>,
    /// The conditions that end the training.
    pub stop: Stop,
    /// How TensorFlow's own tokens coordinate the workers, in a run of the mode `async`; none if
    /// they do not.
    pub sync_replicas: Option<SyncReplicasSettings>,
    /// How often an evaluator measures.
    pub evaluator: EvaluatorSettings,
    /// How long tasks wait for one another.
    pub patience: Patience,
    /// Whether the answer to a worker's step brings the variables that its next step reads, where
    /// nobody changes them in between.
    pub read_ahead: bool,
}

impl Settings {
    /// The number of samples whose gradients a global step of `workers` in `mode` applies.
    pub(crate) fn samples_of_a_step(&self, mode: Mode, workers: u32) -> u64 {
        let gradients = match &self.sync_replicas {
            Some(by_tokens) => u64::from(by_tokens.replicas(workers).0),
            None => mode.gradients_of_a_step(workers),
        };
        gradients.saturating_mul(self.batch as u64)
    }
}

/// How mirrored towers sum their gradients: `all_reduce` of a scenario's `[program]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllReduceSettings {
    /// How each sum is made.
    pub algorithm: AllReduceKind,
    /// By task of a replica: the number of its rack; empty if there are none.
    pub racks: Vec<usize>,
}

/// The algorithm of an all-reduce, as a scenario names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllReduceKind {
    /// [`AllReduce::Ring`].
    Ring,
    /// [`AllReduce::Tree`].
    Tree,
    /// [`AllReduce::Shuffle`].
    Shuffle,
    /// [`AllReduce::Hierarchical`], in racks; without racks, in the towers of a task.
    Hierarchical,
}

impl AllReduceSettings {
    /// The all-reduce over towers on these tasks of a replica.
    pub(super) fn over(&self, tasks: &[usize]) -> AllReduce {
        let group = |task: &usize| self.racks.get(*task).copied().unwrap_or(*task);
        match self.algorithm {
            AllReduceKind::Ring => AllReduce::Ring,
            AllReduceKind::Tree => AllReduce::Tree,
            AllReduceKind::Shuffle => AllReduce::Shuffle,
            AllReduceKind::Hierarchical => {
                AllReduce::Hierarchical { groups: tasks.iter().map(group).collect() }
            }
        }
    }
}

/// A training by [`SyncReplicas`](crate::optimizer::SyncReplicas): `sync_replicas` of a scenario's
/// `[program]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncReplicasSettings {
    /// The number of gradients of an update. Default: one for each replica.
    pub replicas_to_aggregate: Option<u32>,
    /// The number of replicas. Default: all workers.
    pub total_num_replicas: Option<u32>,
    /// The number of first tokens. Default: as many as an update takes gradients.
    pub num_tokens: Option<u32>,
}

impl SyncReplicasSettings {
    /// The gradients of an update and the replicas, of `workers` workers.
    pub(crate) fn replicas(&self, workers: u32) -> (u32, u32) {
        let total = self.total_num_replicas.unwrap_or(workers);
        (self.replicas_to_aggregate.unwrap_or(total), total)
    }

    /// The steps that an update lets `workers` workers take: one for each of its tokens.
    pub(crate) fn tokens_of_an_update(&self, workers: u32) -> u32 {
        let (aggregated, total) = self.replicas(workers);
        tokens_of_an_update(aggregated, total)
    }

    /// The mistakes in it: for each a key and a message.
    pub(crate) fn mistakes(&self, workers: u32) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let keys = [
            ("replicas_to_aggregate", self.replicas_to_aggregate),
            ("total_num_replicas", self.total_num_replicas),
        ];
        for (key, _) in keys.into_iter().filter(|(_, number)| *number == Some(0)) {
            found.push((key, "0 must be at least 1".to_owned()));
        }
        let (aggregated, total) = self.replicas(workers);
        let tokens = self.tokens_of_an_update(workers);
        // TensorFlow runs it, and waits for ever at its end.
        if total > 0 && tokens < workers {
            let why = format!(
                "an update has tokens for {tokens} of {workers} workers, so some would wait for \
                 ever after the last one; make it at least {workers}, or remove the key"
            );
            found.push(("total_num_replicas", why));
        }
        let needed = aggregated.saturating_sub(total);
        if let Some(tokens) = self.num_tokens.filter(|tokens| *tokens < needed) {
            let why = format!("{tokens} are too few for any update; at least {needed} are needed");
            found.push(("num_tokens", why));
        }
        found
    }
}

/// How often the task of the job `evaluator` measures the newest checkpoint. A scenario's
/// `[evaluator]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluatorSettings {
    /// The time before it begins. Default: none.
    #[serde(deserialize_with = "Span::duration")]
    pub start_delay: Duration,
    /// The least time between the beginnings of two measurements. Default: none, so that each
    /// checkpoint is measured that is the newest when the evaluator is free.
    #[serde(deserialize_with = "Span::duration")]
    pub throttle: Duration,
}

/// The number of samples of an epoch is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stop.epochs: the training data has no known number of samples (files of TFRecord and CSV \
     that are streamed, or none at all); give `stop.samples`"
)]
pub(crate) struct EpochUnknown;

/// The distance between two evaluations by the chief on the test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// So many global steps.
    EverySteps(u64),
    /// So many samples of applied gradients.
    EverySamples(u64),
}

/// The conditions that end a training; the first that is met ends it. A scenario's `[stop]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The number of global steps, if limited.
    pub steps: Option<u64>,
    /// The number of samples of applied gradients, if limited: the global steps that apply them are
    /// counted by the run's mode, its workers and its batch.
    pub samples: Option<u64>,
    /// As many samples as so many passes over the training data have, if limited.
    pub epochs: Option<f64>,
    /// The accuracy on the test split to reach, above 0 and at most 1. It needs another condition
    /// beside it, as it may never be reached.
    pub accuracy: Option<f64>,
    /// The distance between two evaluations by the chief on the test split \[global steps\].
    /// Default: with a target accuracy 50, unless it is given in samples; without one the chief
    /// evaluates at the end alone.
    pub evaluate_every: Option<u64>,
    /// The same distance in samples of applied gradients. A global step is one gradient in one mode
    /// and those of all workers in another, so that only this one is the same for all modes.
    pub evaluate_every_samples: Option<u64>,
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
            samples: None,
            epochs: None,
            accuracy: None,
            evaluate_every: None,
            evaluate_every_samples: None,
            time: None,
        }
    }
}

impl Stop {
    /// Limits the steps to those that apply the samples which are asked for, `of_a_step` each, with
    /// an `epoch` of so many; none if that is not known.
    ///
    /// # Errors
    /// If epochs are asked for, and the number of samples of one is not known.
    pub(crate) fn count_samples(
        &mut self,
        of_a_step: u64,
        epoch: Option<u64>,
    ) -> Result<(), EpochUnknown> {
        let of_epochs = |epochs: f64| {
            let epoch = epoch.ok_or(EpochUnknown)?;
            Ok((epochs * epoch as f64).ceil() as u64)
        };
        let samples = self.samples.into_iter().chain(self.epochs.map(of_epochs).transpose()?).min();
        let steps = samples.map(|samples| samples.div_ceil(of_a_step.max(1)));
        self.steps = self.steps.into_iter().chain(steps).min();
        Ok(())
    }

    /// The conditions in a fixed form, in which they are kept beside the checkpoints of a training
    /// that has ended: one that is to go on for longer has not ended.
    pub(super) fn conditions(&self) -> String {
        let Self {
            steps,
            samples,
            epochs,
            accuracy,
            evaluate_every: _,
            evaluate_every_samples: _,
            time,
        } = self;
        let given = [
            steps.map(|steps| format!("steps={steps}")),
            samples.map(|samples| format!("samples={samples}")),
            epochs.map(|epochs| format!("epochs={epochs}")),
            accuracy.map(|accuracy| format!("accuracy={accuracy}")),
            time.map(|time| format!("nanoseconds={}", time.as_nanos())),
        ];
        given.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The distance between two evaluations; none if there is one at the end alone.
    pub(crate) fn looks(&self) -> Option<Looks> {
        match (self.evaluate_every_samples, self.evaluate_every) {
            (Some(samples), _) => Some(Looks::EverySamples(samples)),
            (None, Some(steps)) => Some(Looks::EverySteps(steps)),
            (None, None) => self.accuracy.map(|_| Looks::EverySteps(50)),
        }
    }

    /// The mistakes in it: for each a key (or none, for the whole) and a message.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for (key, number) in [
            ("evaluate_every", self.evaluate_every.unwrap_or(1)),
            ("evaluate_every_samples", self.evaluate_every_samples.unwrap_or(1)),
            ("steps", self.steps.unwrap_or(1)),
            ("samples", self.samples.unwrap_or(1)),
        ] {
            if number == 0 {
                found.push((key, "0 must be at least 1".to_owned()));
            }
        }
        if self.evaluate_every.is_some() && self.evaluate_every_samples.is_some() {
            let why = "`evaluate_every` says the same in global steps; remove one of the two";
            found.push(("evaluate_every_samples", why.to_owned()));
        }
        if self.time.is_some_and(|time| time.is_zero()) {
            found.push(("time", "must be above 0".to_owned()));
        }
        if let Some(accuracy) = self.accuracy.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            found.push(("accuracy", format!("{accuracy} must be above 0 and at most 1")));
        }
        if let Some(epochs) = self.epochs.filter(|epochs| !(epochs.is_finite() && *epochs > 0.0)) {
            found.push(("epochs", format!("{epochs} must be finite, and above 0")));
        }
        let has_samples = self.samples.is_some() || self.epochs.is_some();
        if self.steps.is_none() && self.time.is_none() && !has_samples {
            let why = match self.accuracy {
                None => "no condition, so no run would end; give `steps`, `samples` or `time`",
                Some(_) => {
                    "the accuracy may never be reached; give `steps`, `samples` or `time` as well"
                }
            };
            found.push(("", why.to_owned()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_by_tokens_has_one_for_each_worker() {
        let of = |aggregated, total| {
            SyncReplicasSettings {
                replicas_to_aggregate: aggregated,
                total_num_replicas: total,
                num_tokens: None,
            }
            .mistakes(4)
        };
        for (aggregated, total) in [(None, None), (Some(1), None), (Some(4), Some(2))] {
            assert_eq!(of(aggregated, total), []);
        }
        let [(key, why)] = &of(Some(1), Some(2))[..] else { panic!("there is one mistake") };
        assert_eq!(*key, "total_num_replicas");
        assert!(why.contains("tokens for 2 of 4 workers"), "{why}");
    }

    #[test]
    fn the_conditions_of_an_end_are_kept_in_a_form_that_later_releases_read() {
        let stop =
            Stop { accuracy: Some(0.95), time: Some(Duration::from_secs(2)), ..Stop::default() };
        let kept = "steps=1000 accuracy=0.95 nanoseconds=2000000000";
        assert_eq!(stop.conditions(), kept);
        assert_eq!(Stop { evaluate_every: Some(7), ..stop }.conditions(), kept, "it ends nothing");
        assert_ne!(Stop { samples: Some(9), ..stop }.conditions(), kept);
    }
}
