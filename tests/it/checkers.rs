//! Checks what every training has to keep to, from what it told of itself and what its world saw.

use std::collections::BTreeMap;

use trainyard::cluster::TaskName;
use trainyard::sync::Mode;
use trainyard::training::StepStats;

use crate::simulated::{Simulated, Trained};

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
        check_slack(&by_worker, u64::from(slack));
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

/// The global step grows by one an update, and an update is made of as many gradients as the mode says.
fn check_global_steps(training: &Simulated, trained: &Trained) {
    let mut contributions: BTreeMap<u64, usize> = BTreeMap::new();
    for step in trained.steps.iter().filter(|step| step.applied) {
        *contributions.entry(step.global_step).or_default() += 1;
    }
    let wanted = match training.mode() {
        Mode::Async | Mode::BoundedStaleness { .. } => 1,
        Mode::Sync { backups } => training.workers() - backups as usize,
    };
    for (expected, (step, count)) in (1..).zip(&contributions) {
        assert_eq!(*step, expected, "no global step is left out");
        assert_eq!(*count, wanted, "gradients of global step {step}");
    }
    let dropped = trained.steps.iter().filter(|step| !step.applied).count();
    match training.mode() {
        Mode::Sync { backups } => {
            assert!(
                trained.steps.iter().all(|step| !step.applied || step.staleness == 0),
                "no synchronous one is stale"
            );
            assert!(backups > 0 || dropped == 0, "only backups are dropped");
        }
        Mode::Async | Mode::BoundedStaleness { .. } => assert_eq!(dropped, 0, "none is dropped"),
    }
}

/// Every task sent something, and the run did not end before its last step.
fn check_bytes(trained: &Trained) {
    for (task, bytes) in &trained.outcome.bytes_sent {
        assert!(*bytes > 0, "{task} sent nothing");
    }
    assert!(trained.steps.iter().all(|step| step.ended <= trained.outcome.ended));
}

/// When a step starts its worker is at most `slack` steps ahead of the slowest, plus one that the slowest
/// has committed but not told of.
fn check_slack(by_worker: &BTreeMap<&TaskName, Vec<&StepStats>>, slack: u64) {
    for step in by_worker.values().flatten() {
        let done = |steps: &Vec<&StepStats>| steps.partition_point(|other| other.ended <= step.started) as u64;
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
        damaged(Mode::Sync { backups: 0 }, |steps| {
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
