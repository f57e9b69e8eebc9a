//! Verdicts: which of two runs was faster, by how much, and how sure that is.
//!
//! Only runs that differ in nothing but the run are compared, never two points of a sweep, nor runs
//! that train other programs or to another accuracy, or that went on from other global steps. With
//! a target accuracy they are compared by their time from the first step to it, else by the samples
//! of applied gradients a second: a global step stands for one gradient in one mode, and for many
//! in another. The fastest run has reached the target with all seeds. If a seed of the slower run
//! missed the target, its time to the last look is used instead. Its ratio, and the mean of the
//! ratios, are then lower bounds. A run may have reached the target at any time since the look
//! before the one that saw it: the faster run has to be surely faster than the slower one at that
//! look, too. With several seeds, each is compared with the same seed of the other run, so that
//! what both drew alike does not count as difference. The launches of a seed count as one value,
//! their mean, unless there is one seed alone. The fastest run is selected and tested on the same
//! data, which amounts to comparing every pair. Confidence levels therefore have Bonferroni's
//! correction for all pairs.

mod groups;
mod text;

use serde::Serialize;

use super::estimate::{Estimate, is_surely_positive};
use super::series::{Series, independent_values};
use super::{Report, Run, Swept};
use groups::Group;

/// The measure that two runs are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Measure {
    /// The time from the first step to the target accuracy.
    TimeToTarget,
    /// The samples of applied gradients a second.
    SamplesPerSecond,
}

impl Measure {
    /// The measure for runs with this target accuracy, or without one.
    fn towards(target: Option<f64>) -> Self {
        target.map_or(Self::SamplesPerSecond, |_| Self::TimeToTarget)
    }
}

/// A comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Speedup {
    /// The swept values of both.
    pub settings: Swept,
    /// What they are compared by.
    pub by: Measure,
    /// The accuracy that both are to reach, if they are compared by that.
    #[serde(skip)]
    pub target: Option<f64>,
    /// The run that was faster, by its name in the scenario.
    pub faster: String,
    /// The other run.
    pub slower: String,
    /// How many times as fast: the geometric mean over the seeds or, of one seed, over its
    /// launches, and its interval, which is of this comparison alone. If the slower run missed the
    /// target with a seed, these are lower bounds, and the interval has no upper end.
    pub times: Estimate,
    /// With how many runs, one for each seed and launch, the slower run did not reach the target.
    pub slower_missed: u64,
    /// Whether the slower run reached the target with none of them.
    #[serde(skip)]
    pub slower_never_reached: bool,
    /// Whether a fault of the scenario happened in one of them alone.
    pub faults_differ: bool,
    /// Whether the looks at the test split are too far apart to tell which reached the target
    /// first: they differ surely, but not if the slower one did at the look before.
    #[serde(skip)]
    pub looks_are_too_far_apart: bool,
    /// Whether the two differ by more than the seeds or, of one seed, its launches do, and by more
    /// than the time between two looks at the test split. None of a single one, but false where
    /// those looks are too far apart to tell which reached the target first.
    ///
    /// If no two of the runs with these swept values differ, the chance that any pair is told apart
    /// is at most 5 %. So of more than two runs this may be false though the interval is above 1.
    pub is_sure: Option<bool>,
}

impl Measure {
    /// A run's number; a greater one is better. None where the run has none.
    fn speed(self, run: &Run) -> Option<f64> {
        let speed = match self {
            Self::TimeToTarget => 1.0 / run.training_seconds_to_target()?,
            Self::SamplesPerSecond => run.samples_per_second,
        };
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    /// The most that a run's number can be: one that did not reach the target needs more time than
    /// until the last look, which missed it.
    fn greatest_speed(self, run: &Run) -> Option<f64> {
        let misses = self == Self::TimeToTarget && run.seconds_to_target.is_none();
        if !misses {
            return self.speed(run);
        }
        let missed = run.training_seconds_to_last_look().filter(|seconds| *seconds > 0.0);
        missed.map(|seconds| 1.0 / seconds)
    }

    /// The most that a run's number can be if it reached the target just after the look before.
    fn greatest_speed_between_looks(self, run: &Run) -> Option<f64> {
        let reached = run.training_seconds_to_target().filter(|_| self == Self::TimeToTarget);
        let Some(seconds) = reached else { return self.greatest_speed(run) };
        let earliest = seconds - run.seconds_to_target_resolution.unwrap_or(0.0);
        Some(1.0 / earliest.max(0.0)) // infinite if no look was before
    }

    /// The mean logarithm of a series' speed; none where one of its runs has no speed.
    fn mean_speed(self, series: &Series<'_>) -> Option<f64> {
        let speed = |run: &&Run| Some((run.seed, self.speed(run)?.ln()));
        let speeds: Option<Vec<(u64, f64)>> = series.runs.iter().map(speed).collect();
        Some(Estimate::of(&independent_values(&speeds?, series.seeds() > 1))?.mean)
    }
}

impl Report {
    /// The fastest run beside each other one with the same swept values and the same aim: by the
    /// time to the target if there is one, else by the samples that they train on a second.
    pub fn verdicts(&self) -> Vec<Speedup> {
        self.groups().iter().flat_map(Group::verdicts).collect()
    }

