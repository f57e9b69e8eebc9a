//! `[checkpoint]`: how often a checkpoint is written, where, and which are kept.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::mistakes::Mistakes;
use crate::checkpoint::{Retention, Store};
use crate::kernels::Numerics;
use crate::training::{Checkpointing, Consistency, SecondOrStepTimer};
use crate::units::{BytesPerSecond, Span};

/// The checkpoints of a training, besides one at the beginning and one at the end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// One after every such number of global steps.
    pub every_steps: Option<u64>,
    /// One after every such span of time; never beside `every_steps`. Default: 600 seconds.
    #[serde(default, deserialize_with = "Span::some_duration")]
    pub every: Option<Duration>,
    /// In deployment, the folder (or the URL, such as `s3://bucket/trainings`) below which each run
    /// has its own; a simulation keeps what is there in memory. Default: checkpoints are in the
    /// chief's memory, and outlive parameter servers but not the chief.
    pub directory: Option<String>,
    /// The number of newest checkpoints to keep; 0 for all. Default: 5.
    #[serde(default = "Checkpoint::keep")]
    pub keep: usize,
    /// Of the older ones, one for each such span of time is kept for ever. Default: none is.
    #[serde(default, deserialize_with = "Span::some_duration")]
    pub keep_every: Option<Duration>,
    /// Whether a checkpoint may have a step in one variable and not in another. Default: no.
    #[serde(default)]
    pub fuzzy: bool,
    /// The rate at which a simulation lets a checkpoint be written. Default: it is written in no
    /// time.
    pub write_rate: Option<BytesPerSecond>,
    /// The rate at which a simulation lets a checkpoint be read, by a chief that restores it and by
    /// an evaluator. Default: it is read in no time.
    pub read_rate: Option<BytesPerSecond>,
}

impl Checkpoint {
    fn keep() -> usize {
        Retention::default().max_to_keep.unwrap_or(0)
    }

    pub(super) fn check(&self, numerics: Numerics, found: &mut Mistakes) {
        found.unless(numerics == Numerics::Real, "checkpoint", || {
            "with `numerics = \"shapes\"` there are no values to save; leave it out".to_owned()
        });
        found.unless(
            self.every_steps.is_none() || self.every.is_none(),
            "checkpoint.every_steps",
            || "give `every_steps` or `every`, not both".to_owned(),
        );
        found.above_0(self.write_rate.map_or(1.0, |rate| rate.0), "checkpoint.write_rate");
        found.above_0(self.read_rate.map_or(1.0, |rate| rate.0), "checkpoint.read_rate");
        found.at_least_1(self.every_steps.unwrap_or(1), "checkpoint.every_steps");
        found.above_0(self.every.map_or(1.0, |every| every.as_secs_f64()), "checkpoint.every");
        found.unless(self.directory.as_deref() != Some(""), "checkpoint.directory", || {
            "name a folder or an URL".to_owned()
        });
    }

    /// The same settings, in `store`.
    pub(crate) fn in_store(&self, store: Arc<dyn Store>) -> Checkpointing {
        let usual = Checkpointing::new(store);
        let every = match (self.every_steps, self.every) {
            (Some(steps), _) => SecondOrStepTimer::every_steps(steps),
            (None, every) => every.map_or(usual.every, SecondOrStepTimer::every_time),
        };
        let retention = Retention { max_to_keep: Some(self.keep), keep_every: self.keep_every };
        let consistency = if self.fuzzy { Consistency::Fuzzy } else { Consistency::Consistent };
        let (write_rate, read_rate) = (self.write_rate, self.read_rate);
        Checkpointing { every, retention, consistency, write_rate, read_rate, ..usual }
    }
}
