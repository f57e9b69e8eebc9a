//! Judges how a training under faults ended, by what is promised of it.

mod books;
mod saved;
mod timeline;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::super::{ExperimentError, Simulated, Trainer, Trial};
use crate::checkpoint::Memory;
use crate::runtime::Code;
use crate::simulation::Fault;
use crate::units::Time;

use saved::Saved;
use timeline::{Timeline, is_full_disk, is_tear};

/// After the last fault and the time of an undisturbed run, the longest wait that a training may
/// have before it ends: an operation's limit, and some tries.
const LAST_WAIT: Duration = Duration::from_secs(400);

/// What is promised of a training, whatever befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Every task ends, and soon.
    Ends,
    /// A training that can go on does; one that can't says which task it has lost.
    Explains,
    /// A worker takes one step after the other, and the global step only grows.
    Order,
    /// Each gradient counts once, or is reported as dropped.
    Counts,
    /// A checkpoint holds whole steps.
    Checkpoints,
    /// The weights are those of the undisturbed run.
    Weights,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// The promise.
    pub promise: Promise,
    /// How it was broken.
    pub how: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = match self.promise {
            Promise::Ends => "every task ends",
            Promise::Explains => "a training goes on, or says which task it has lost",
            Promise::Order => "a worker takes one step after the other",
            Promise::Counts => "each gradient counts once or is dropped",
            Promise::Checkpoints => "a checkpoint holds whole steps",
            Promise::Weights => "the weights are those of the undisturbed run",
        };
        write!(f, "{promise}: {}", self.how)
    }
}

/// How a training under faults ended.
pub(super) struct Verdict {
    /// The code of the error with which it ended.
    pub(super) failed: Option<Code>,
    pub(super) breaches: Vec<Breach>,
}

/// A run, with what it does undisturbed.
pub(super) struct Judge<'a> {
    trial: &'a Trial,
    ended: Time,
    weights: Option<u64>,
    saved: Saved,
}

impl<'a> Judge<'a> {
    /// Simulates `trial` undisturbed.
    ///
    /// # Errors
    /// If that fails.
    pub(super) fn new(trial: &'a Trial, trainer: &impl Trainer) -> Result<Self, ExperimentError> {
        let (simulated, store) = simulate(trial, trainer, &[], None);
        trial.report(&simulated)?;
        let ended = simulated.outcome.ended;
        Ok(Self { trial, ended, weights: weights(&simulated), saved: Saved::read(&store, false) })
    }

    pub(super) fn trial(&self) -> &'a Trial {
        self.trial
    }

    /// How long the undisturbed run takes.
    pub(super) fn length(&self) -> Duration {
        self.ended.since(Time::ZERO)
    }

    /// Simulates the run under `faults`, and judges how it ended.
    pub(super) fn verdict(&self, trainer: &impl Trainer, faults: &[Fault]) -> Verdict {
        let timeline = Timeline { faults, trial: self.trial };
        let latest = self.latest(&timeline);
        let (simulated, store) = simulate(self.trial, trainer, faults, Some(latest));
        let mut breaches = Breaches::default();
        let ended = simulated.outcome.ended;
        breaches.unless(ended <= latest, Promise::Ends, || {
            format!("the run ended at {ended}, and should have until {latest}")
        });
        books::check(self.trial, &timeline, &simulated.recording.steps, &mut breaches);
        let saved = Saved::read(&store, timeline.has(is_tear));
        let is_unsaved = timeline.has(is_full_disk) && simulated.recording.is_unsaved();
        let failed = match &simulated.outcome.result {
            Err(error) if !is_unsaved => {
                timeline.check_error(error, &saved, &mut breaches);
                Some(error.code)
            }
            _ => {
                self.check_weights(&timeline, &simulated, &mut breaches);
                saved.check(self.trial, &timeline, &mut breaches);
                if timeline.is_exact() {
                    saved.compare(&self.saved, &mut breaches);
                }
                None
            }
        };
        Verdict { failed, breaches: breaches.0 }
    }

    /// The time by which a run under faults has to have ended.
    fn latest(&self, timeline: &Timeline<'_>) -> Time {
        timeline.end().after(self.length()).after(LAST_WAIT)
    }

    fn check_weights(&self, timeline: &Timeline<'_>, simulated: &Simulated, found: &mut Breaches) {
        if !timeline.keeps_weights() {
            return;
        }
        let is_told = !timeline.is_exact() && books::tells_of_losses(self.trial, simulated);
        let (expected, is) = (self.weights, weights(simulated));
        found.unless(is == expected || is_told, Promise::Weights, || {
            let hex = |digest: Option<u64>| digest.map_or("-".to_owned(), |d| format!("{d:016x}"));
            format!("{} and not {}, and no gradient was dropped", hex(is), hex(expected))
        });
    }
}

/// Simulates `trial` under `faults`, and keeps all of its checkpoints. A training that takes steps
/// for ever is stopped soon after `latest`.
fn simulate(
    trial: &Trial,
    trainer: &impl Trainer,
    faults: &[Fault],
    latest: Option<Time>,
) -> (Simulated, Memory) {
    let (store, mut trial) = (Memory::default(), trial.clone());
    if let Some(latest) = latest {
        let limit = latest.since(Time::ZERO) + Duration::from_secs(1);
        trial.settings.stop.time.get_or_insert(limit);
    }
    trial.cluster.faults.list = faults.to_vec();
    trial.keep_all_checkpoints(Arc::new(store.clone()));
    (trial.simulate(trainer), store)
}

fn weights(simulated: &Simulated) -> Option<u64> {
    simulated.recording.ending.and_then(|ending| ending.weights_digest)
}

/// What was broken so far.
#[derive(Default)]
struct Breaches(Vec<Breach>);

impl Breaches {
    fn unless(&mut self, is_kept: bool, promise: Promise, how: impl FnOnce() -> String) {
        if !is_kept {
            self.0.push(Breach { promise, how: how() });
        }
    }
}
