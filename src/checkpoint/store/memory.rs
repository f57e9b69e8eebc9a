//! A store in memory: for simulations, and for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Entry, Store};

/// Files in memory. Cheap to clone; the clones share their files.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Memory {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().expect("nothing panics while it holds the files")
    }
}

impl Store for Memory {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let entry = |(name, bytes): (&String, &Vec<u8>)| Entry {
            name: name.clone(),
            bytes: bytes.len() as u64,
        };
        Ok(self.files().iter().map(entry).collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.files().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.files().insert(name.to_owned(), parts.concat());
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.files().remove(name);
        Ok(())
    }

    fn locate(&self, name: &str) -> String {
        if name.is_empty() { "memory".to_owned() } else { name.to_owned() }
    }
}
