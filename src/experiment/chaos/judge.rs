//! Judges how a training under faults ended, by what is promised of it.

mod books;
mod saved;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::super::{ExperimentError, Simulated, Trainer, Trial};
use crate::checkpoint::Memory;
use crate::cluster::TaskName;
use crate::runtime::{Code, Error};
use crate::simulation::{Fault, FaultKind, Trigger};
use crate::units::Time;

use saved::Saved;

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
        Ok(Self { trial, ended, weights: weights(&simulated), saved: Saved::read(&store) })
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
        let saved = Saved::read(&store);
        let failed = match &simulated.outcome.result {
            Err(error) => {
                timeline.check_error(error, &saved, &mut breaches);
                Some(error.code)
            }
            Ok(_) => {
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

/// The faults of a run, and what they excuse.
struct Timeline<'a> {
    faults: &'a [Fault],
    trial: &'a Trial,
}

impl Timeline<'_> {
    /// When the last fault has passed.
    fn end(&self) -> Time {
        let end = |fault: &Fault| {
            let Trigger::Time(at) = fault.at else { return Time::ZERO };
            at.after(lasts(&fault.kind))
        };
        self.faults.iter().map(end).max().unwrap_or_default()
    }

    fn crashes(&self) -> impl Iterator<Item = (&TaskName, Option<Duration>)> {
        self.faults.iter().filter_map(|fault| match &fault.kind {
            FaultKind::Crash { task, restart_after } => Some((task, *restart_after)),
            _ => None,
        })
    }

    /// Whether tasks may count each other as lost though neither has died.
    fn separates(&self) -> bool {
        let apart = |fault: &Fault| match &fault.kind {
            FaultKind::Freeze { lasts, .. }
            | FaultKind::Partition { lasts, .. }
            | FaultKind::OneWay { lasts, .. } => *lasts,
            _ => Duration::ZERO,
        };
        let silence = self.trial.cluster.faults.silence;
        self.faults.iter().map(apart).sum::<Duration>() >= silence
    }

    /// Whether the training may lose what it has learnt, or a task that it can't go on without.
    fn may_end_it(&self) -> bool {
        let has_checkpoints = self.trial.has_checkpoints();
        self.crashes().any(|(task, restart_after)| {
            restart_after.is_none() || (task.is_parameter_server() && !has_checkpoints)
        })
    }

    /// Whether the weights have to be those of the undisturbed run, or the loss be told: each round
    /// is of all workers, and none of them dies. No checkpoint has the copies that workers train.
    fn keeps_weights(&self) -> bool {
        let is_worker = |(task, _): (&TaskName, _)| !task.is_parameter_server();
        let all_live = !self.crashes().any(is_worker);
        let is_kept = self.trial.mode.copies().is_none() || self.crashes().next().is_none();
        self.trial.mode.needs_all_workers() && !self.may_end_it() && all_live && is_kept
    }

    /// Whether the weights have to be those of the undisturbed run in any case.
    fn is_exact(&self) -> bool {
        self.keeps_weights() && !self.separates()
    }

    /// A training ends early only where it has lost what it can't go on without, and says whom.
    fn check_error(&self, error: &Error, saved: &Saved, found: &mut Breaches) {
        let how = || error.to_string();
        let is_mutual = matches!(error.code, Code::Stalled | Code::Internal);
        found.unless(!is_mutual, Promise::Ends, how);
        if is_mutual {
            return;
        }
        let text = error.to_string();
        let names_one = self.victims().any(|task| text.contains(&task.to_string()));
        let is_excused = match error.code {
            Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => self.may_end_it(),
            Code::VariablesLost => self.may_end_it() || saved.is_empty(),
            Code::WorkersLeft => true,
            _ => false,
        };
        found.unless(names_one && is_excused, Promise::Explains, how);
    }

    /// The tasks that a fault hits.
    fn victims(&self) -> impl Iterator<Item = &TaskName> {
        self.faults.iter().flat_map(|fault| match &fault.kind {
            FaultKind::Crash { task, .. }
            | FaultKind::Freeze { task, .. }
            | FaultKind::SlowTask { task, .. } => vec![task],
            FaultKind::OneWay { from, to, .. } => vec![from, to],
            FaultKind::Partition { tasks, .. }
            | FaultKind::Loss { tasks, .. }
            | FaultKind::SlowLink { tasks, .. } => tasks.iter().collect(),
        })
    }
}

/// How long a fault lasts; a task that does not come back is gone at once.
fn lasts(kind: &FaultKind) -> Duration {
    match kind {
        FaultKind::Crash { restart_after, .. } => restart_after.unwrap_or_default(),
        FaultKind::Freeze { lasts, .. }
        | FaultKind::Partition { lasts, .. }
        | FaultKind::OneWay { lasts, .. }
        | FaultKind::Loss { lasts, .. }
        | FaultKind::SlowLink { lasts, .. }
        | FaultKind::SlowTask { lasts, .. } => *lasts,
    }
}
