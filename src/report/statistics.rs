//! Exact summaries: means and percentiles of step times and of staleness.
//!
//! A percentile is the nearest rank: the smallest value that at least that share of all values does
//! not exceed. So it is always one of the values.

use std::collections::BTreeMap;

use serde::Serialize;

/// The durations of worker steps, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepSeconds {
    /// The mean.
    pub mean: f64,
    /// A tenth of the steps took no longer.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// Nine tenths of the steps took no longer.
    pub p90: f64,
    /// All but a hundredth of the steps took no longer.
    pub p99: f64,
}

impl StepSeconds {
    /// The summary of `seconds`, in any order; none if there are none.
    pub fn of(seconds: &[f64]) -> Option<Self> {
        if seconds.is_empty() {
            return None;
        }
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let percentile = |percent| sorted[rank(percent, sorted.len() as u64) as usize - 1];
        Some(Self {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p10: percentile(10),
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
        })
    }
}

/// The staleness of gradients \[global steps\].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Staleness {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// All but a hundredth of the gradients were no staler.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
    /// The number of gradients for each staleness that occurred.
    pub histogram: BTreeMap<u64, u64>,
}

impl Staleness {
    /// The summary of `counts`, the number of gradients for each staleness; none if there is no
    /// gradient.
    pub fn of(counts: &BTreeMap<u64, u64>) -> Option<Self> {
        let histogram: BTreeMap<u64, u64> = counts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(staleness, count)| (*staleness, *count))
            .collect();
        let (max, _) = histogram.last_key_value()?;
        let total: u64 = histogram.values().sum();
        let percentile = |percent| {
            let mut left = rank(percent, total);
            let holds = |count: u64| {
                let found = left <= count;
                left = left.saturating_sub(count);
                found
            };
            histogram
                .values()
                .copied()
                .position(holds)
                .and_then(|position| histogram.keys().nth(position))
                .copied()
        };
        let sum: f64 =
            histogram.iter().map(|(staleness, count)| *staleness as f64 * *count as f64).sum();
        Some(Self {
            mean: sum / total as f64,
            p50: percentile(50)?,
            p99: percentile(99)?,
            max: *max,
            histogram,
        })
    }
}

/// The nearest rank, from 1, of a percentile among `total` values.
fn rank(percent: u64, total: u64) -> u64 {
    (percent * total).div_ceil(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_the_first_hundred_numbers_are_themselves() {
        let seconds: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let expected = StepSeconds { mean: 50.5, p10: 10.0, p50: 50.0, p90: 90.0, p99: 99.0 };
        assert_eq!(StepSeconds::of(&seconds), Some(expected));
    }

    #[test]
    fn of_nothing_there_is_no_summary() {
        assert_eq!(StepSeconds::of(&[]), None);
        assert_eq!(Staleness::of(&BTreeMap::new()), None);
        assert_eq!(Staleness::of(&BTreeMap::from([(3, 0)])), None);
    }

    #[test]
    fn a_staleness_that_did_not_occur_is_not_in_the_histogram() {
        let staleness = Staleness::of(&BTreeMap::from([(0, 2), (5, 0)])).unwrap();
        assert_eq!((staleness.max, staleness.histogram), (0, BTreeMap::from([(0, 2)])));
    }

    proptest! {
        #[test]
        fn counted_and_listed_values_have_the_same_summary(
            values in prop::collection::vec(0_u64..20, 1..300),
        ) {
            let mut counts = BTreeMap::new();
            values.iter().for_each(|value| *counts.entry(*value).or_insert(0) += 1);
            let counted = Staleness::of(&counts).unwrap();
            let listed =
                StepSeconds::of(&values.iter().map(|value| *value as f64).collect::<Vec<_>>())
                    .unwrap();
            let of_counted = (counted.mean, counted.p50 as f64, counted.p99 as f64);
            prop_assert_eq!(of_counted, (listed.mean, listed.p50, listed.p99));
            prop_assert_eq!(Some(&counted.max), values.iter().max());
        }
    }
}
