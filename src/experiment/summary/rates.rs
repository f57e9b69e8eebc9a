//! What a training does a second.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cluster::TaskName;
use crate::training::StepStats;
use crate::units::Time;

/// The steps and samples a second of a training, once each worker has ended its first step. In that
/// step tasks make themselves ready; and if workers begin together, all that the others have done
/// when the first of them ends would count as done in no time.
pub(super) struct Rates {
    /// When the first step began.
    pub(super) start: Option<Time>,
    /// Global steps a second.
    pub(super) steps: f64,
    /// Applied gradients a second.
    pub(super) gradients: f64,
}

impl Rates {
    /// The rates of a training whose `steps` took the global step from the first of `updates` to
    /// its end, by `applied` gradients. They are those of the whole training if the first steps are
    /// more than half of it.
    pub(super) fn of(
        steps: impl Iterator<Item = StepStats> + Clone,
        updates: Range<u64>,
        applied: u64,
    ) -> Self {
        let start = steps.clone().map(|step| step.started).min();
        let last = steps.clone().map(|step| step.ended).max();
        let (Some(began), Some(last)) = (start, last) else {
            return Self { start, steps: 0.0, gradients: 0.0 };
        };
        let ready = first_steps_end(steps.clone()).unwrap_or(began);
        let first = steps.filter(|step| step.ended <= ready);
        let first_update = first.clone().map(|step| step.global_step).max();
        let first_gradients = first.filter(|step| step.applied).count() as u64;
        let (since, first_update, first_gradients) = match 2 * first_gradients <= applied {
            true if last > ready => (ready, first_update.unwrap_or(updates.start), first_gradients),
            _ => (began, updates.start, 0),
        };
        let seconds = last.since(since).as_secs_f64();
        let rate = |number: u64| if seconds > 0.0 { number as f64 / seconds } else { 0.0 };
        Self {
            start,
            steps: rate(updates.end - first_update),
            gradients: rate(applied - first_gradients),
        }
    }
}

/// When the last worker has ended the first of its steps.
fn first_steps_end(steps: impl Iterator<Item = StepStats>) -> Option<Time> {
    let mut ends: BTreeMap<TaskName, Time> = BTreeMap::new();
    for StepStats { worker, ended, .. } in steps {
        ends.entry(worker).and_modify(|first| *first = ended.min(*first)).or_insert(ended);
    }
    ends.into_values().max()
}

#[cfg(test)]
mod tests {
    use super::super::tests::step;
    use super::*;

    #[test]
    fn the_first_round_is_left_out_though_its_workers_end_one_by_one() {
        // Rounds of 100 ms, of whose end worker 3 hears 6 ms after worker 0.
        let round = |round: u64| {
            (0..4).map(move |n| step(n, round, round + 1, 100 * (round + 1) + 2 * u64::from(n)))
        };
        let steps: Vec<StepStats> = (0..3).flat_map(round).collect();
        let rates = Rates::of(steps.into_iter(), 0..3, 12);
        assert!((rates.steps - 2.0 / 0.2).abs() < 1e-9, "{}", rates.steps);
        assert!((rates.gradients - 8.0 / 0.2).abs() < 1e-9, "{}", rates.gradients);
    }

    #[test]
    fn asynchronous_workers_that_begin_together_are_as_fast_as_each_of_them_times_their_number() {
        let steps: Vec<StepStats> =
            (0..16).map(|n| step(n as u32 % 4, n / 4, n + 1, 100 * (n / 4 + 1) + n % 4)).collect();
        let rates = Rates::of(steps.into_iter(), 0..16, 16);
        assert!((rates.gradients - 12.0 / 0.3).abs() < 1e-9, "{}", rates.gradients);
        assert_eq!(rates.steps, rates.gradients);
    }

    #[test]
    fn a_training_of_little_more_than_first_steps_has_the_rate_of_all_of_it() {
        let steps = [step(0, 0, 1, 900), step(1, 0, 2, 1_000), step(0, 1, 3, 1_800)];
        let rates = Rates::of(steps.into_iter(), 0..3, 3);
        let since_the_first_began = 1.8 - (0.9 - 0.0009);
        assert!((rates.gradients - 3.0 / since_the_first_began).abs() < 1e-9);
    }
}
