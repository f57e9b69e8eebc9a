//! Stores of checkpoints: a flat namespace of files, each of which is there completely or not at
//! all.

mod folder;
mod memory;
#[cfg(feature = "object-store")]
mod object;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

pub use folder::Folder;
pub use memory::Memory;
#[cfg(feature = "object-store")]
pub use object::ObjectStore;

use super::CheckpointError;

/// A store of checkpoints. Calls block.
pub trait Store: Send + Sync {
    /// The files in the store, by name. A store that was never written to has none.
    ///
    /// # Errors
    /// If they can't be listed.
    fn list(&self) -> io::Result<Vec<Entry>>;

    /// Reads a whole file.
    ///
    /// # Errors
    /// If it does not exist, or can't be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Writes a file from `parts`, one after the other, replacing any of that name. A reader finds
    /// the old file or the new one at any moment, even after a crash; once this returns, the new
    /// one.
    ///
    /// # Errors
    /// If it can't be written: the old file is then unchanged.
    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// If it can't be deleted. Deleting a missing file succeeds.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// The location of a file, for people; with the name `""`, the location of the store.
    fn locate(&self, name: &str) -> String;
}

/// A file of a [`Store`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its length \[bytes\].
    pub bytes: u64,
}

/// Opens the store at `location`: a folder, which need not exist yet, or a URL such as
/// `s3://bucket/run-7`.
///
/// # Errors
/// If the URL names no store, or one that this program was built without.
pub fn open_store(location: &str) -> Result<Arc<dyn Store>, CheckpointError> {
    let error = |problem: &str| CheckpointError::Location {
        location: location.to_owned(),
        problem: problem.to_owned(),
    };
    match location.split_once("://") {
        None if location.is_empty() => Err(error("name a folder")),
        None => Ok(Arc::new(Folder::new(location))),
        Some(("file", path)) if path.starts_with('/') => Ok(Arc::new(Folder::new(path))),
        Some(("file", _)) => Err(error("after `file://` comes a path that begins with `/`")),
        #[cfg(feature = "object-store")]
        Some(_) => Ok(Arc::new(ObjectStore::new(location)?)),
        #[cfg(not(feature = "object-store"))]
        Some(_) => Err(error(
            "this program was built without stores of objects; build with \
             `--features object-store`",
        )),
    }
}

/// The stores of checkpoints that a program names by their locations.
#[derive(Clone, Debug, Default)]
pub enum Stores {
    /// The stores that [`open_store`] opens.
    #[default]
    Lasting,
    /// Stores in memory, which last as long as the run: one for each location.
    InMemory(Arc<Mutex<BTreeMap<String, Memory>>>),
}

impl Stores {
    /// Stores in memory, none of them made yet.
    pub fn in_memory() -> Self {
        Self::InMemory(Arc::default())
    }

    /// Opens the store at `location`.
    ///
    /// # Errors
    /// If `location` can't be opened as a store.
    pub fn open(&self, location: &str) -> Result<Arc<dyn Store>, CheckpointError> {
        match self {
            Self::Lasting => open_store(location),
            Self::InMemory(stores) => {
                let mut stores = stores.lock().expect("nothing panics while it holds the stores");
                Ok(Arc::new(stores.entry(location.to_owned()).or_default().clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_none_is_refused_with_what_to_write() {
        let refused = |location| open_store(location).err().unwrap().to_string();
        assert!(refused("").contains("name a folder"));
        assert!(refused("file://here").contains("after `file://` comes a path"));
        assert_eq!(open_store("file:///a/b").unwrap().locate("c"), "/a/b/c");
        assert_eq!(open_store("a/b").unwrap().locate(""), "a/b");
        #[cfg(not(feature = "object-store"))]
        assert!(refused("s3://bucket/run").contains("build with `--features object-store`"));
    }
}
