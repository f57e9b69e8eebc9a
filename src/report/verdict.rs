//! Verdicts: which of two runs was faster, by how much, and how sure that is.
//!
//! Only runs that differ in nothing but the run are compared, never two points of a sweep, nor runs
//! that train other programs or to another accuracy. With a target accuracy they are compared by
//! their time to it, else by the samples of applied gradients a second: a global step stands for
//! one gradient in one mode, and for many in another. Of several seeds each is compared with the
//! same seed of the other run, so that what both drew alike does not count as difference. Of
//! several runs the fastest is chosen by the numbers that it is then compared by, which is as if
//! each pair were compared, and of many pairs one differs by chance: so what is sure is sure of all
//! of them together (Bonferroni's correction).

use serde::Serialize;

use super::aim::Aim;
use super::estimate::{Estimate, chance_of_no_difference};
use super::series::{Series, series};
use super::{Report, Run, Swept};

/// The greatest chance that runs which do not differ are told apart.
const DOUBT: f64 = 0.05;

/// What two runs are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Measure {
    /// The time to the target accuracy.
    TimeToTarget,
    /// The samples of applied gradients a second.
    SamplesPerSecond,
}

impl Measure {
    /// What runs with this target accuracy, or without one, are compared by.
    fn towards(target: Option<f64>) -> Self {
        target.map_or(Self::SamplesPerSecond, |_| Self::TimeToTarget)
    }
}

/// A comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
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
    /// How many times as fast: the geometric mean over the seeds or launches, and its
    /// interval, which is of this comparison alone.
    pub times: Estimate,
    /// Whether the two differ by more than the seeds or launches do. None of a single run.
    ///
    /// If no two of the runs with these swept values differ, the chance that any pair is told apart
    /// is at most 5 %. So of more than two runs this may be false though the interval is above 1.
    pub is_sure: Option<bool>,
}

impl Measure {
    /// A run's number; a greater one is better. None where the run has none.
    fn speed(self, run: &Run) -> Option<f64> {
        let speed = match self {
            Self::TimeToTarget => 1.0 / run.seconds_to_target?,
            Self::SamplesPerSecond => run.samples_per_second,
        };
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    /// The mean logarithm of a series' speed; none where one of its runs has no speed.
    fn mean_speed(self, series: &Series<'_>) -> Option<f64> {
        let speeds: Option<Vec<f64>> =
            series.runs.iter().map(|run| self.speed(run).map(f64::ln)).collect();
        Some(Estimate::of(&speeds?)?.mean)
    }
}

impl Report {
    /// The fastest run beside each other one with the same swept values and the same aim: by the
    /// time to the target if there is one, else by the samples that they train on a second.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let all = series(self);
        let group = |series: &Series<'_>| (series.settings().clone(), self.aim(series.runs[0]));
        let groups: Vec<_> = all.iter().map(group).collect();
        let mut found = Vec::new();
        for (at, first) in groups.iter().enumerate() {
            if !groups[..at].contains(first) {
                let alike = all.iter().zip(&groups).filter(|(_, group)| *group == first);
                let target = first.1.map_or(self.target, |(_, target)| target);
                found.extend(verdicts(alike.map(|(series, _)| series), target));
            }
        }
        found
    }

    /// The program and the target of `run`, if runs differ in them.
    fn aim(&self, run: &Run) -> Option<(usize, Option<f64>)> {
        // A tuned run has lost its learning rate.
        let has = |aim: &&Aim| {
            run.settings.iter().all(|(key, value)| aim.settings.get(key) == Some(value))
        };
        let aim = self.aims.iter().filter(|aim| aim.run == run.run).find(has)?;
        Some((aim.program, aim.target))
    }

    /// Whether the runs are to reach different accuracies.
    pub(super) fn has_own_targets(&self) -> bool {
        self.aims.iter().any(|aim| aim.target != self.target)
    }

    /// The accuracy that `run` is to reach, by itself.
    pub(super) fn own_target(&self, run: &Run) -> Option<f64> {
        self.aim(run)?.1
    }
}

/// The fastest of the series with one aim beside each other one. Series without a number to be
/// compared by, or that diverged with a seed, are not compared.
fn verdicts<'a>(alike: impl Iterator<Item = &'a Series<'a>>, target: Option<f64>) -> Vec<Verdict> {
    let by = Measure::towards(target);
    let mut comparable: Vec<(f64, &Series<'_>)> = alike
        .filter(|series| !series.has_diverged())
        .filter_map(|series| Some((by.mean_speed(series)?, series)))
        .collect();
    comparable.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(((_, fastest), others)) = comparable.split_first() else { return Vec::new() };
    let pairs = comparable.len() * others.len() / 2;
    let beside = |(_, other): &(f64, &Series<'_>)| verdict(fastest, other, target, pairs);
    others.iter().filter_map(beside).collect()
}

/// The comparison of two of the runs that make so many `pairs`, all with the same `target`.
fn verdict(
    faster: &Series<'_>,
    slower: &Series<'_>,
    target: Option<f64>,
    pairs: usize,
) -> Option<Verdict> {
    let by = Measure::towards(target);
    let of_a_seed = |run: &&Run| {
        let of_run = |other: &&&Run| (other.seed, other.repeat) == (run.seed, run.repeat);
        let other = slower.runs.iter().find(of_run)?;
        Some((by.speed(run)? / by.speed(other)?).ln())
    };
    let ratios: Vec<f64> = faster.runs.iter().filter_map(of_a_seed).collect();
    let times = Estimate::of(&ratios)?.map(f64::exp);
    Some(Verdict {
        settings: faster.settings().clone(),
        by,
        target,
        faster: faster.name(),
        slower: slower.name(),
        times,
        is_sure: chance_of_no_difference(&ratios)
            .map(|chance| times.mean > 1.0 && chance * pairs as f64 <= DOUBT),
    })
}

impl Verdict {
    /// `a reached 0.95 accuracy 1.83 times faster than b`, with the interval if there is one.
    /// The seeds or launches are `over`.
    pub(super) fn render(&self, over: &str) -> String {
        let Self { faster, slower, times, .. } = self;
        let interval = match (times.low, times.high) {
            (Some(low), Some(high)) => {
                format!(" ({low:.2} to {high:.2} with {} {over})", times.values)
            }
            _ => String::new(),
        };
        let times = times.mean;
        let is_as_fast = times < 1.005 && interval.is_empty();
        match (self.by, self.target) {
            _ if self.is_sure == Some(false) => format!(
                "{faster} and {slower} can't be told apart by {}: {times:.2} times{interval}{}",
                match self.by {
                    Measure::TimeToTarget => "their time to the target",
                    Measure::SamplesPerSecond => "the samples that they train on a second",
                },
                match self.times.low {
                    Some(low) if low > 1.0 => "; of so many pairs of runs, chance parts one as far",
                    _ => "",
                }
            ),
            (Measure::TimeToTarget, Some(target)) if is_as_fast => {
                format!("{faster} reached {target} accuracy as fast as {slower}")
            }
            (Measure::TimeToTarget, target) => format!(
                "{faster} reached {} accuracy {times:.2} times faster than {slower}{interval}",
                target.map_or_else(|| "the target".to_owned(), |target| target.to_string())
            ),
            (Measure::SamplesPerSecond, _) if is_as_fast => {
                format!("{faster} trained on as many samples a second as {slower}")
            }
            (Measure::SamplesPerSecond, _) => format!(
                "{faster} trained on {times:.2} times as many samples a second as \
                 {slower}{interval}"
            ),
        }
    }
}
