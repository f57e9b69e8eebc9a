//! A verdict as text.

use super::{Measure, Speedup};
use crate::report::estimate::Estimate;

impl Speedup {
    /// `a reached 0.95 accuracy 1.83 times faster than b`, with the interval if there is one.
    /// What the interval is over, seeds or launches, is `over`.
    pub(in crate::report) fn render(&self, over: &str) -> String {
        let Self { faster, slower, times, .. } = self;
        let least = if self.slower_missed > 0 { "at least " } else { "" };
        let interval = self.interval(over);
        let times = format!("{least}{:.2} times", times.mean);
        let target = || {
            let accuracy = self.target.map(|target| target.to_string());
            accuracy.unwrap_or_else(|| "the target".to_owned())
        };
        let verdict = match self.by {
            Measure::TimeToTarget if self.is_as_fast() => {
                format!("{faster} reached {} accuracy as fast as {slower}{interval}", target())
            }
            Measure::SamplesPerSecond if self.is_as_fast() => {
                format!("{faster} trained on as many samples a second as {slower}{interval}")
            }
            _ if self.is_sure == Some(false) && self.slower_never_reached => format!(
                "{slower} never reached {} accuracy, and ended too early for a comparison of times \
                 with {faster}",
                target()
            ),
            by if self.is_sure == Some(false) => {
                let measure = match by {
                    Measure::TimeToTarget => "their time to the target",
                    Measure::SamplesPerSecond => "the samples that they train on a second",
                };
                let why = self.doubt();
                format!(
                    "{faster} and {slower} can't be told apart by {measure}: {times}{interval}{why}"
                )
            }
            Measure::TimeToTarget => {
                let target = target();
                format!("{faster} reached {target} accuracy {times} faster than {slower}{interval}")
            }
            Measure::SamplesPerSecond => format!(
                "{faster} trained on {times} as many samples a second as {slower}{interval}"
            ),
        };
        let faults = if self.faults_differ { "; not every fault happened in both" } else { "" };
        verdict + faults
    }

    /// ` (1.86 to 3.04 with 10 seeds)`, if there are several.
    fn interval(&self, over: &str) -> String {
        let Estimate { low, high, values, .. } = self.times;
        match (low, high) {
            (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2} with {values} {over})"),
            (Some(low), None) => format!(" ({low:.2} or more with {values} {over})"),
            _ => String::new(),
        }
    }

    /// Whether the runs differ by less than is shown, the whole interval included.
    fn is_as_fast(&self) -> bool {
        let Estimate { mean, low, high, .. } = self.times;
        let is_shown_as_1 = |times: f64| (0.995..1.005).contains(&times);
        let all_are = [Some(mean), low, high].into_iter().flatten().all(is_shown_as_1);
        all_are && self.slower_missed == 0 && !self.looks_are_too_far_apart
    }

    /// Why runs can't be told apart, where the interval does not say it.
    fn doubt(&self) -> &'static str {
        match self.times {
            _ if self.looks_are_too_far_apart => "; the looks at the test split are too far apart",
            Estimate { low: Some(low), .. } if low > 1.0 => {
                "; of so many pairs of runs, chance parts one as far"
            }
            _ => "",
        }
    }
}
