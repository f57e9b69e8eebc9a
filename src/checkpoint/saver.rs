//! The saver: writes checkpoints and finds the newest complete one.

mod cleaning;
mod newer;
mod repair;
mod results;
#[cfg(test)]
mod tests;
mod unindexed;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::index::Index;
use super::names::{self, FileOf};
use super::reader::{self, Reader};
use super::shard_file::Encoded;
use super::snapshot::{Snapshot, encode};
use super::store::Store;
use super::{CheckpointError, Restored, Retention, SavingTask};

use newer::Searched;
pub use results::{Found, Listed, Saved};
use writer::Writer;

/// Writes and finds the checkpoints of one training (TensorFlow: `tf.train.Saver`).
///
/// A store may have one saver that writes at a time, and any number that read. One that has taken
/// over ([`Saver::take_over`]) shuts out those before it.
pub struct Saver {
    store: Arc<dyn Store>,
    retention: Retention,
    /// The checkpoints whose index could be read.
    known: BTreeMap<u64, Known>,
    /// The steps of damaged checkpoints: they don't count for the retention, and are kept so that
    /// somebody can inspect them.
    broken: BTreeSet<u64>,
    /// Whether the half-written files of earlier savers were deleted.
    is_swept: bool,
    /// The index of this saver's last save.
    last: Option<Index>,
    writer: Writer,
    /// What the last search for a newer checkpoint has seen.
    searched: Option<Searched>,
}

shown!(Saver, retention);

/// The saver's record of a checkpoint.
struct Known {
    save: u64,
    time: Duration,
    files: Vec<String>,
}

impl Saver {
    /// A saver of `model.ckpt-<step>` files in `store`.
    pub fn new(store: Arc<dyn Store>, retention: Retention) -> Self {
        let (known, broken) = (BTreeMap::new(), BTreeSet::new());
        let (last, writer, searched) = (None, Writer::default(), None);
        Self { store, retention, known, broken, is_swept: false, last, writer, searched }
    }

