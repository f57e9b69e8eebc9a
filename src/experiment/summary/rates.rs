//! What a training does a second.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cluster::TaskName;
use crate::training::StepStats;
use crate::units::Time;

/// The steps and samples a second of a training: the sum of what each worker does a second, from
/// the end of its first step to the end of its last that was applied. In its first step a task
/// makes itself ready. A worker that ends its last step earlier or later than others is no slower
/// for it: where workers don't wait for each other, each ends one more step once the training is
/// over.
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
    /// its end, by `applied` gradients.
    pub(super) fn of(
        steps: impl Iterator<Item = StepStats> + Clone,
        updates: Range<u64>,
        applied: u64,
    ) -> Self {
        let start = steps.clone().map(|step| step.started).min();
        let end = end_of_training(steps.clone(), updates.end, applied);
        let (Some(first), Some(last)) = (steps.clone().min_by_key(|step| step.ended), end) else {
            return Self { start, end, steps: 0.0, gradients: 0.0 };
        };
        let gradients = gradients_a_second(steps.clone());
        // The record of a task alone may begin with any global step.
        let is_between = updates.start < first.global_step && first.global_step < updates.end;
        let (known_from, before) = match first.global_step {
            known_from if is_between => {
                let earlier = steps.filter(|step| step.applied && step.global_step <= known_from);
                (known_from, earlier.count() as u64)
            }
            _ => (updates.start, 0),
        };
        let updates = (updates.end - known_from) as f64;
        let steps = match applied.saturating_sub(before) {
            applied if applied > 0 && gradients > 0.0 => gradients * updates / applied as f64,
            _ => a_second(updates, first.ended, last),
        };
        Self { start, end, steps, gradients }
    }
}

/// The steps of one worker.
struct Own {
    /// When its first step began, when that ended, and whether its gradient was applied.
    first: (Time, Time, bool),
    /// When the last step ended of those whose gradients were applied.
    last: Time,
    /// The number of its steps.
    count: u64,
    /// The number of its applied gradients.
    applied: u64,
}

impl Own {
    fn add(&mut self, StepStats { started, ended, applied, .. }: &StepStats) {
        if *ended < self.first.1 {
            self.first = (*started, *ended, *applied);
        }
        self.count += 1;
        if *applied {
            self.applied += 1;
            self.last = self.last.max(*ended);
        }
    }

    /// Its applied gradients a second. Of a worker that is no longer there when the `last_begun`
    /// of all steps begins, they are those until then.
    fn gradients_a_second(&self, last_begun: Time) -> f64 {
        let until = self.last.max(last_begun);
        let (began, ended, is_applied) = self.first;
        match self.count {
            1 => a_second(f64::from(u8::from(is_applied)), began, until),
            _ => a_second((self.applied - u64::from(is_applied)) as f64, ended, until),
        }
    }
}

/// The sum of the applied gradients a second of each worker.
fn gradients_a_second(steps: impl Iterator<Item = StepStats>) -> f64 {
    let mut workers: BTreeMap<TaskName, Own> = BTreeMap::new();
    let mut last_begun = Time::default();
    for step in steps {
        if step.applied {
            last_begun = last_begun.max(step.started);
        }
        let first = (step.started, step.ended, step.applied);
        let none = Own { first, last: Time::default(), count: 0, applied: 0 };
        workers.entry(step.worker.clone()).or_insert(none).add(&step);
    }
    workers.values().map(|own| own.gradients_a_second(last_begun)).sum()
}

