//! Series: the runs of a report that differ in nothing but the seed, or in nothing at all, and what
//! they have in common.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::estimate::Estimate;
use super::swept::swept_name;
use super::{Report, Run, Swept};

/// Runs that differ in nothing but the seed, or that are launches of the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series<'a> {
    pub(super) runs: Vec<&'a Run>,
}

/// A series in numbers: each is the mean over its seeds, of which each is the mean of its launches;
/// of one seed, over its launches. Only runs that came to their end, and did not diverge, count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The run's name in the scenario.
    pub run: String,
    /// The swept values.
    pub settings: Swept,
    /// The number of seeds.
    pub seeds: u64,
    /// The number of runs: one for each seed and each launch.
    pub runs: u64,
    /// The number of runs that diverged.
    pub diverged: u64,
    /// The time to the target accuracy \[s\], of the runs that reached it alone: where others
    /// did not, it is too short.
    pub seconds_to_target: Option<Estimate>,
    /// The duration \[s\].
    pub seconds: Option<Estimate>,
    /// Global steps a second.
    pub steps_per_second: Option<Estimate>,
    /// Samples of applied gradients a second.
    pub samples_per_second: Option<Estimate>,
    /// The mean staleness \[global steps\].
    pub staleness: Option<Estimate>,
    /// Dropped gradients.
    pub dropped: Option<Estimate>,
    /// The last accuracy on the test split.
    pub test_accuracy: Option<Estimate>,
    /// The last loss on the test split.
    pub final_loss: Option<Estimate>,
    /// The bytes that all tasks sent others in the training's steps.
    pub step_bytes_sent: Option<Estimate>,
}

impl Report {
    /// The runs in numbers, each with its uncertainty over seeds and launches, in the order of the
    /// runs.
    pub fn summaries(&self) -> Vec<Summary> {
        series(self).iter().map(Series::summary).collect()
    }
}

/// The series of `report`, in the order of their first runs.
pub(super) fn series(report: &Report) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for run in &report.runs {
        let is_alike =
            |known: &&mut Series<'_>| known.run() == run.run && known.settings() == &run.settings;
        match all.iter_mut().find(is_alike) {
            Some(known) => known.runs.push(run),
            None => all.push(Series { runs: vec![run] }),
        }
    }
    all
}

/// The word for the runs of a series of `report`, in the plural, by what they differ in.
pub(super) fn told_apart_by(report: &Report) -> &'static str {
    let all = series(report);
    let several = |differ: fn(&Run) -> u64| {
        all.iter().any(|series| {
            let values: BTreeSet<u64> = series.runs.iter().map(|run| differ(run)).collect();
            values.len() > 1
        })
    };
    match (several(|run| run.seed), several(|run| run.repeat.into())) {
        (_, false) => "seeds",
        (false, true) => "launches",
        (true, true) => "runs",
    }
}

/// What the values of estimates are of, in the plural, where runs are told apart by `over`.
pub(super) fn independent(over: &'static str) -> &'static str {
    if over == "runs" { "seeds" } else { over }
}

/// The independent values among `values`, each with its seed. Launches of one seed begin with the
/// same weights and train on the same batches: where there are `several_seeds`, they count by their
/// mean, as one value. Of one seed each launch is a draw of the machine's noise alone.
pub(super) fn independent_values(values: &[(u64, f64)], several_seeds: bool) -> Vec<f64> {
    if !several_seeds {
        return values.iter().map(|(_, value)| *value).collect();
    }
    let mut of_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (seed, value) in values {
        of_seed.entry(*seed).or_default().push(*value);
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    of_seed.values().map(mean).collect()
}

impl<'a> Series<'a> {
    /// The run's name in the scenario.
    pub(super) fn run(&self) -> &'a str {
        &self.runs[0].run
    }

    /// The swept values.
    pub(super) fn settings(&self) -> &'a Swept {
        &self.runs[0].settings
    }

    /// The run's name and the swept values: `async (cluster.worker=4)`.
    pub(super) fn name(&self) -> String {
        match self.runs[..] {
            [only] => only.name.clone(),
            _ => swept_name(self.run(), self.settings()),
        }
    }

    /// The runs that have come to their end, and did not diverge.
    pub(super) fn sound(&self) -> impl Iterator<Item = &'a Run> + Clone {
        self.runs.iter().copied().filter(|run| !run.has_diverged() && !run.is_unfinished())
    }

    /// The number of runs that diverged.
    pub(super) fn diverged(&self) -> usize {
        self.runs.iter().filter(|run| run.has_diverged()).count()
    }

    pub(super) fn has_diverged(&self) -> bool {
        self.runs.iter().any(|run| run.has_diverged())
    }

    /// The number of seeds.
    pub(super) fn seeds(&self) -> usize {
        self.runs.iter().map(|run| run.seed).collect::<BTreeSet<_>>().len()
    }

    /// The estimate of what `of` says of each sound run.
    pub(super) fn estimate(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
        let value = |run: &Run| Some((run.seed, of(run)?));
        let values: Vec<(u64, f64)> = self.sound().filter_map(value).collect();
        Estimate::of(&independent_values(&values, self.seeds() > 1))
    }

    /// The series in numbers.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            run: self.run().to_owned(),
            settings: self.settings().clone(),
            seeds: self.seeds() as u64,
            runs: self.runs.len() as u64,
            diverged: self.diverged() as u64,
            seconds_to_target: self.estimate(|run| run.seconds_to_target),
            seconds: self.estimate(|run| Some(run.seconds)),
            steps_per_second: self.estimate(|run| Some(run.steps_per_second)),
            samples_per_second: self.estimate(|run| Some(run.samples_per_second)),
            staleness: self.estimate(|run| Some(run.staleness.as_ref()?.mean)),
            dropped: self.estimate(|run| Some(run.gradients.dropped as f64)),
            test_accuracy: self.estimate(|run| run.test_accuracy),
            final_loss: self.estimate(|run| run.final_loss),
            step_bytes_sent: self.estimate(|run| Some(run.step_bytes() as f64)),
        }
    }
}
