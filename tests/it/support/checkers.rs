//! Checks what every training has to keep to, from what it told of itself and what its world saw.

use std::collections::BTreeMap;

use trainyard::cluster::TaskName;
use trainyard::sync::Mode;
use trainyard::training::StepStats;

use crate::support::simulated::{Simulated, Trained};

/// Asserts everything that holds for any training that ended because of its number of steps.
pub(crate) fn check(training: &Simulated, trained: &Trained) {
    let by_worker = by_worker(&trained.steps);
    assert_eq!(by_worker.len(), training.workers(), "every worker took steps");
    for (worker, steps) in &by_worker {
        check_order(worker, steps);
    }
    check_global_steps(training, trained);
    check_bytes(trained);
    if let Mode::BoundedStaleness { slack } = training.mode() {
        check_slack(trained, slack.into());
    }
}

/// Steps by worker, in the order in which they were told.
fn by_worker(steps: &[StepStats]) -> BTreeMap<&TaskName, Vec<&StepStats>> {
    let mut by_worker: BTreeMap<&TaskName, Vec<&StepStats>> = BTreeMap::new();
    for step in steps {
        by_worker.entry(&step.worker).or_default().push(step);
    }
    by_worker
}

/// A worker takes one step after the other, and no gradient counts twice.
fn check_order(worker: &TaskName, steps: &[&StepStats]) {
    for (expected, step) in (0..).zip(steps) {
        assert_eq!(step.local_step, expected, "{worker} takes its steps once each, in order");
        let (from, until) = step.computed.expect("a training step computes");
        assert!(step.started <= from && from <= until && until <= step.ended, "{step:?}");
    }
    for pair in steps.windows(2) {
        assert!(pair[0].ended <= pair[1].started, "{worker} takes one step at a time");
        assert!(pair[0].global_step <= pair[1].global_step, "the global step only grows");
    }
}

/// The global step grows by one an update, and an update is made of as many gradients as the mode
/// says.
fn check_global_steps(training: &Simulated, trained: &Trained) {
    let applied = trained.steps.iter().filter(|step| step.applied);
    let mut contributions: BTreeMap<u64, usize> = BTreeMap::new();
    for step in applied.clone() {
        *contributions.entry(step.global_step).or_default() += 1;
    }
    let each_of = |wanted: usize| {
        for (expected, (step, count)) in (1..).zip(&contributions) {
            assert_eq!(*step, expected, "no global step is left out");
            assert_eq!(*count, wanted, "the gradients of global step {step}");
        }
    };
    let none_is_stale =
        || assert!(applied.clone().all(|step| step.staleness == 0), "no synchronous one is stale");
    let dropped = trained.steps.len() - applied.clone().count();
    match training.mode() {
        Mode::Async
        | Mode::BoundedStaleness { .. }
        | Mode::StalenessAware
        | Mode::DelayCompensated { .. } => {
            each_of(1);
        }
        Mode::Sync { backups, .. } => {
            each_of(training.workers() - backups as usize);
            none_is_stale();
            assert!(backups > 0 || dropped == 0, "only backups are dropped");
        }
        Mode::KAsync { k } => each_of(k as usize),
        Mode::KBatchSync { k, .. } => {
            check_batches(training, trained, k);
            none_is_stale();
        }
        Mode::KBatchAsync { k } => check_batches(training, trained, k),
        other => panic!("no law of {other} is checked here"),
    }
    match training.mode() {
        Mode::Sync { .. } | Mode::KBatchSync { .. } => {}
        // At the end: the last votes of those who learn of it.
        Mode::KAsync { .. } => assert!(dropped <= training.workers(), "{dropped} dropped"),
        _ => assert_eq!(dropped, 0, "none is dropped"),
    }
}

/// An update is made of `k` gradients; a step that ends before its update was told of the one
/// before.
fn check_batches(training: &Simulated, trained: &Trained, k: u32) {
    let (k, workers) = (u64::from(k), training.workers() as u64);
    let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
    let updates = trained.steps.iter().map(|step| step.global_step).max().unwrap_or(0);
    assert!(
        applied.abs_diff(k * updates) <= k + workers,
        "{applied} gradients, {updates} updates of {k}"
    );
}

/// Every task sent something, and the run did not end before its last step.
fn check_bytes(trained: &Trained) {
    for (task, sent) in &trained.outcome.sent {
        assert!(sent.total > sent.steps && sent.steps > 0, "{task} sent {sent:?}");
    }
    assert!(trained.steps.iter().all(|step| step.ended <= trained.outcome.ended));
}

/// When a step starts its worker is at most `slack` steps ahead of the slowest, plus one that the
/// slowest has committed but not told of.
pub(crate) fn check_slack(trained: &Trained, slack: u64) {
    let by_worker = by_worker(&trained.steps);
    for step in by_worker.values().flatten() {
        let done = |steps: &Vec<&StepStats>| {
            steps.partition_point(|other| other.ended <= step.started) as u64
        };
        let slowest = by_worker.values().map(done).min().expect("there are workers");
        assert!(step.local_step <= slowest + slack + 1, "{step:?} is too far ahead of {slowest}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(mode: Mode, damage: impl FnOnce(&mut Vec<StepStats>)) {
        let training = Simulated::new(1, 3, mode).digits().steps(20);
        let mut trained = training.run();
        check(&training, &trained);
        damage(&mut trained.steps);
        check(&training, &trained);
    }

    #[test]
    #[should_panic(expected = "once each")]
    fn a_gradient_that_counts_twice_is_found() {
        damaged(Mode::Async, |steps| {
            let twice = steps[4].clone();
            steps.push(twice);
        });
    }

    #[test]
    #[should_panic(expected = "gradients of global step")]
    fn a_barrier_passed_with_a_missing_worker_is_found() {
        damaged(Mode::Sync { backups: 0, cancel: false }, |steps| {
            let last = steps.last_mut().unwrap();
            last.applied = false;
        });
    }

    #[test]
    #[should_panic(expected = "too far ahead")]
    fn a_worker_that_runs_away_is_found() {
        damaged(Mode::BoundedStaleness { slack: 0 }, |steps| {
            let worker = steps[0].worker.clone();
            let began = steps[0].started;
            for step in steps.iter_mut().filter(|step| step.worker == worker) {
                (step.started, step.computed, step.ended) = (began, Some((began, began)), began);
            }
        });
    }
}
