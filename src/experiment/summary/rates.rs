//! What a training does a second.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cluster::TaskName;
use crate::training::StepStats;
use crate::units::Time;

/// The steps and samples a second of a training, once each worker has ended its first step. In that
/// step tasks make themselves ready; and if workers begin together, all that the others have done
/// when the first of them ends would count as done in no time. They end with the training: what
/// workers do before they hear of its end is part of none.
pub(super) struct Rates {
    /// When the first step began.
    pub(super) start: Option<Time>,
    /// When the last gradient was applied or, if none was, the last step ended.
    pub(super) end: Option<Time>,
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
        let end = end_of_training(steps.clone(), updates.end, applied);
        let (Some(began), Some(last)) = (start, end) else {
            return Self { start, end, steps: 0.0, gradients: 0.0 };
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
            end,
            steps: rate(updates.end - first_update),
            gradients: rate(applied - first_gradients),
        }
    }
}

/// When the last of `gradients` was applied by `steps` that took the global step to `global_step`;
/// if none was, when the last of them ended. Later ones are of a round that the end left
/// unfinished.
fn end_of_training(
    steps: impl Iterator<Item = StepStats> + Clone,
    global_step: u64,
    gradients: u64,
) -> Option<Time> {
    let applied = steps.clone().filter(|step| step.applied);
    let mut ends: Vec<Time> = applied.map(|step| step.ended).collect();
    let Some(last) = ends.len().min(gradients as usize).checked_sub(1) else {
        return steps.map(|step| step.ended).max();
    };
    let (_, last, _) = ends.select_nth_unstable(last);
    // One task's own record may have the last update only in a step whose gradient was dropped.
    let reached = steps.filter(|step| step.global_step >= global_step).map(|step| step.ended).min();
    Some(reached.map_or(*last, |reached| reached.max(*last)))
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
    fn what_workers_do_after_the_last_applied_gradient_is_not_in_the_rates() {
        let steps = (0..16).map(|n| step(n as u32 % 4, n / 4, n + 1, 100 * (n / 4 + 1) + n % 4));
        let late = |n: u64| StepStats { applied: false, ..step(n as u32 % 3, n, 16, 500 + n) };
        let steps: Vec<StepStats> = steps.chain((0..12).map(late)).collect();
        let rates = Rates::of(steps.into_iter(), 0..16, 16);
        assert!((rates.gradients - 12.0 / 0.3).abs() < 1e-9, "{}", rates.gradients);
        assert_eq!((rates.steps, rates.end), (rates.gradients, Some(Time(403_000_000))));
    }

    #[test]
    fn gradients_of_a_round_that_the_end_left_unfinished_do_not_make_the_training_longer() {
        let steps = (0..10).map(|n| step(0, n, (n + 1) / 4, 100 * (n + 1)));
        assert_eq!(Rates::of(steps, 0..2, 8).end, Some(Time(800_000_000)));
    }

    #[test]
    fn a_worker_whose_gradients_are_dropped_knows_the_rate_of_the_global_steps_nevertheless() {
        let dropped = |n: u64| StepStats { applied: n < 2, ..step(0, n, 10 * (n + 1), 100 * n) };
        let rates = Rates::of((1..=10).map(dropped), 0..110, 1);
        assert_eq!(rates.end, Some(Time(1_000_000_000)));
    }

    #[test]
    fn a_training_without_applied_gradients_ends_with_its_last_step() {
        let steps = (1..4).map(|n| StepStats { applied: false, ..step(0, n, 0, 100 * n) });
        assert_eq!(Rates::of(steps, 0..0, 0).end, Some(Time(300_000_000)));
    }

    #[test]
    fn a_training_of_little_more_than_first_steps_has_the_rate_of_all_of_it() {
        let steps = [step(0, 0, 1, 900), step(1, 0, 2, 1_000), step(0, 1, 3, 1_800)];
        let rates = Rates::of(steps.into_iter(), 0..3, 3);
        let since_the_first_began = 1.8 - (0.9 - 0.0009);
        assert!((rates.gradients - 3.0 / since_the_first_began).abs() < 1e-9);
    }
}
