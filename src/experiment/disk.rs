//! The disk of a simulation's checkpoints: faults fill it, and damage its files.

use std::io;
use std::sync::{Arc, Mutex};

use crate::checkpoint::{Entry, Store, is_shard};
use crate::simulation;

/// A store whose files suffer from the faults of the simulation that its caller is in.
pub(super) struct Disk {
    files: Arc<dyn Store>,
    /// The shard file that was written last.
    newest: Mutex<Option<String>>,
}

impl Disk {
    pub(super) fn new(files: Arc<dyn Store>) -> Self {
        Self { files, newest: Mutex::default() }
    }

    /// Does the damage of the faults since the last call: nobody has looked at the files meanwhile.
    fn suffer(&self) -> io::Result<()> {
        let newest = self.newest.lock().expect("nothing panics while it holds the name").clone();
        let damage = simulation::take_damage(newest.is_some());
        let Some(newest) = newest.filter(|_| !damage.is_empty()) else { return Ok(()) };
        let mut bytes = match self.files.read(&newest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read?,
        };
        for damage in damage {
            tracing::info!(file = newest, ?damage, "a checkpoint is damaged");
            damage.apply(&mut bytes);
        }
        self.files.write(&newest, &[&bytes])
    }
}

impl Store for Disk {
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.suffer()?;
        self.files.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.suffer()?;
        self.files.read(name)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.suffer()?;
        if simulation::is_disk_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if is_shard(name) {
            let newest = Some(name.to_owned());
            *self.newest.lock().expect("nothing panics while it holds the name") = newest;
        }
        self.files.write(name, parts)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.suffer()?;
        self.files.delete(name)
    }

    fn locate(&self, name: &str) -> String {
        self.files.locate(name)
    }
}
