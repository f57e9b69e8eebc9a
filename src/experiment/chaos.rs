//! Chaos: a scenario's runs under drawn faults, judged by what is promised of every training.
//!
//! Each run is trained once undisturbed, then once for each seed, under faults that are drawn from
//! it: in simulation, or on real processes. A timeline of faults that breaks a [`Promise`] is
//! shrunk to the fewest faults that still break it, and printed as a value of the scenario's key
//! `fault`, which replays it.

mod arena;
mod draw;
mod judge;
mod launches;
mod shrink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::parallel::share;
use super::{Experiment, ExperimentError, Trainer, Trial};
use crate::deployment::Folder;
use crate::scenario::written_faults;
use crate::simulation::Fault;

use arena::{Arena, InSimulation};
pub use judge::{Breach, Promise};
use judge::{Judge, Judgement};
pub(crate) use launches::Launches;
use shrink::Shrunk;

/// What came of the runs of an experiment under drawn faults.
#[derive(Clone, Debug, Serialize)]
pub struct ChaosReport {
    /// Each run, in the scenario's order.
    pub runs: Vec<ChaosRun>,
}

/// What came of one run under drawn faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChaosRun {
    /// The name of the run.
    pub run: String,
    /// The number of timelines that were tried.
    pub tried: u64,
    /// The number of those with which the training reached its end.
    pub reached_the_end: u64,
    /// The number of those with which it ended early with the error that is promised, by the
    /// error's code.
    pub failed: BTreeMap<String, u64>,
    /// The timelines that broke a promise, by their seeds.
    pub broken: Vec<Broken>,
}

/// A timeline of faults that broke a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Broken {
    /// The seed that it was drawn from; none for the scenario's own faults.
    pub seed: Option<u64>,
    /// The number of faults that were drawn.
    pub drawn: usize,
    /// The fewest of them that are known to break the same promise, as a value of the key `fault`.
    pub faults: String,
    /// What they break.
    pub breaches: Vec<Breach>,
    /// How often the faults that were drawn broke a promise again; none if they were not tried
    /// again, as in a simulation, which repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Whether the user asked to stop before it was known that none of the faults can be spared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_short: bool,
    /// The last error or line of each process, by its task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub last_words: BTreeMap<String, String>,
    /// The folder of the logs and checkpoints of the processes, which is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<PathBuf>,
}

/// How often a timeline that broke a promise did so again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Repeats {
    /// The number of times that it did.
    pub again: u32,
    /// The number of times that it was tried.
    pub tries: u32,
}

impl ChaosReport {
    /// Whether all promises were kept.
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(|run| run.broken.is_empty())
    }
}

impl Experiment {
    /// Simulates every run under the faults of the scenario, if it has any, and under those that
    /// are drawn from the seeds 0 to `seeds`, and judges how each training ended. Several are
    /// simulated at once. `progress` is told after each one what came of the run so far, and how
    /// many timelines it has in all.
    ///
    /// # Errors
    /// As [`Self::trials`]; a run that fails undisturbed.
    pub fn chaos(
        &self,
        trainer: impl Trainer,
        seeds: u64,
        progress: impl Fn(&ChaosRun, u64) + Sync,
    ) -> Result<ChaosReport, ExperimentError> {
        self.chaos_until(&Arc::default(), trainer, seeds, progress)
    }

    /// The same, until `stop` is true: the report is of the timelines that were over.
    ///
    /// # Errors
    /// As [`Self::chaos`].
    pub(crate) fn chaos_until(
        &self,
        stop: &Arc<AtomicBool>,
        trainer: impl Trainer,
        seeds: u64,
        progress: impl Fn(&ChaosRun, u64) + Sync,
    ) -> Result<ChaosReport, ExperimentError> {
        let arena = InSimulation::new(trainer, Arc::clone(stop));
        try_runs(&self.trials()?, &arena, seeds, progress)
    }
}

impl Launches<'_> {
    /// As [`Experiment::chaos`], of `trials` on real processes. The seeds begin with the run's. A
    /// user who asks to stop gets the report of the timelines that were over.
    ///
    /// # Errors
    /// A run that fails undisturbed.
    pub(crate) fn chaos(
        &self,
        mut trials: Vec<Trial>,
        timelines: u64,
        progress: impl Fn(&ChaosRun, u64) + Sync,
    ) -> Result<ChaosReport, ExperimentError> {
        trials.iter_mut().for_each(launches::judged_as_deployed);
        try_runs(&trials, self, timelines, progress)
    }
}

