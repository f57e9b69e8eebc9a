//! The rule by which checkpoints are kept.

use std::time::Duration;

/// The rule for the checkpoints that stay (TensorFlow: `max_to_keep` and
/// `keep_checkpoint_every_n_hours`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest checkpoints to keep; none or 0 for all.
    pub max_to_keep: Option<usize>,
    /// Of the older ones, one for each such span of time stays for ever.
    ///
    /// The first of them is the oldest checkpoint there is. TensorFlow counts from the saver's
    /// creation, so that a training that is restarted often keeps none.
    pub keep_every: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_to_keep: Some(5), keep_every: None }
    }
}

impl Retention {
    /// The indices of the checkpoints to delete, given the time of each, oldest first.
    pub(super) fn superfluous(&self, times: &[Duration]) -> Vec<usize> {
        let newest = self.max_to_keep.filter(|max| *max > 0).unwrap_or(times.len());
        let (mut going, mut kept) = (Vec::new(), None);
        for (at, time) in times.iter().enumerate().take(times.len().saturating_sub(newest)) {
            let is_due = |every| kept.is_none_or(|kept| time.saturating_sub(kept) >= every);
            if self.keep_every.is_some_and(is_due) {
                kept = Some(*time);
            } else {
                going.push(at);
            }
        }
        going
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(times: &[u64]) -> Vec<Duration> {
        times.iter().copied().map(Duration::from_secs).collect()
    }

    #[test]
    fn the_newest_stay_and_none_or_0_keeps_all() {
        let superfluous = |max_to_keep| {
            Retention { max_to_keep, keep_every: None }.superfluous(&seconds(&[1, 2, 3]))
        };
        assert_eq!(superfluous(Some(2)), [0]);
        assert_eq!(superfluous(Some(1)), [0, 1]);
        for max_to_keep in [Some(3), Some(9), Some(0), None] {
            assert_eq!(superfluous(max_to_keep), [0; 0]);
        }
        assert_eq!(Retention::default().superfluous(&seconds(&[1, 2, 3, 4, 5, 6])), [0]);
    }

    #[test]
    fn of_the_older_ones_one_stays_for_each_span_of_time() {
        let retention =
            Retention { max_to_keep: Some(1), keep_every: Some(Duration::from_secs(10)) };
        assert_eq!(retention.superfluous(&seconds(&[3, 8, 12, 13, 14, 30, 31])), [1, 2, 4]);
    }

    proptest! {
        #[test]
        fn saving_one_by_one_keeps_what_saving_at_once_would_keep(
            gaps in prop::collection::vec(0u64..9, 1..30),
            max in 1usize..4,
            every in prop::option::of(1u64..20),
        ) {
            let retention =
                Retention { max_to_keep: Some(max), keep_every: every.map(Duration::from_secs) };
            let times: Vec<Duration> = seconds(&gaps)
                .into_iter()
                .scan(Duration::ZERO, |at, gap| {
                    *at += gap;
                    Some(*at)
                })
                .collect();
            let without = |times: &[Duration]| {
                let going = retention.superfluous(times);
                let staying = times.iter().enumerate().filter(|(at, _)| !going.contains(at));
                staying.map(|(_, time)| *time).collect::<Vec<_>>()
            };
            let mut kept = Vec::new();
            for time in &times {
                kept.push(*time);
                kept = without(&kept);
            }
            prop_assert_eq!(kept, without(&times));
        }
    }
}
