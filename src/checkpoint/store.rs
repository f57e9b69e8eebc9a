//! Where checkpoints lie: a flat namespace of files, each of which is there whole or not at all.

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

/// Where checkpoints lie. Calls block.
pub trait Store: Send + Sync {
    /// The files that are there, by name; none where nothing was ever written.
    ///
    /// # Errors
    /// If they can't be listed.
    fn list(&self) -> io::Result<Vec<Entry>>;

    /// All of a file.
    ///
    /// # Errors
    /// If it is not there, or can't be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Writes a file from `parts`, one after the other, in the place of any of that name. Whoever
    /// reads it at any moment, even after a crash, finds the old file or the new one; once this
    /// returns, the new one.
    ///
    /// # Errors
    /// If it can't be written: then the old one is there.
    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// If it can't be; a file that is not there is deleted already.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Where a file is, or, of the name `""`, where all are: as a person would write it.
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

/// The store at `location`: a folder, which need not be there yet, or an URL such as
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

/// Where the stores of a training's checkpoints are, by the locations that its program names.
#[derive(Clone, Debug, Default)]
pub enum Stores {
    /// Where [`open_store`] finds them.
    #[default]
    Lasting,
    /// In memory, as long as a run lasts: each location is a store of its own.
    InMemory(Arc<Mutex<BTreeMap<String, Memory>>>),
}

impl Stores {
    /// No stores yet, in memory.
    pub fn in_memory() -> Self {
        Self::InMemory(Arc::default())
    }

    /// The store at `location`.
    ///
    /// # Errors
    /// If there can be none.
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