    /// Takes over the checkpoints: a saver that had done so before saves and deletes nothing more.
    /// The chief of a training does, since its earlier incarnation may only be cut off.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn take_over(&mut self) -> Result<(), CheckpointError> {
        self.writer.take_over(&*self.store, None)
    }

    /// As [`Saver::take_over`], and says in the store that `task` saves there.
    ///
    /// # Errors
    /// If the task before is of another training, has not said that this is over, and its process
    /// runs on this machine. If the store refuses.
    pub fn take_over_as(&mut self, task: &SavingTask) -> Result<(), CheckpointError> {
        self.writer.take_over(&*self.store, Some(task))
    }

    /// Notes that the training has come to its end, by the conditions `stop`, so that its last
    /// checkpoint needs no other. Whoever takes over next removes the note.
    ///
    /// # Errors
    /// If another saver has taken over, or the store refuses.
    pub fn end(&self, stop: &str) -> Result<(), CheckpointError> {
        self.repair(&reader::list(&*self.store)?)?;
        self.writer.end(&*self.store, stop)
    }

    /// The conditions by which the training of these checkpoints has come to its end, if it has.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn ended(&self) -> Result<Option<String>, CheckpointError> {
        writer::ended(&*self.store)
    }

    /// Saves `snapshot`. `at` is the time since the epoch or, in a simulation, since its beginning.
    ///
    /// If the last save was of the same step and can be read, it stays and nothing is written: what
    /// has changed since then is no whole step.
    ///
    /// When this returns, the checkpoint is complete and survives any crash. Then the superfluous
    /// checkpoints are deleted.
    ///
    /// # Errors
    /// If the snapshot can't be saved, or the store refuses: the earlier checkpoints are then
    /// unchanged.
    pub fn save(&mut self, snapshot: &Snapshot, at: Duration) -> Result<Saved, CheckpointError> {
        let (contents, encoded) = encode(snapshot)?;
        self.writer.check(&*self.store)?;
        let files = reader::list(&*self.store)?;
        self.repair(&files)?;
        self.learn(&files)?;
        let step = snapshot.global_step;
        if let Some(bytes) = self.has_saved(step, &files) {
            let name = names::checkpoint(step);
            return Ok(Saved { name, bytes, is_new: false, unfinished: Vec::new() });
        }
        let save = self.next_save();
        let index = Index::new((step, self.edition(step, &files)), save, at, contents);
        if let Err(error) = self.write(&index, &encoded) {
            self.is_swept = false;
            return Err(error);
        }
        self.broken.remove(&step);
        self.known.insert(step, Known::of(&index));
        self.writer.check(&*self.store)?;
        let (name, bytes) = (names::checkpoint(step), index.bytes());
        self.last = Some(index);
        Ok(Saved { name, bytes, is_new: true, unfinished: self.clean(&files) })
    }

    /// The newest complete checkpoint, and the problems of newer ones.
    ///
    /// # Errors
    /// If the store can't be listed, or fails to read a file that is there: what the file holds is
    /// not known, and an older checkpoint would undo steps that it may hold.
    pub fn latest(&mut self) -> Result<Found, CheckpointError> {
        let files = reader::list(&*self.store)?;
        let reader = Reader { store: &*self.store, files: &files };
        let (mut indexes, mut rejected) = (Vec::new(), Vec::new());
        for step in steps(&files) {
            match reader.index(step) {
                Ok(index) => indexes.push(index),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    self.broken.insert(step);
                    rejected.push(error);
                }
            }
        }
        indexes.sort_by_key(|index| std::cmp::Reverse((index.save, index.global_step)));
        for index in &indexes {
            match reader.restore(index) {
                Ok(restored) => return Ok(Found { checkpoint: Some(restored), rejected }),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    self.broken.insert(index.global_step);
                    rejected.push(error);
                }
            }
        }
        rejected.extend(self.lost_indexes(&files)?);
        Ok(Found { checkpoint: None, rejected })
    }

    /// The step of the checkpoint that was saved last, by the indexes alone: it may be damaged.
    ///
    /// # Errors
    /// If the store can't be listed, or fails to read an index that is there.
    pub fn newest(&self) -> Result<Option<u64>, CheckpointError> {
        let files = reader::list(&*self.store)?;
        Ok(self.newest_of(&files)?.map(|(_, step)| step))
    }

    /// The number of the last save whose index is among `files`, and its step.
    fn newest_of(
        &self,
        files: &BTreeMap<String, u64>,
    ) -> Result<Option<(u64, u64)>, CheckpointError> {
        let reader = self.reader(files);
        let mut newest = None;
        for step in steps(files) {
            match reader.index(step) {
                Ok(index) => newest = newest.max(Some((index.save, index.global_step))),
                Err(error) if error.is_transient() => return Err(error),
                Err(_is_damaged) => {}
            }
        }
        Ok(newest)
    }

    /// The checkpoint of a step.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn restore(&self, global_step: u64) -> Result<Restored, CheckpointError> {
        let files = reader::list(&*self.store)?;
        self.reader(&files).restore(&self.index(global_step)?)
    }

    /// Lists the checkpoints in the order of their steps. Reads only their indexes.
    ///
    /// # Errors
    /// If the store can't be listed.
    pub fn checkpoints(&self) -> Result<Vec<Listed>, CheckpointError> {
        let files = reader::list(&*self.store)?;
        let reader = self.reader(&files);
        let listed = |step| {
            let (index, problem) = match reader.index(step) {
                Ok(index) => (Some(index), None),
                Err(error) => (None, Some(error)),
            };
            Listed {
                name: names::checkpoint(step),
                global_step: step,
                time: index.as_ref().map(|index| index.time),
                variables: index.as_ref().map(|index| index.variables.len()),
                bytes: index.as_ref().map(Index::bytes),
                problem: problem.or_else(|| reader.check_files(index.as_ref()?).err()),
            }
        };
        Ok(steps(&files).map(listed).collect())
    }

    /// The index of the checkpoint of a step.
    ///
    /// # Errors
    /// If there is none, or it can't be read.
    pub(crate) fn index(&self, global_step: u64) -> Result<Index, CheckpointError> {
        let files = reader::list(&*self.store)?;
        if files.contains_key(&names::index(global_step)) {
            return self.reader(&files).index(global_step);
        }
        let there: Vec<String> = steps(&files).map(|step| step.to_string()).collect();
        let there = match there.as_slice() {
            [] => "there is none at all".to_owned(),
            steps => format!("there are those of {}", steps.join(", ")),
        };
        Err(CheckpointError::NoSuchCheckpoint {
            global_step,
            location: self.store.locate(""),
            there,
        })
    }

    fn reader<'a>(&'a self, files: &'a BTreeMap<String, u64>) -> Reader<'a> {
        Reader { store: &*self.store, files }
    }

    /// Learns of the checkpoints among `files` that others have saved, and forgets those that are
    /// gone.
    ///
    /// # Errors
    /// If an index can't be read at the moment: the next save could not be numbered after it.
    fn learn(&mut self, files: &BTreeMap<String, u64>) -> Result<(), CheckpointError> {
        let steps: BTreeSet<u64> = steps(files).collect();
        self.known.retain(|step, _| steps.contains(step));
        self.broken.retain(|step| steps.contains(step));
        for step in steps {
            if self.known.contains_key(&step) || self.broken.contains(&step) {
                continue;
            }
            let reader = self.reader(files);
            let index = reader.index(step);
            let problem = match &index {
                Ok(index) => reader.check_files(index).err(),
                Err(error) if error.is_transient() => return index.map(drop),
                Err(_) => None,
            };
            if let Some(error) = index.as_ref().err().or(problem.as_ref()) {
                tracing::warn!(
                    %error,
                    "a checkpoint is broken: it does not count as one that is kept"
                );
                self.broken.insert(step);
            }
            if let Ok(index) = index {
                self.known.insert(step, Known::of(&index));
            }
        }
        Ok(())
    }

    /// The number of the next save: higher than that of any before, and than those of savers that
    /// this one has replaced, which readers thus never take for the newest. An index that can't be
    /// read has one that is not known, but a saver numbers its saves one after the other.
    fn next_save(&self) -> u64 {
        let is_unknown = |step: &&u64| !self.known.contains_key(step);
        let unknown = self.broken.iter().filter(is_unknown).count() as u64;
        let known = self.known.values().map(|known| known.save.saturating_add(1)).max();
        known.unwrap_or(0).saturating_add(unknown).max(self.writer.first_save())
    }

    /// The length of the checkpoint of `step` \[bytes\], if it was saved last and can be read.
    fn has_saved(&self, step: u64, files: &BTreeMap<String, u64>) -> Option<u64> {
        let (last, _) = self.known.iter().max_by_key(|(step, known)| (known.save, **step))?;
        if *last != step || self.broken.range(step..).next().is_some() {
            return None;
        }
        let reader = self.reader(files);
        let index = reader.index(step).ok()?;
        reader.restore(&index).ok().map(|_| index.bytes())
    }

    /// The edition for saving a step: one of this saver's own whose files no existing index can
    /// name.
    fn edition(&self, step: u64, files: &BTreeMap<String, u64>) -> u32 {
        let first = self.writer.first_edition();
        if !files.contains_key(&names::index(step)) {
            return first;
        }
        let edition = |file: &String| match names::parse(file)? {
            FileOf::Shard(of, edition) if of == step => Some(edition),
            _ => None,
        };
        let taken: BTreeSet<u32> = files.keys().filter_map(edition).collect();
        (first..=u32::MAX).find(|edition| !taken.contains(edition)).unwrap_or(first)
    }

    /// Writes the shards, then the index. If a shard fails, the index has no room, or another saver
    /// has taken over meanwhile, deletes those that were written.
    fn write(&self, index: &Index, encoded: &[Encoded<'_>]) -> Result<(), CheckpointError> {
        for (at, (shard, encoded)) in index.shards.iter().zip(encoded).enumerate() {
            if let Err(error) = self.write_file(&shard.file, &encoded.parts()) {
                self.delete_shards(&index.shards[..at]);
                return Err(error);
            }
        }
        if let Err(error) = self.writer.check(&*self.store) {
            self.delete_shards(&index.shards);
            return Err(error);
        }
        let written = self.write_file(&names::index(index.global_step), &[&index.encode()]);
        // After another failure the index may be there nevertheless: its shards stay.
        if written.as_ref().is_err_and(|error| error.is_for_lack_of_room() && !self.has(index)) {
            self.delete_shards(&index.shards);
        }
        written
    }

    /// Whether `index` is, or may be, in the store.
    fn has(&self, index: &Index) -> bool {
        match self.index(index.global_step) {
            Ok(there) => there.save == index.save,
            Err(error) => !error.is_mistaken(),
        }
    }

    fn write_file(&self, name: &str, parts: &[&[u8]]) -> Result<(), CheckpointError> {
        self.store
            .write(name, parts)
            .map_err(CheckpointError::store("write", self.store.locate(name)))
    }
}

impl Known {
    fn of(index: &Index) -> Self {
        let files = index.shards.iter().map(|shard| shard.file.clone()).collect();
        Self { save: index.save, time: index.time, files }
    }
}

/// The steps that have an index among `files`.
fn steps(files: &BTreeMap<String, u64>) -> impl Iterator<Item = u64> + use<> {
    let mut steps: Vec<u64> = files
        .keys()
        .filter_map(|file| match names::parse(file)? {
            FileOf::Index(step) => Some(step),
            FileOf::Shard(..) => None,
        })
        .collect();
    steps.sort_unstable();
    steps.into_iter()
}
