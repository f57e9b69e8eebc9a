//! A store of checkpoints whose writes go wrong.

use std::io;

use trainyard::checkpoint::{Entry, Memory, Store};

/// A store in memory that lets `on` go before each write, and fails with what that fails with.
pub(crate) struct Tampered<F> {
    pub(crate) memory: Memory,
    /// Its location, for people.
    pub(crate) place: &'static str,
    pub(crate) on: F,
}

impl<F: Fn() -> io::Result<()> + Send + Sync> Store for Tampered<F> {
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.memory.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.memory.read(name)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        (self.on)()?;
        self.memory.write(name, parts)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.memory.delete(name)
    }

    fn locate(&self, name: &str) -> String {
        if name.is_empty() { self.place.to_owned() } else { format!("{}/{name}", self.place) }
    }
}
