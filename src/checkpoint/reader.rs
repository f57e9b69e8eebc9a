//! Reads a checkpoint, and reports any damage.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::index::{Checksum, Index, MOST_BYTES, ShardEntry, VariableEntry};
use super::names;
use super::shard_file::{Decoded, Raw};
use super::store::{Entry, Store};
use super::{CheckpointError, Restored};
use crate::tensor::Tensor;

/// Reads the files of one store.
pub(super) struct Reader<'a> {
    pub(super) store: &'a dyn Store,
    /// The store's files, with their lengths \[bytes\].
    pub(super) files: &'a BTreeMap<String, u64>,
}

/// The files of `store`, with their lengths \[bytes\].
///
/// # Errors
/// If they can't be listed.
pub(super) fn list(store: &dyn Store) -> Result<BTreeMap<String, u64>, CheckpointError> {
    let entries = store.list().map_err(CheckpointError::store("list", store.locate("")))?;
    Ok(entries.into_iter().map(|Entry { name, bytes }| (name, bytes)).collect())
}

impl Reader<'_> {
    /// The index of a step.
    ///
    /// # Errors
    /// If it can't be read, or is not an index.
    pub(super) fn index(&self, step: u64) -> Result<Index, CheckpointError> {
        let name = names::index(step);
        let malformed =
            |problem| CheckpointError::Malformed { file: self.store.locate(&name), problem };
        if let Some(bytes) = self.files.get(&name).filter(|bytes| **bytes > MOST_BYTES) {
            return Err(malformed(format!("{bytes} bytes are more than any index has")));
        }
        let read = self.store.read(&name);
        let bytes = read.map_err(CheckpointError::store("read", self.store.locate(&name)))?;
        Index::decode(&bytes, step).map_err(malformed)
    }

    /// Checks that every file of a checkpoint is there, at the length that it was saved with.
    ///
    /// # Errors
    /// The first file that is not.
    pub(super) fn check_files(&self, index: &Index) -> Result<(), CheckpointError> {
        for shard in &index.shards {
            match self.files.get(&shard.file) {
                Some(found) if *found == shard.bytes => {}
                Some(found) => return Err(self.length(shard, *found)),
                None => return Err(self.missing(shard)),
            }
        }
        Ok(())
    }

    /// Reads all of a checkpoint, checking every checksum.
    ///
    /// # Errors
    /// The first file that differs from what was saved, with the part that differs.
    pub(super) fn restore(&self, index: &Index) -> Result<Restored, CheckpointError> {
        self.check_files(index)?;
        let mut of_shards: Vec<BTreeMap<&str, &VariableEntry>> =
            vec![BTreeMap::new(); index.shards.len()];
        for (name, entry) in &index.variables {
            of_shards[entry.shard].insert(name, entry);
        }
        let mut variables = BTreeMap::new();
        for (shard, entries) in index.shards.iter().zip(&of_shards) {
            self.restore_shard(shard, entries, &mut variables)?;
        }
        let name = names::checkpoint(index.global_step);
        let malformed = |problem| self.malformed(&names::index(index.global_step), problem);
        let tables = index.tables().map_err(malformed)?;
        let marked = index.variables.iter().filter(|(_, entry)| entry.is_of_model);
        let of_model = marked.map(|(name, entry)| match &entry.slice {
            Some(slice) => slice.full_name.clone(),
            None => name.clone(),
        });
        let of_model = of_model.collect();
        Ok(Restored { global_step: index.global_step, name, variables, tables, of_model })
    }

    fn restore_shard(
        &self,
        shard: &ShardEntry,
        entries: &BTreeMap<&str, &VariableEntry>,
        variables: &mut BTreeMap<String, Tensor>,
    ) -> Result<(), CheckpointError> {
        let bytes = match self.store.read(&shard.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.missing(shard));
            }
            read => read.map_err(CheckpointError::store("read", self.store.locate(&shard.file)))?,
        };
        if bytes.len() as u64 != shard.bytes {
            return Err(self.length(shard, bytes.len() as u64));
        }
        let malformed = |problem| self.malformed(&shard.file, problem);
        let found = Checksum(xxh3_64(&bytes));
        if found != shard.checksum {
            return Err(self.changed(shard, found, &bytes, entries));
        }
        let decoded = Decoded::new(&bytes).map_err(malformed)?;
        let raws = decoded.tensors().map_err(malformed)?;
        let found: BTreeSet<&str> = raws.iter().map(|raw| raw.name).collect();
        if let Some(absent) = entries.keys().find(|name| !found.contains(*name)) {
            return Err(malformed(format!("it has no `{absent}`, which its index says is there")));
        }
        for raw in &raws {
            let is_it =
                |entry: &&&VariableEntry| (entry.dtype, entry.shape) == (raw.dtype, raw.shape);
            if entries.get(raw.name).filter(is_it).is_none() {
                return Err(malformed(format!(
                    "its index has no `{}` {}{}",
                    raw.name, raw.dtype, raw.shape
                )));
            }
            variables.insert(raw.name.to_owned(), raw.tensor().map_err(malformed)?);
        }
        Ok(())
    }

    /// The error of a file whose checksum has become `found`; it names the variable that has
    /// changed, or else the header.
    fn changed(
        &self,
        shard: &ShardEntry,
        found: Checksum,
        bytes: &[u8],
        entries: &BTreeMap<&str, &VariableEntry>,
    ) -> CheckpointError {
        let decoded = Decoded::new(bytes).ok();
        let raws = decoded.as_ref().and_then(|decoded| decoded.tensors().ok()).unwrap_or_default();
        let differs = |raw: &&Raw<'_>| {
            entries.get(raw.name).is_some_and(|entry| entry.checksum.0 != raw.checksum())
        };
        let (what, expected, found) = match raws.iter().find(differs) {
            Some(raw) => {
                (format!("`{}`", raw.name), entries[raw.name].checksum, Checksum(raw.checksum()))
            }
            None => ("the file, in its header,".to_owned(), shard.checksum, found),
        };
        let (expected, found) = (expected.to_string(), found.to_string());
        CheckpointError::Checksum { file: self.store.locate(&shard.file), what, expected, found }
    }

    fn malformed(&self, file: &str, problem: String) -> CheckpointError {
        CheckpointError::Malformed { file: self.store.locate(file), problem }
    }

    fn missing(&self, shard: &ShardEntry) -> CheckpointError {
        CheckpointError::Missing { file: self.store.locate(&shard.file), task: shard.task.clone() }
    }

    fn length(&self, shard: &ShardEntry, found: u64) -> CheckpointError {
        CheckpointError::Length {
            file: self.store.locate(&shard.file),
            expected: shard.bytes,
            found,
        }
    }
}
