//! Judges how a training under faults ended, by what is promised of it.

mod books;
mod own_values;
mod saved;
mod timeline;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::super::{ExperimentError, Trial};
use super::arena::{Arena, Attempt};
use crate::cluster::TaskName;
use crate::deployment::Folder;
use crate::runtime::Code;
use crate::simulation::Fault;
use crate::training::StepStats;
use crate::units::Time;

use saved::Saved;
use timeline::{Timeline, is_death, is_full_disk, is_tear};

/// The time that a training has for further tries, after its longest wait for an operation.
const LAST_TRIES: Duration = Duration::from_secs(100);

/// What is promised of a training, whatever befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Every task ends, and soon.
    Ends,
    /// A training that can go on does; one that can't says which task it has lost.
    Explains,
    /// No process waits in silence.
    Tells,
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
            Promise::Tells => "no wait is silent",
            Promise::Order => "a worker takes one step after the other",
            Promise::Counts => "each gradient counts once or is dropped",
            Promise::Checkpoints => "a checkpoint holds whole steps",
            Promise::Weights => "the weights are those of the undisturbed run",
        };
        write!(f, "{promise}: {}", self.how)
    }
}

/// How a training under faults ended.
pub(super) struct Judgement {
    /// The code of the error with which it ended.
    pub(super) failed: Option<Code>,
    pub(super) breaches: Vec<Breach>,
    /// The last words of its tasks.
    pub(super) last_words: BTreeMap<TaskName, String>,
    /// The folder of its logs, if it has one.
    pub(super) folder: Option<Folder>,
}

/// A run, with what it does undisturbed.
pub(super) struct Judge<'a> {
    trial: &'a Trial,
    arena: &'a dyn Arena,
    ended: Time,
    weights: Option<u64>,
    saved: Saved,
    /// The longest time in which a worker ends no step: no operation takes longer.
    longest: Duration,
    /// Whether no step is so long that all are silent meanwhile.
    tells: bool,
}

impl<'a> Judge<'a> {
    /// Trains `trial` undisturbed. None if the user has asked to stop.
    ///
    /// # Errors
    /// If that fails.
    pub(super) fn new(
        trial: &'a Trial,
        arena: &'a dyn Arena,
    ) -> Result<Option<Self>, ExperimentError> {
        let Some(attempt) = arena.train(trial, &[], None) else { return Ok(None) };
        let longest = longest_without_a_step(&attempt);
        let (ended, weights) = (attempt.ended, attempt.weights());
        if let Some(error) = attempt.failed
            && !attempt.recording.is_unsaved()
        {
            return Err(ExperimentError::Run { run: trial.name.clone(), error });
        }
        let saved = Saved::read(attempt.store, false);
        let tells = attempt.silent.is_empty();
        Ok(Some(Self { trial, arena, ended, weights, saved, longest, tells }))
    }

    pub(super) fn trial(&self) -> &'a Trial {
        self.trial
    }

    pub(super) fn arena(&self) -> &'a dyn Arena {
        self.arena
    }

    /// How long the undisturbed run takes.
    pub(super) fn length(&self) -> Duration {
        self.ended.since(Time::ZERO)
    }

    /// Trains the run under `faults`, and judges how it ended. None if the user has asked to stop.
    pub(super) fn judgement(&self, faults: &[Fault]) -> Option<Judgement> {
        let timeline = Timeline { faults, trial: self.trial };
        let patient = self.patient(faults);
        let latest = self.latest(&timeline, patient.settings.patience.operation);
        let attempt = self.arena.train(&patient, faults, Some(latest))?;
        let mut breaches = Breaches::default();
        let ended = attempt.ended;
        breaches.unless(ended <= latest, Promise::Ends, || {
            format!("the run ended at {ended}, and should have until {latest}")
        });
        for (task, silence) in attempt.silent.iter().filter(|_| self.tells) {
            breaches.unless(false, Promise::Tells, || {
                format!("{task} logged nothing for {silence:.0?}, and no step was taken")
            });
        }
        let is_undone = self.arena.undoes_steps() || !timeline.has(is_death);
        let steps: Vec<StepStats> = attempt.recording.steps().collect();
        books::check(self.trial, &timeline, &steps, is_undone, &mut breaches);
        let saved = Saved::read(attempt.store.clone(), timeline.has(is_tear));
        let is_unsaved = attempt.recording.is_unsaved();
        breaches.unless(!is_unsaved || timeline.has(is_full_disk), Promise::Explains, || {
            "a checkpoint is said to be missing, though the disk had room".to_owned()
        });
        let is_excused = is_unsaved && timeline.has(is_full_disk);
        let failed = match &attempt.failed {
            Some(error) if !is_excused => {
                timeline.check_error(error, &saved, &mut breaches);
                Some(error.code)
            }
            _ => {
                books::check_sizes(self.trial, &timeline, &steps, &mut breaches);
                if !own_values::began_anew(&timeline, &attempt, &saved, &mut breaches) {
                    self.check_weights(&timeline, attempt.weights(), &steps, &mut breaches);
                    if timeline.is_exact() {
                        saved.compare(&self.saved, &mut breaches);
                    }
                }
                saved.check(self.trial, &timeline, &mut breaches);
                None
            }
        };
        let Attempt { last_words, folder, .. } = attempt;
        Some(Judgement { failed, breaches: breaches.0, last_words, folder })
    }

    /// The run with a limit that its operations keep under `faults`: each of these may have one
    /// begin anew, and take twice as long. Undisturbed simulations have no limit.
    fn patient(&self, faults: &[Fault]) -> Trial {
        let mut trial = self.trial.clone();
        let limit = &mut trial.settings.patience.operation;
        let times = 2 * (faults.len() as u32 + 1);
        *limit = self.longest.saturating_mul(times).max(*limit);
        trial
    }

    /// The time by which a run under faults has to have ended: after the last fault it may take as
    /// long as an undisturbed run and, once, as long as the `limit` of an operation.
    fn latest(&self, timeline: &Timeline<'_>, limit: Duration) -> Time {
        timeline.end().after(self.length()).after(limit).after(LAST_TRIES)
    }

    fn check_weights(
        &self,
        timeline: &Timeline<'_>,
        is: Option<u64>,
        steps: &[StepStats],
        found: &mut Breaches,
    ) {
        if !timeline.keeps_weights() {
            return;
        }
        let is_told = !timeline.is_exact() && books::tells_of_losses(self.trial, steps);
        let expected = self.weights;
        found.unless(is == expected || is_told, Promise::Weights, || {
            let hex = |digest: Option<u64>| digest.map_or("-".to_owned(), |d| format!("{d:016x}"));
            format!("{} and not {}, and no gradient was dropped", hex(is), hex(expected))
        });
    }
}

/// The longest time of `attempt` in which one of its workers ended no step.
fn longest_without_a_step(attempt: &Attempt) -> Duration {
    let mut ends: BTreeMap<TaskName, Vec<Time>> = BTreeMap::new();
    for step in attempt.recording.steps() {
        ends.entry(step.worker).or_insert_with(|| vec![Time::ZERO]).push(step.ended);
    }
    let longest = ends.into_values().map(|mut ends| {
        ends.push(attempt.ended);
        ends.sort();
        ends.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default()
    });
    longest.max().unwrap_or_default()
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
