//! The search, again and again, for a checkpoint that is newer than the one that is known.

use std::collections::{BTreeMap, BTreeSet};

use super::{Found, Saver};
use crate::checkpoint::{CheckpointError, reader};

/// What the last such search has seen.
pub(super) struct Searched {
    files: BTreeMap<String, u64>,
    /// The save and the step of the newest checkpoint, by the indexes alone.
    newest: Option<(u64, u64)>,
    /// The step of the newest complete one.
    found: Option<u64>,
    /// The problems that it has told.
    told: BTreeSet<String>,
}

impl Saver {
    /// The newest complete checkpoint, and the problems that the last such search did not have.
    /// None if it can only be that of the step `known`: by the indexes, or because the last search
    /// found that one among the same files. So a damaged one is read once.
    ///
    /// # Errors
    /// As [`Saver::latest`].
    pub(crate) fn newer(&mut self, known: Option<u64>) -> Result<Option<Found>, CheckpointError> {
        let files = reader::list(&*self.store)?;
        let newest = self.newest_of(&files)?;
        if newest.map(|(_, step)| step) == known {
            return Ok(None);
        }
        let is_the_same =
            |last: &Searched| last.found == known && last.newest == newest && last.files == files;
        if self.searched.as_ref().is_some_and(is_the_same) {
            return Ok(None);
        }
        let mut found = self.latest()?;
        let told = found.rejected.iter().map(ToString::to_string).collect();
        let step = found.checkpoint.as_ref().map(|checkpoint| checkpoint.global_step);
        if let Some(last) = self.searched.replace(Searched { files, newest, found: step, told }) {
            found.rejected.retain(|problem| !last.told.contains(&problem.to_string()));
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::checkpoint::fixture::{Call, Tampered, save, saver};
    use crate::checkpoint::{Memory, Retention, Store};

    /// Changes a byte of the first shard of the checkpoint of `step`.
    fn damage(store: &Memory, step: u64) {
        let name = format!("model.ckpt-{step}-00000-of-00002.safetensors");
        let mut bytes = store.read(&name).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        store.write(&name, &[&bytes]).unwrap();
    }

    /// The step that `saver` finds, with the number of problems; none if there is nothing new.
    fn look(saver: &mut Saver, known: Option<u64>) -> Option<(Option<u64>, usize)> {
        let found = saver.newer(known).unwrap()?;
        let step = found.checkpoint.map(|checkpoint| checkpoint.global_step);
        Some((step, found.rejected.len()))
    }

    #[test]
    fn a_damaged_checkpoint_is_read_and_told_once_until_there_is_another() {
        let (store, reads) = (Memory::default(), Arc::new(AtomicU32::default()));
        let counted = Arc::clone(&reads);
        let counting = Tampered::new(&store, move |call| {
            if matches!(call, Call::Read(name) if name.ends_with(".safetensors")) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let keeps_all = Retention { max_to_keep: None, keep_every: None };
        let mut writer = Saver::new(Arc::new(store.clone()), keeps_all);
        let mut reader = saver(counting);
        save(&mut writer, [1]);
        assert_eq!(look(&mut reader, None), Some((Some(1), 0)));
        save(&mut writer, [2]);
        damage(&store, 2);
        assert_eq!(look(&mut reader, Some(1)), Some((Some(1), 1)), "it is told");
        let before = reads.load(Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(look(&mut reader, Some(1)), None);
        }
        assert_eq!(reads.load(Ordering::Relaxed), before, "nothing has changed");
        save(&mut writer, [3]);
        damage(&store, 3);
        let (found, problems) = look(&mut reader, Some(1)).unwrap();
        assert_eq!((found, problems), (Some(1), 1), "that of step 2 is told already");
        save(&mut writer, [4]);
        assert_eq!(look(&mut reader, Some(1)), Some((Some(4), 0)));
        assert_eq!(look(&mut reader, Some(4)), None);
    }

    #[test]
    fn a_checkpoint_whose_lost_file_comes_after_all_is_found() {
        let store = Memory::default();
        let mut reader = saver(store.clone());
        save(&mut saver(store.clone()), [1, 2]);
        let lost = "model.ckpt-2-00001-of-00002.safetensors";
        let bytes = store.read(lost).unwrap();
        store.delete(lost).unwrap();
        assert_eq!(look(&mut reader, None), Some((Some(1), 1)));
        assert_eq!(look(&mut reader, Some(1)), None);
        store.write(lost, &[&bytes]).unwrap();
        assert_eq!(look(&mut reader, Some(1)), Some((Some(2), 0)));
    }
}
