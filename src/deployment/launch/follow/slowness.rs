//! The factor by which faults slow a process: factors of overlapping faults multiply, as in a
//! simulation.

use std::time::Duration;

use crate::deployment::launch::faults::PERIOD;

/// The factors by which a process is slower, each with the time for which it still is.
#[derive(Default)]
pub(super) struct Slowness {
    factors: Vec<(f64, Duration)>,
    /// Whether a period is under way, after which the next one begins.
    is_under_way: bool,
}

impl Slowness {
    /// Adds `factor` for a time that `lasts`, from the next period on. Returns whether that is to
    /// begin now.
    pub(super) fn add(&mut self, factor: f64, lasts: Duration) -> bool {
        self.factors.push((factor, lasts));
        !self.is_under_way
    }

    /// Begins a period; returns how long the process stands still in it. None if nothing makes it
    /// slower any more.
    pub(super) fn begin_period(&mut self) -> Option<Duration> {
        let longest = self.factors.iter().map(|(_, left)| *left).max();
        self.is_under_way = longest.is_some();
        let product: f64 = self.factors.iter().map(|(factor, _)| factor).product();
        let still = PERIOD.mul_f64(1.0 - 1.0 / product).min(longest?);
        for (_, left) in &mut self.factors {
            *left = left.saturating_sub(PERIOD);
        }
        self.factors.retain(|(_, left)| !left.is_zero());
        Some(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_process_that_is_slower_by_a_factor_runs_for_that_part_of_each_period() {
        let mut slowness = Slowness::default();
        assert!(slowness.add(5.0, millis(230)));
        let periods: Vec<_> = std::iter::from_fn(|| slowness.begin_period()).collect();
        assert_eq!(periods, [millis(80), millis(80), millis(30)], "the last is cut short");
        assert!(slowness.add(2.0, millis(100)), "it is over");
    }

    #[test]
    fn the_factors_of_faults_that_overlap_multiply_in_one_stop_a_period() {
        let mut slowness = Slowness::default();
        assert!(slowness.add(2.0, millis(300)));
        assert_eq!(slowness.begin_period(), Some(millis(50)));
        assert!(!slowness.add(5.0, millis(100)), "the period is under way");
        assert_eq!(slowness.begin_period(), Some(millis(90)));
        assert_eq!(slowness.begin_period(), Some(millis(50)));
        assert!(!slowness.add(5.0, millis(100)), "the last period is not over yet");
        assert_eq!(slowness.begin_period(), Some(millis(80)));
        assert_eq!(slowness.begin_period(), None);
    }
}
