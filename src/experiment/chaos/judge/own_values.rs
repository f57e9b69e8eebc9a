//! The own values of workers that began anew: whether that is what a promise leaves out, so that
//! the weights may differ.

use super::super::arena::Attempt;
use super::saved::Saved;
use super::{Breaches, Promise, Timeline};
use crate::training::{Recording, Restore};

/// Whether workers' own values began anew. Each has to be of a worker that the restored checkpoint
/// lacks, or that could not ask the chief for them, or that was started again while the others went
/// on.
pub(super) fn began_anew(
    timeline: &Timeline<'_>,
    attempt: &Attempt,
    saved: &Saved,
    found: &mut Breaches,
) -> bool {
    let workers: Vec<_> = timeline.trial.cluster.spec.workers().collect();
    let Recording { begun_anew, restored, .. } = &attempt.recording;
    for begun in begun_anew {
        let has_died = timeline.ends(&begun.worker);
        let is_lacked = || {
            let index = workers.iter().position(|worker| *worker == begun.worker)?;
            let lacks = |restore: &&Restore| {
                saved.has_own_values(restore.global_step, index as u32, begun.count) == Some(false)
            };
            restored.iter().find(lacks)
        };
        let is_cut_off = || timeline.cuts_off(&begun.worker, workers.first());
        let is_excused =
            if begun.went_back { is_lacked().is_some() || is_cut_off() } else { has_died };
        found.unless(is_excused, Promise::Checkpoints, || {
            let (worker, count) = (&begun.worker, begun.count);
            format!("{worker} began anew after {count} steps, and its checkpoint has what it had")
        });
    }
    !begun_anew.is_empty()
}