    /// A line for each run that is left out of all comparisons and has no line of its own that
    /// says so. The seeds or launches are `over`.
    pub(super) fn left_out(&self, over: &str) -> Vec<String> {
        self.groups().iter().flat_map(|group| group.left_out(over)).collect()
    }
}

impl Group<'_> {
    /// The series that can be compared with the fastest: each run has a number, or a bound of it,
    /// none diverged or is unfinished, and none found its training finished.
    fn comparable(&self) -> Vec<&Series<'_>> {
        let by = Measure::towards(self.target);
        let has_number = |series: &Series<'_>| {
            let is_whole = |run: &Run| !run.had_nothing_to_do() && !run.is_unfinished();
            series.runs.iter().all(|run| is_whole(run) && by.greatest_speed(run).is_some())
        };
        let sound = self.series.iter().filter(|series| !series.has_diverged());
        sound.filter(|series| has_number(series)).collect()
    }

    /// The fastest of those that reached the target with all seeds.
    fn fastest<'b>(&self, comparable: &[&'b Series<'b>]) -> Option<&'b Series<'b>> {
        let by = Measure::towards(self.target);
        let speeds = comparable.iter().filter_map(|series| Some((by.mean_speed(series)?, *series)));
        Some(speeds.min_by(|a, b| b.0.total_cmp(&a.0))?.1)
    }

    fn verdicts(&self) -> Vec<Speedup> {
        let comparable = self.comparable();
        let Some(fastest) = self.fastest(&comparable) else { return Vec::new() };
        let pairs = comparable.len() * (comparable.len() - 1) / 2;
        let others = comparable.iter().filter(|series| !std::ptr::eq(**series, fastest));
        let mut verdicts: Vec<Speedup> =
            others.filter_map(|other| verdict(fastest, other, self.target, pairs)).collect();
        verdicts.sort_by(|a, b| a.times.mean.total_cmp(&b.times.mean));
        verdicts
    }

    fn left_out(&self, over: &str) -> Vec<String> {
        let several = self.series.iter().filter(|series| series.runs.len() > 1);
        if self.series.len() < 2 || several.clone().count() == 0 {
            return Vec::new();
        }
        let diverged = several.filter(|series| series.has_diverged()).map(|series| {
            let (all, count) = (series.runs.len(), series.diverged());
            format!("{} is not compared: it diverged with {count} of {all} {over}", series.name())
        });
        let comparable = self.comparable();
        let missed = self.target.filter(|_| self.fastest(&comparable).is_none()).map(|target| {
            let name = |series: &&Series<'_>| format!("`{}`", series.name());
            let names: Vec<String> = comparable.iter().map(name).collect();
            format!(
                "no run reached {target} accuracy with all {over}, so these are not compared: {}",
                names.join(", ")
            )
        });
        diverged.chain(missed.filter(|_| comparable.len() > 1)).collect()
    }
}

/// The comparison of two of the runs that make so many `pairs`, all with the same `target`.
fn verdict(
    faster: &Series<'_>,
    slower: &Series<'_>,
    target: Option<f64>,
    pairs: usize,
) -> Option<Speedup> {
    let by = Measure::towards(target);
    let same: Vec<(&Run, &Run)> = faster
        .runs
        .iter()
        .filter_map(|run| {
            let is_same = |other: &&&Run| (other.seed, other.repeat) == (run.seed, run.repeat);
            Some((*run, *slower.runs.iter().find(is_same)?))
        })
        .collect();
    let several_seeds = faster.seeds().max(slower.seeds()) > 1;
    let ratios = |of_slower: fn(Measure, &Run) -> Option<f64>| {
        let ratio = |(run, other): &(&Run, &Run)| {
            Some((run.seed, (by.speed(run)? / of_slower(by, other)?).ln()))
        };
        let ratios: Vec<(u64, f64)> = same.iter().filter_map(ratio).collect();
        independent_values(&ratios, several_seeds)
    };
    let least_ratios = ratios(Measure::greatest_speed_between_looks);
    let ratios = ratios(Measure::greatest_speed);
    let is_sure = is_surely_positive(&ratios, pairs);
    let looks_are_too_far_apart = target.is_some()
        && match is_sure {
            None => least_ratios.iter().any(|ratio| *ratio < 0.0),
            Some(is_sure) => is_sure && is_surely_positive(&least_ratios, pairs) != Some(true),
        };
    let misses = |(_, other): &&(&Run, &Run)| target.is_some() && other.seconds_to_target.is_none();
    let slower_missed = same.iter().filter(misses).count() as u64;
    let mut times = Estimate::of(&ratios)?.map(f64::exp);
    if slower_missed > 0 {
        times.high = None;
    }
    Some(Speedup {
        settings: faster.settings().clone(),
        by,
        target,
        faster: faster.name(),
        slower: slower.name(),
        times,
        slower_missed,
        slower_never_reached: slower_missed == same.len() as u64,
        faults_differ: same.iter().any(|(run, other)| faults_differ(run, other)),
        looks_are_too_far_apart,
        is_sure: if looks_are_too_far_apart { Some(false) } else { is_sure },
    })
}

/// Whether one of two runs met a fault of the scenario that the other did not.
fn faults_differ(one: &Run, other: &Run) -> bool {
    let skipped = |run: &Run| {
        let mut faults: Vec<String> =
            run.skipped_faults.iter().map(|skipped| skipped.fault.clone()).collect();
        faults.sort_unstable();
        faults
    };
    skipped(one) != skipped(other)
}