fn try_runs(
    trials: &[Trial],
    arena: &impl Arena,
    seeds: u64,
    progress: impl Fn(&ChaosRun, u64) + Sync,
) -> Result<ChaosReport, ExperimentError> {
    let mut runs = Vec::new();
    for trial in trials {
        let Some(judge) = Judge::new(trial, arena)? else { break };
        runs.push(try_all(&judge, seeds, &progress));
    }
    Ok(ChaosReport { runs })
}

/// Tries all timelines of a run, several at once.
fn try_all(judge: &Judge<'_>, seeds: u64, progress: &(impl Fn(&ChaosRun, u64) + Sync)) -> ChaosRun {
    let (own, arena) = (&judge.trial().cluster.faults.list, judge.arena());
    let first = u64::from(own.is_empty()); // number 0 is the scenario's own timeline
    let total = seeds + 1 - first;
    let all = Mutex::new(ChaosRun { run: judge.trial().name.clone(), ..ChaosRun::default() });
    #[cfg(test)]
    let planted = crate::planted::planted();
    share(arena.jobs(), first..=seeds, |number: u64| {
        #[cfg(test)]
        crate::planted::plant(planted);
        let seed = number.checked_sub(1).map(|seed| arena.first_seed(judge.trial()) + seed);
        let faults = seed.map_or_else(|| own.clone(), |seed| draw::faults(judge, seed));
        let tried = try_one(judge, seed, &faults)?;
        let mut all = all.lock().expect("nothing panics while it holds the tally");
        all.add(tried);
        progress(&all, total);
        Some(())
    });
    let mut all = all.into_inner().expect("nothing panics while it holds the tally");
    all.broken.sort_by_key(|broken| broken.seed);
    all
}

/// What came of one timeline.
enum Tried {
    ReachedTheEnd,
    Failed(String),
    Broken(Broken),
}

/// Tries one timeline. None if the user has asked to stop.
fn try_one(judge: &Judge<'_>, seed: Option<u64>, faults: &[Fault]) -> Option<Tried> {
    let Judgement { failed, breaches, last_words, folder } = judge.judgement(faults)?;
    if breaches.is_empty() {
        let with = |code| Tried::Failed(format!("{code:?}"));
        return Some(failed.map_or(Tried::ReachedTheEnd, with));
    }
    let breaches_of = |faults: &[Fault]| Some(judge.judgement(faults)?.breaches);
    let tries = judge.arena().repetitions();
    let again: Vec<Vec<Breach>> = (0..tries).map_while(|_| breaches_of(faults)).collect();
    let repeats = (!again.is_empty()).then(|| Repeats {
        again: again.iter().filter(|found| !found.is_empty()).count() as u32,
        tries: again.len() as u32,
    });
    let is_tried = again.len() == tries as usize;
    let shrunk = if !is_tried || repeats.is_some_and(|repeats| repeats.again == 0) {
        // Whatever is left out of a failure that does not repeat, it would seem harmless.
        let is_cut_short = !is_tried && faults.len() > 1;
        Shrunk { fewest: faults.to_vec(), breaches, is_cut_short }
    } else {
        shrink::shrink(faults, breaches, |faults| {
            let mut found = Vec::new();
            for _ in 0..tries.max(1) {
                found = breaches_of(faults)?;
                if !found.is_empty() {
                    break;
                }
            }
            Some(found)
        })
    };
    Some(Tried::Broken(Broken {
        seed,
        drawn: faults.len(),
        faults: written_faults(&shrunk.fewest),
        breaches: shrunk.breaches,
        repeats,
        is_cut_short: shrunk.is_cut_short,
        last_words: last_words
            .iter()
            .map(|(task, words)| (task.to_string(), words.clone()))
            .collect(),
        logs: folder.map(Folder::keep),
    }))
}

impl ChaosRun {
    fn add(&mut self, tried: Tried) {
        self.tried += 1;
        match tried {
            Tried::ReachedTheEnd => self.reached_the_end += 1,
            Tried::Failed(code) => *self.failed.entry(code).or_default() += 1,
            Tried::Broken(broken) => self.broken.push(broken),
        }
    }
}
