//! What a saver deletes: superfluous checkpoints, and the shards of saves that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Known, Saver};
use crate::checkpoint::index::ShardEntry;
use crate::checkpoint::names::{self, FileOf, STATE_FILE};
use crate::checkpoint::{CheckpointError, state_file};

impl Saver {
    /// Deletes shards of a save that has failed.
    pub(super) fn delete_shards(&self, shards: &[ShardEntry]) {
        let deleted = shards.iter().map(|shard| self.delete_file(&shard.file));
        if deleted.filter(Result::is_err).count() > 0 {
            tracing::debug!("shards of a save that failed are left; the next save deletes them");
        }
    }

    /// Cleans up after a save: writes the state file, and deletes superfluous checkpoints and those
    /// of `files`, the files before the save, that nothing uses. Returns the errors.
    pub(super) fn clean(&mut self, files: &BTreeMap<String, u64>) -> Vec<CheckpointError> {
        let mut counting: Vec<(u64, &Known)> = self
            .known
            .iter()
            .filter(|(step, _)| !self.broken.contains(step))
            .map(|(step, known)| (*step, known))
            .collect();
        counting.sort_by_key(|(step, known)| (known.save, *step));
        let times: Vec<Duration> = counting.iter().map(|(_, known)| known.time).collect();
        let going: BTreeSet<u64> =
            self.retention.superfluous(&times).into_iter().map(|at| counting[at].0).collect();
        let staying = counting.iter().filter(|(step, _)| !going.contains(step));
        let staying: Vec<String> = staying.map(|(step, _)| names::checkpoint(*step)).collect();
        let mut errors = Vec::new();
        errors
            .extend(self.write_file(STATE_FILE, &[state_file::render(&staying).as_bytes()]).err());
        errors.extend(self.sweep(files)); // while it is known what the superfluous ones consist of
        for step in going {
            match self.delete(step) {
                Ok(()) => drop(self.known.remove(&step)),
                Err(error) => errors.push(error),
            }
        }
        self.is_swept = errors.is_empty();
        errors
    }

    /// Deletes a checkpoint: its index first, so that files which are left are never taken for one.
    fn delete(&self, step: u64) -> Result<(), CheckpointError> {
        self.delete_file(&names::index(step))?;
        self.known[&step].files.iter().try_for_each(|file| self.delete_file(file))
    }

    /// Deletes the shards among `files` that no index names: those of interrupted saves, and of
    /// steps that were saved again.
    fn sweep(&self, files: &BTreeMap<String, u64>) -> Vec<CheckpointError> {
        let is_left_over = |file: &&String| match names::parse(file) {
            Some(FileOf::Shard(step, _)) => match self.known.get(&step) {
                Some(known) => !known.files.contains(file),
                None => !self.is_swept && !files.contains_key(&names::index(step)),
            },
            _ => false,
        };
        let left_over = files.keys().filter(is_left_over);
        left_over.filter_map(|file| self.delete_file(file).err()).collect()
    }

    fn delete_file(&self, name: &str) -> Result<(), CheckpointError> {
        self.store.delete(name).map_err(CheckpointError::store("delete", self.store.locate(name)))
    }
}
