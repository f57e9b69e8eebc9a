//! Chaos: a scenario's runs under drawn faults, judged by what is promised of every training.
//!
//! Each run is simulated once undisturbed, then once for each seed, under faults that are drawn
//! from it. A timeline of faults that breaks a [`Promise`] is shrunk to the fewest faults that
//! still break it, and printed as a value of the scenario's key `fault`, which replays it.

mod draw;
mod judge;
mod shrink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::scenario::written_faults;
use super::{Experiment, ExperimentError, Trainer, Trial};
use crate::simulation::Fault;

use judge::Judge;
pub use judge::{Breach, Promise};

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
    /// The fewest of them that break the same promise, as a value of the key `fault`.
    pub faults: String,
    /// What they break.
    pub breaches: Vec<Breach>,
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
    /// simulated at once. `progress` is told after each one how many of the run are done.
    ///
    /// # Errors
    /// As [`Self::trials`]; a run that fails undisturbed.
    pub fn chaos(
        &self,
        trainer: impl Trainer,
        seeds: u64,
        progress: impl Fn(&str, u64) + Sync,
    ) -> Result<ChaosReport, ExperimentError> {
        let run = |trial: &Trial| {
            let judge = Judge::new(trial, &trainer)?;
            Ok(try_all(&judge, &trainer, seeds, |done| progress(&trial.name, done)))
        };
        let runs = self.trials()?.iter().map(run).collect::<Result<_, ExperimentError>>()?;
        Ok(ChaosReport { runs })
    }
}

/// Tries all timelines of a run, on all cores.
fn try_all(
    judge: &Judge<'_>,
    trainer: &impl Trainer,
    seeds: u64,
    progress: impl Fn(u64) + Sync,
) -> ChaosRun {
    let own = &judge.trial().cluster.faults.list;
    let first = u64::from(own.is_empty()); // number 0 is the scenario's own timeline
    let (next, done) = (AtomicU64::new(first), AtomicU64::new(0));
    let all = Mutex::new(ChaosRun { run: judge.trial().name.clone(), ..ChaosRun::default() });
    #[cfg(test)]
    let planted = crate::planted::planted();
    let try_some = || {
        #[cfg(test)]
        crate::planted::plant(planted);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number > seeds {
                return;
            }
            let seed = number.checked_sub(1);
            let faults = seed.map_or_else(|| own.clone(), |seed| draw::faults(judge, seed));
            let tried = try_one(judge, trainer, seed, &faults);
            all.lock().expect("nothing panics while it holds the tally").add(tried);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(try_some);
        }
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

fn try_one(
    judge: &Judge<'_>,
    trainer: &impl Trainer,
    seed: Option<u64>,
    faults: &[Fault],
) -> Tried {
    let verdict = judge.verdict(trainer, faults);
    if verdict.breaches.is_empty() {
        let failed = |code| Tried::Failed(format!("{code:?}"));
        return verdict.failed.map_or(Tried::ReachedTheEnd, failed);
    }
    let (fewest, breaches) =
        shrink::shrink(faults, verdict.breaches, |faults| judge.verdict(trainer, faults).breaches);
    Tried::Broken(Broken { seed, drawn: faults.len(), faults: written_faults(&fewest), breaches })
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
