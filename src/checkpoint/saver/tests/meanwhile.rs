//! A store in which something else happens once, around the write of a file.

use std::io;
use std::sync::Mutex;

use crate::checkpoint::{Entry, Memory, Store};

type Act = Box<dyn FnOnce() + Send>;

/// Does `act` once, directly before or after the file `file` is written.
pub(super) struct Meanwhile {
    store: Memory,
    file: &'static str,
    before: Mutex<Option<Act>>,
    after: Mutex<Option<Act>>,
}

impl Meanwhile {
    pub(super) fn before(
        store: &Memory,
        file: &'static str,
        act: impl FnOnce() + Send + 'static,
    ) -> Self {
        let before = Mutex::new(Some(Box::new(act) as Act));
        Self { store: store.clone(), file, before, after: Mutex::default() }
    }

    pub(super) fn after(
        store: &Memory,
        file: &'static str,
        act: impl FnOnce() + Send + 'static,
    ) -> Self {
        let after = Mutex::new(Some(Box::new(act) as Act));
        Self { store: store.clone(), file, before: Mutex::default(), after }
    }

    fn act(&self, name: &str, act: &Mutex<Option<Act>>) {
        if name == self.file
            && let Some(act) = act.lock().unwrap().take()
        {
            act();
        }
    }
}

impl Store for Meanwhile {
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.store.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.store.read(name)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.act(name, &self.before);
        self.store.write(name, parts)?;
        self.act(name, &self.after);
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.store.delete(name)
    }

    fn locate(&self, name: &str) -> String {
        self.store.locate(name)
    }
}
