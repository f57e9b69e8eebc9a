//! Files of checkpoints that have no index: those of a save that was cut short, which nothing
//! needs, or of checkpoints whose indexes were taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{Saver, steps};
use crate::checkpoint::names::{self, FileOf, STATE_FILE};
use crate::checkpoint::{CheckpointError, reader, state_file};

impl Saver {
    /// The problem of a store whose `files` have no index at all, though it had checkpoints. None
    /// if it has an index, or no files of checkpoints. Warns of files of which nobody can tell.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(super) fn lost_indexes(
        &self,
        files: &BTreeMap<String, u64>,
    ) -> Result<Option<CheckpointError>, CheckpointError> {
        if steps(files).next().is_some() || without_index(files).is_empty() {
            return Ok(None);
        }
        let file = self.store.locate(STATE_FILE);
        let named = match self.store.read(STATE_FILE) {
            Ok(bytes) => state_file::names(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(CheckpointError::store("read", file)(error)),
        };
        // Once more: the first save may have come to its end meanwhile. Its index is before its
        // name.
        let files = reader::list(&*self.store)?;
        let steps_without = without_index(&files);
        if steps(&files).next().is_some() || steps_without.is_empty() {
            return Ok(None);
        }
        let location = self.store.locate("");
        let lost = steps_without.iter().map(|step| names::checkpoint(*step));
        let lost: Vec<String> = lost.filter(|name| named.contains(name)).collect();
        if lost.is_empty() {
            let list = steps_without.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                "{location} has files of checkpoints, of steps {list}, and no index: they are of \
                 saves that were cut short, or their indexes were taken away; a training that \
                 begins anew here deletes them with its first checkpoint"
            );
            return Ok(None);
        }
        Ok(Some(CheckpointError::IndexesLost { location, named: lost.join(", ") }))
    }
}

/// The steps that have a shard among `files`, and no index.
fn without_index(files: &BTreeMap<String, u64>) -> BTreeSet<u64> {
    let step = |file: &String| match names::parse(file)? {
        FileOf::Shard(step, _) if !files.contains_key(&names::index(step)) => Some(step),
        _ => None,
    };
    files.keys().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use crate::checkpoint::fixture::{save, saver};
    use crate::checkpoint::{Memory, Store};

    fn without_indexes(store: &Memory) {
        let files = store.list().unwrap().into_iter().map(|entry| entry.name);
        files.filter(|file| file.ends_with(".json")).for_each(|file| store.delete(&file).unwrap());
    }

    #[test]
    fn checkpoints_whose_indexes_are_all_gone_are_no_empty_place() {
        let store = Memory::default();
        save(&mut saver(store.clone()), [1, 2]);
        without_indexes(&store);
        let found = saver(store.clone()).latest().unwrap();
        let problem = found.rejected.first().unwrap().to_string();
        let says = "the indexes of model.ckpt-1, model.ckpt-2 in memory are gone";
        assert!(found.checkpoint.is_none() && problem.contains(says), "{problem}");
        save(&mut saver(store.clone()), [3]);
        assert!(saver(store).latest().unwrap().rejected.is_empty(), "others are there");
    }

    #[test]
    fn what_a_first_save_has_left_that_was_cut_short_is_no_lost_checkpoint() {
        let store = Memory::default();
        save(&mut saver(store.clone()), [1]);
        without_indexes(&store);
        store.delete("checkpoint").unwrap(); // as it was before the index
        let found = saver(store.clone()).latest().unwrap();
        assert!(found.checkpoint.is_none() && found.rejected.is_empty(), "{found:?}");
        assert!(saver(Memory::default()).latest().unwrap().rejected.is_empty());
    }
}
