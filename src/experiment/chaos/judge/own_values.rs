//! The own values of workers that began anew: whether that is what a promise leaves out, so that
//! the weights may differ.

use super::super::world::Attempt;
use super::saved::Saved;
use super::{Breaches, Promise, Timeline};
use crate::training::BegunAnew;

/// The first global step at which a worker's own values began anew, if one did. Each has to be of a
/// worker that the restored checkpoint lacks, or that was started again while the others went on.
pub(super) fn first_begun_anew(
    timeline: &Timeline<'_>,
    attempt: &Attempt,
    saved: &Saved,
    found: &mut Breaches,
) -> Option<u64> {
    for begun in &attempt.begun_anew {
        let BegunAnew { worker, global_step, .. } = begun;
        let index = timeline.trial.cluster.spec.workers().position(|other| other == *worker);
        let is_lacked =
            index.is_some_and(|index| saved.lacks_own_values(*global_step, index as u32));
        let was_restored = attempt.restored.contains(global_step);
        let has_died = timeline.worker_crashes().any(|dead| dead == worker);
        found.unless(is_lacked || has_died && !was_restored, Promise::Checkpoints, || {
            format!("{worker} began anew at step {global_step}, and its checkpoint has what it had")
        });
    }
    attempt.begun_anew.iter().map(|begun| begun.global_step).min()
}