/// The `number` by the seconds from `since` to `until`; 0 if there are none.
fn a_second(number: f64, since: Time, until: Time) -> f64 {
    if until > since { number / until.since(since).as_secs_f64() } else { 0.0 }
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

#[cfg(test)]
mod tests {
    use super::super::tests::step;
    use super::*;

    /// An asynchronous worker's step from `started` to `ended`, in seconds.
    fn at(worker: u32, local_step: u64, started: f64, ended: f64) -> StepStats {
        let [started, ended] = [started, ended].map(|at| Time((at.max(0.0) * 1e9) as u64));
        StepStats::applied(worker, (local_step, 0), (started, ended))
    }

    /// A step that ended after so many ms, and took 100.
    fn of_100_ms(worker: u32, local_step: u64, global_step: u64, ended: u64) -> StepStats {
        let started = Time((ended - 100) * 1_000_000);
        StepStats { started, ..step(worker, local_step, global_step, ended) }
    }

    #[test]
    fn the_first_round_is_left_out_though_its_workers_end_one_by_one() {
        // Rounds of 100 ms, of whose end worker 3 hears 6 ms after worker 0.
        let round = |round: u64| {
            (0..4)
                .map(move |n| of_100_ms(n, round, round + 1, 100 * (round + 1) + 2 * u64::from(n)))
        };
        let steps: Vec<StepStats> = (0..3).flat_map(round).collect();
        let rates = Rates::of(steps.into_iter(), 0..3, 12);
        assert!((rates.steps - 2.0 / 0.2).abs() < 1e-9, "{}", rates.steps);
        assert!((rates.gradients - 8.0 / 0.2).abs() < 1e-9, "{}", rates.gradients);
    }

    #[test]
    fn asynchronous_workers_that_begin_together_are_as_fast_as_each_of_them_times_their_number() {
        let steps: Vec<StepStats> = (0..16)
            .map(|n| of_100_ms(n as u32 % 4, n / 4, n + 1, 100 * (n / 4 + 1) + n % 4))
            .collect();
        let rates = Rates::of(steps.into_iter(), 0..16, 16);
        assert!((rates.gradients - 12.0 / 0.3).abs() < 1e-9, "{}", rates.gradients);
        assert_eq!(rates.steps, rates.gradients);
    }

    #[test]
    fn what_workers_do_after_the_last_applied_gradient_is_not_in_the_rates() {
        let steps =
            (0..16).map(|n| of_100_ms(n as u32 % 4, n / 4, n + 1, 100 * (n / 4 + 1) + n % 4));
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
        assert!((rates.steps - 90.0 / 0.9).abs() < 1e-6, "{}", rates.steps);
    }

    #[test]
    fn a_training_without_applied_gradients_ends_with_its_last_step() {
        let steps = (1..4).map(|n| StepStats { applied: false, ..step(0, n, 0, 100 * n) });
        assert_eq!(Rates::of(steps, 0..0, 0).end, Some(Time(300_000_000)));
    }

    #[test]
    fn a_worker_that_ends_its_last_step_long_after_the_others_does_not_lower_the_rates() {
        // The stop comes at 1 s; worker 1, ten times as slow, is in the middle of its second step.
        let fast = (1..=10).map(|n| at(0, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64));
        let slow = (0..2).map(|n| at(1, n, 0.5 + n as f64 - 1.0, 0.5 + n as f64));
        let rates = Rates::of(fast.chain(slow), 0..12, 12);
        assert!((rates.gradients - 11.0).abs() < 1e-6, "{}", rates.gradients);
        assert!((rates.steps - 11.0).abs() < 1e-6, "{}", rates.steps);
    }

    #[test]
    fn a_worker_that_was_lost_counts_by_what_it_did_until_the_last_step_of_all_began() {
        let there = (1..=20).map(|n| at(0, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64));
        let lost = (1..=5).map(|n| at(1, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64));
        let rates = Rates::of(there.chain(lost), 0..25, 25);
        let expected = 10.0 + 4.0 / (1.9 - 0.1);
        assert!((rates.gradients - expected).abs() < 1e-6, "{}", rates.gradients);
    }

    #[test]
    fn the_only_step_of_a_worker_counts_whole() {
        let fast = (1..=10).map(|n| at(0, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64));
        let rates = Rates::of(fast.chain([at(1, 1, 0.0, 2.0)]), 0..11, 11);
        assert!((rates.gradients - (10.0 + 0.5)).abs() < 1e-6, "{}", rates.gradients);
        let alone = Rates::of([at(0, 1, 0.0, 2.0)].into_iter(), 0..1, 1);
        assert_eq!((alone.gradients, alone.steps), (0.5, 0.5));
    }

    #[test]
    fn a_gradient_that_was_dropped_is_in_no_rate() {
        let kept = (1..=10).map(|n| at(0, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64));
        let dropped = (1..=9).map(|n| StepStats {
            applied: false,
            ..at(1, n, 0.1 * n as f64 - 0.1, 0.1 * n as f64)
        });
        let rates = Rates::of(kept.chain(dropped), 0..10, 10);
        assert!((rates.gradients - 10.0).abs() < 1e-6, "{}", rates.gradients);
    }

    #[test]
    fn the_record_of_one_task_has_the_rate_of_the_global_steps_of_all() {
        // It came when the others had taken the global step to 500.
        let own = (1..=10).map(|n| step(0, n, 500 + 4 * n, 100 * n));
        let rates = Rates::of(own, 0..540, 10);
        assert!((rates.gradients - 10.0).abs() < 1e-6, "{}", rates.gradients);
        assert!((rates.steps - 40.0).abs() < 1e-6, "{}", rates.steps);
    }
}
