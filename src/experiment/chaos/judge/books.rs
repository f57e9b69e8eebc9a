//! Checks the steps that a training has told of: their order, and that no gradient counts twice.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::Trial;
use super::timeline::is_death;
use super::{Breaches, Promise, Timeline};
use crate::cluster::TaskName;
use crate::training::StepStats;

/// Checks the steps of a run, in the order in which they were told. If not all that were undone are
/// said to be, a step of the global step may be there twice.
pub(super) fn check(
    trial: &Trial,
    timeline: &Timeline<'_>,
    steps: &[StepStats],
    is_undone: bool,
    found: &mut Breaches,
) {
    check_order(timeline, steps, found);
    if !is_undone {
        return;
    }
    let applied: Vec<&StepStats> = steps.iter().filter(|step| step.applied).collect();
    let mut rounds: BTreeMap<u64, Vec<&StepStats>> = BTreeMap::new();
    for step in &applied {
        rounds.entry(step.global_step).or_default().push(step);
    }
    let needs = trial.mode.needs();
    if trial.mode.copies().is_some() {
        return; // a step changes the worker's own copy
    }
    if trial.settings.sync_replicas.is_some() {
        // The program makes its own rounds of an asynchronous mode's steps.
    } else if !needs.has_rounds() {
        let twice = rounds.iter().find(|(_, steps)| steps.len() > 1);
        found.unless(twice.is_none(), Promise::Counts, || format!("one update is told {twice:?}"));
    } else if needs.is_barrier() {
        check_rounds(&rounds, found);
    }
}

/// Checks that each worker's steps are in order, and that of the attempts at a step, which have the
/// same number, one is recorded as applied at most.
fn check_order(timeline: &Timeline<'_>, steps: &[StepStats], found: &mut Breaches) {
    let mut last: BTreeMap<&TaskName, (&StepStats, bool)> = BTreeMap::new();
    let has_lives = timeline.has(is_death);
    for step in steps {
        found.unless(step.started <= step.ended, Promise::Order, || format!("{step:?}"));
        let mut has_counted = step.applied;
        if let Some((before, had_counted)) = last.get(&step.worker).copied() {
            let grows = has_lives || before.global_step <= step.global_step;
            let is_next = step.local_step == before.local_step + 1;
            let is_again = step.local_step == before.local_step && !(had_counted && has_counted);
            has_counted |= is_again && had_counted;
            let is_anew = has_lives && step.local_step == 0;
            let follows = before.ended <= step.started && grows && (is_next || is_again || is_anew);
            found.unless(follows, Promise::Order, || format!("after {before:?} comes {step:?}"));
        }
        last.insert(&step.worker, (step, has_counted));
    }
}

/// Checks that each update of a training that has ended is told with as many gradients as the mode
/// says: one that is told as dropped, or in another update, makes its own too small. Where workers
/// go on before their round is made, the last round may be of fewer, and those in no update.
pub(super) fn check_sizes(
    trial: &Trial,
    timeline: &Timeline<'_>,
    steps: &[StepStats],
    found: &mut Breaches,
) {
    let all_are_there = timeline.worker_losses().iter().all(|losses| *losses == 0);
    let settings = &trial.settings;
    let is_programs = settings.sync_replicas.is_some() || settings.all_reduce.is_some();
    if is_programs || timeline.has(is_death) || !all_are_there {
        return;
    }
    let (mode, workers) = (trial.mode, trial.cluster.spec.workers().count() as u32);
    let every = mode.copies().map_or(1, |copies| u64::from(copies.every));
    let size = mode.gradients_of_a_step(workers) / every;
    let exchanged = || steps.iter().filter(|step| step.applied && !step.is_local);
    let told = exchanged().count() as u64;
    let updates = exchanged().map(|step| step.global_step).max().unwrap_or(0);
    let all = size * updates;
    let fits = told - mode.left_over(told, updates) == all && told < all + size;
    found.unless(fits, Promise::Counts, || {
        format!("{updates} updates of {size} gradients are told with {told}")
    });
}

/// A round has one gradient of each worker at most, none of them stale.
fn check_rounds(rounds: &BTreeMap<u64, Vec<&StepStats>>, found: &mut Breaches) {
    for (round, steps) in rounds {
        let workers: BTreeSet<&TaskName> = steps.iter().map(|step| &step.worker).collect();
        found.unless(workers.len() == steps.len(), Promise::Counts, || {
            format!("a worker is in global step {round} twice: {}", listed(steps))
        });
        found.unless(steps.iter().all(|step| step.staleness == 0), Promise::Counts, || {
            format!("a gradient of global step {round} is stale: {}", listed(steps))
        });
    }
}

/// `worker:0 step 3 (staleness 1), …`: the gradients of a global step.
fn listed(steps: &[&StepStats]) -> String {
    let one = |step: &&StepStats| {
        format!("{} step {} (staleness {})", step.worker, step.local_step, step.staleness)
    };
    steps.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Whether the report shows that gradients were left out: of each exchange with the shared
/// variables, a row that was not applied; or of a worker that was taken out, none.
pub(super) fn tells_of_losses(trial: &Trial, steps: &[StepStats]) -> bool {
    let exchanged = steps.iter().filter(|step| step.applied && !step.is_local).count();
    let last = steps.iter().map(|step| step.global_step).max().unwrap_or(0);
    let workers = trial.cluster.spec.workers().count();
    steps.iter().any(|step| !step.applied) || exchanged < last as usize * workers
}
