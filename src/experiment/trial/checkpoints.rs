//! The checkpoints of a trial: in which store each world keeps them, and how many.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::Trial;
use crate::checkpoint::{Memory, Retention, Saver, Store, open_store};
use crate::experiment::disk::Disk;
use crate::runtime::Error;
use crate::scenario::Checkpoint;
use crate::training::Checkpointing;

/// The time limit for listing a disk's files where the training can begin without them.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

impl Trial {
    /// New checkpoints of a simulation: on the simulated disk, in memory and the run's own unless
    /// [`Trial::checkpointing`] says otherwise.
    pub(super) fn simulated_checkpoints(&self) -> Option<Checkpointing> {
        let in_memory = || Arc::new(Memory::default());
        let of_scenario = || Some(self.checkpoint.as_ref()?.in_store(in_memory()));
        let own = self.checkpointing.clone().or_else(of_scenario)?;
        let store: Arc<dyn Store> = Arc::new(Disk::new(own.store));
        Some(Checkpointing { store, ..own })
    }

    /// Whether the scenario names a folder for checkpoints that a simulation does not write, though
    /// nothing in it needs one: an evaluator needs that there is one.
    pub(crate) fn names_an_unused_folder(&self) -> bool {
        let names = |checkpoint: &Checkpoint| checkpoint.directory.is_some();
        self.checkpoint.as_ref().is_some_and(names) && self.cluster.spec.evaluator().is_none()
    }

    /// Whether the run's checkpoints are in its chief's memory, and lost with it.
    pub(super) fn keeps_checkpoints_in_the_chief(&self) -> bool {
        let is_own = |checkpoint: &Checkpoint| checkpoint.directory.is_none();
        self.checkpointing.is_none() && self.checkpoint.as_ref().is_some_and(is_own)
    }

    /// The run's checkpoints in deployment: in a folder of its own below the scenario's.
    ///
    /// # Errors
    /// If the location can't be opened as a store.
    pub(crate) fn deployed_checkpoints(&self) -> Result<Option<Checkpointing>, Error> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(None) };
        let Some(place) = self.checkpoint_place() else {
            return Ok(Some(checkpoint.in_store(Arc::new(Memory::default()))));
        };
        Ok(Some(checkpoint.in_store(open_store(&place)?)))
    }

    /// The folder or URL of its checkpoints in deployment; none if they stay in the chief's memory.
    /// It has the run's name alone: a task that is started by hand knows no sweep.
    pub(crate) fn checkpoint_place(&self) -> Option<String> {
        let directory = self.checkpoint.as_ref()?.directory.as_ref()?;
        Some(format!("{}/{}", directory.trim_end_matches('/'), folder_of(self.run_name())))
    }

    /// The folder of its checkpoints in deployment, if they are in one of this machine's.
    pub(crate) fn checkpoint_folder(&self) -> Option<PathBuf> {
        self.checkpoint_place().filter(|place| !place.contains("://")).map(PathBuf::from)
    }

    /// The step of the newest checkpoint in that folder, which a deployment goes on from.
    pub(crate) fn newest_checkpoint(&self) -> Option<(u64, PathBuf)> {
        let folder = self.checkpoint_folder()?;
        let (sender, newest) = mpsc::channel();
        let looks = move || {
            // What can't be read is told when it is asked for, as is a disk that does not answer.
            let step = newest_in(&folder);
            sender.send(step.map(|step| (step, folder))).is_ok()
        };
        thread::Builder::new().name("checkpoints".to_owned()).spawn(looks).ok()?;
        newest.recv_timeout(ANSWERS_WITHIN).ok()?
    }

    /// Whether it keeps checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.checkpointing.is_some() || self.checkpoint.is_some()
    }

    /// Whether the scenario's checkpoints hold whole steps.
    pub(crate) fn saves_whole_steps(&self) -> bool {
        self.checkpoint.as_ref().is_none_or(|checkpoint| !checkpoint.fuzzy)
    }

    /// Keeps its checkpoints, all of them, in `store`, if it has any.
    pub(crate) fn keep_all_checkpoints(&mut self, store: Arc<dyn Store>) {
        let Some(settings) = &self.checkpoint else { return };
        let settings = settings.in_store(store);
        let retention = Retention { max_to_keep: Some(0), ..settings.retention };
        self.checkpointing = Some(Checkpointing { retention, ..settings });
    }

    /// Keeps its checkpoints, all of them, below `directory` when it is deployed, if it has any.
    pub(crate) fn keep_all_checkpoints_below(&mut self, directory: &Path) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.directory = Some(directory.display().to_string());
            checkpoint.keep = 0;
        }
    }
}

/// The step of the newest checkpoint in `folder`.
fn newest_in(folder: &Path) -> Option<u64> {
    let store = open_store(&folder.display().to_string()).ok().filter(|_| folder.is_dir())?;
    Saver::new(store, Retention::default()).newest().ok()?
}

/// The name of the folder for the files of the run `name`: two runs never share one. A name that is
/// also a folder's everywhere stays as it is; another gets a hash of it besides.
pub(crate) fn folder_of(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let words: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    format!("run-{}-{:016x}", words.trim_matches(['.', '-']), xxh3_64(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_run_has_a_folder_of_its_own_below_that_of_all() {
        let names = ["a-b", "a b", "a/b", "a\\b", "", ".", "..", "../x", "-", "é", "è", ".hidden"];
        let folders: BTreeSet<String> = names.into_iter().map(folder_of).collect();
        assert_eq!(folders.len(), names.len(), "{folders:?}");
        let is_below = |folder: &String| {
            !folder.starts_with('.') && !folder.contains(['/', '\\']) && folder.is_ascii()
        };
        assert!(folders.iter().all(is_below), "{folders:?}");
        assert_eq!(folder_of("sync-1_2.5"), "sync-1_2.5");
    }
}
