//! A store that notes what it is asked, so that whoever waits for its answer can say so.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::{Entry, Store};

/// A store that notes what it is asked.
pub(super) struct NotedStore {
    store: Arc<dyn Store>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    asked: Asked,
    /// The lengths of the files, as they were last listed \[bytes\].
    lengths: BTreeMap<String, u64>,
}

/// The last thing that a store was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The number of questions and answers so far.
    pub(super) events: u64,
    /// What it is to do.
    pub(super) what: &'static str,
    /// With which file, or in which place.
    pub(super) file: String,
    /// How much it is to read or write \[bytes\].
    pub(super) bytes: u64,
}

impl NotedStore {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, noted: Mutex::default() }
    }

    /// The last thing that it was asked, whether it has answered or not.
    pub(super) fn asked(&self) -> Asked {
        self.noted().asked.clone()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store do `what` with `file`, of so many bytes.
    fn ask<T>(
        &self,
        (what, file, bytes): (&'static str, &str, u64),
        work: impl FnOnce(&dyn Store) -> T,
    ) -> T {
        let file = self.store.locate(file);
        let note = |asked: &mut Asked| {
            *asked = Asked { events: asked.events + 1, what, file, bytes };
        };
        note(&mut self.noted().asked);
        let done = work(&*self.store);
        self.noted().asked.events += 1;
        done
    }
}

impl Store for NotedStore {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let listed = self.ask(("list", "", 0), |store| store.list());
        if let Ok(entries) = &listed {
            let length = |entry: &Entry| (entry.name.clone(), entry.bytes);
            self.noted().lengths = entries.iter().map(length).collect();
        }
        listed
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let bytes = self.noted().lengths.get(name).copied().unwrap_or(0);
        self.ask(("read", name, bytes), |store| store.read(name))
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.ask(("write", name, bytes), |store| store.write(name, parts))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.ask(("delete", name, 0), |store| store.delete(name))
    }

    fn locate(&self, name: &str) -> String {
        self.store.locate(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Memory;

    #[test]
    fn a_store_knows_what_it_was_asked_last_and_how_much_that_is() {
        let store = NotedStore::new(Arc::new(Memory::default()));
        let asked = || {
            let Asked { events, what, bytes, .. } = store.asked();
            (events, what, bytes)
        };
        assert_eq!(asked(), (0, "", 0));
        store.write("a", &[&[1, 2], &[3]]).unwrap();
        assert_eq!(asked(), (2, "write", 3), "a question and an answer");
        store.list().unwrap();
        store.read("a").unwrap();
        assert_eq!(asked(), (6, "read", 3), "as long as it was listed");
        assert_eq!(store.asked().file, store.locate("a"));
        store.read("b").unwrap_err();
        assert_eq!(asked(), (8, "read", 0), "an error is an answer, too");
    }
}
