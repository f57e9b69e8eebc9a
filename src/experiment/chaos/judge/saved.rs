//! The checkpoints of a run, and what is promised of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::Trial;
use super::{Breaches, Promise, Timeline};
use crate::checkpoint::{CheckpointError, Restored, Retention, Saver, Store};
use crate::models::Model;
use crate::tensor::Tensor;
use crate::training::has_own_values;

/// The variables of each checkpoint, by its step; or the error of one that can't be read.
pub(super) struct Saved(Result<BTreeMap<u64, BTreeMap<String, Tensor>>, CheckpointError>);

impl Saved {
    /// Reads all checkpoints in `store`, without damaged ones where they `may_be_torn`.
    pub(super) fn read(store: Option<Arc<dyn Store>>, may_be_torn: bool) -> Self {
        let Some(store) = store else { return Self(Ok(BTreeMap::new())) };
        let saver = Saver::new(store, Retention::default());
        let read = || {
            let listed = saver.checkpoints()?;
            let restored = listed.iter().map(|listed| saver.restore(listed.global_step));
            let whole = |restored: Restored| (restored.global_step, restored.into_whole());
            let is_read = |restored: &Result<Restored, _>| restored.is_ok() || !may_be_torn;
            restored.filter(is_read).map(|restored| restored.map(whole)).collect()
        };
        Self(read())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_ok_and(BTreeMap::is_empty)
    }

    /// Every checkpoint holds whole steps, unless it may be fuzzy: of the model `count`, as many
    /// updates as its step says.
    pub(super) fn check(&self, trial: &Trial, timeline: &Timeline<'_>, found: &mut Breaches) {
        let saved = match &self.0 {
            Ok(saved) => saved,
            Err(error) => {
                return found.unless(false, Promise::Checkpoints, || error.to_string());
            }
        };
        let needs = trial.mode.needs();
        // A stale gradient may count in part.
        let is_weighted = needs.has_version() && !needs.has_rounds();
        let is_counted = trial.settings.model == Model::Count && !is_weighted;
        if !is_counted || trial.mode.copies().is_some() || !trial.saves_whole_steps() {
            return;
        }
        for (step, variables) in saved {
            let counts: Vec<u64> = variables
                .iter()
                .filter(|(name, _)| name.starts_with("count"))
                .map(|(_, value)| value.item::<f32>().map_or(u64::MAX, |value| value as u64))
                .collect();
            let losses = timeline.worker_losses();
            let all: u64 = losses.iter().sum();
            let (lack, exceed) = match (needs.has_rounds(), needs.has_votes()) {
                // Each time that all workers are lost, some variables may have made their round.
                (true, false) => (0, losses.into_iter().min().unwrap_or(0)),
                // The gradients of lost workers that voted for a round may lack in some variables.
                (true, true) => (all, 0),
                // A lost worker's gradients may have come to some variables and not to others.
                (false, _) => (all, all),
            };
            let is_whole = |count: &u64| (step - lack.min(*step)..=step + exceed).contains(count);
            found.unless(counts.iter().all(is_whole), Promise::Checkpoints, || {
                format!("of step {step}, its variables have had {counts:?} updates")
            });
        }
    }

    /// Whether the checkpoint of step `global_step` has what the worker `worker` alone had learnt
    /// in `count` steps. None if it is of another count.
    pub(super) fn has_own_values(&self, global_step: u64, worker: u32, count: u64) -> Option<bool> {
        has_own_values(self.0.as_ref().ok()?.get(&global_step)?, worker, count)
    }

    /// Each checkpoint is that of the undisturbed run.
    pub(super) fn compare(&self, undisturbed: &Self, found: &mut Breaches) {
        let (Ok(saved), Ok(expected)) = (&self.0, &undisturbed.0) else { return };
        for (step, variables) in saved {
            let Some(expected) = expected.get(step) else { continue };
            let differs =
                variables.iter().find(|(name, value)| expected.get(*name) != Some(*value));
            found.unless(differs.is_none(), Promise::Checkpoints, || {
                let name = differs.map_or("", |(name, _)| name);
                format!("`{name}` of step {step} is not that of the undisturbed run")
            });
        }
    }
}
