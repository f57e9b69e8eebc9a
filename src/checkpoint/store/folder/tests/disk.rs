//! A disk in memory that stops after a number of calls and loses unsynced data.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::checkpoint::store::Entry;
use crate::checkpoint::store::folder::files::{Files, NewFile};

/// The data that a crash loses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Crash {
    /// Nothing: the process was killed, not the machine.
    Process,
    /// All unsynced data.
    Everything,
    /// Unsynced values; names are as they were last.
    Values,
}

impl Crash {
    pub(super) const ALL: [Self; 3] = [Self::Process, Self::Everything, Self::Values];
}

/// The disk, with one folder. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The number of calls still served; none for all.
    calls: Option<usize>,
    /// The number of bytes that can still be written; none for any number.
    room: Option<usize>,
    contents: Vec<Content>,
    /// The index in `contents` that each name stands for.
    names: BTreeMap<String, usize>,
    /// The names that are synced to the disk.
    names_on_disk: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    on_disk: Vec<u8>,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts a call.
    fn call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        match &mut state.calls {
            Some(0) => return Err(io::Error::other("stopped")),
            Some(calls) => *calls -= 1,
            None => {}
        }
        Ok(state)
    }

    pub(super) fn stop_after(&self, calls: usize) {
        self.state().calls = Some(calls);
    }

    pub(super) fn leave_room(&self, bytes: usize) {
        self.state().room = Some(bytes);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// The disk after a crash.
    pub(super) fn after(&self, crash: Crash) -> Self {
        let state = self.state();
        let bytes = |content: &Content| match crash {
            Crash::Process => content.bytes.clone(),
            Crash::Everything | Crash::Values => content.on_disk.clone(),
        };
        let contents = state
            .contents
            .iter()
            .map(|content| Content { bytes: bytes(content), on_disk: bytes(content) });
        let names = match crash {
            Crash::Process | Crash::Values => &state.names,
            Crash::Everything => &state.names_on_disk,
        };
        let (names, names_on_disk, contents) = (names.clone(), names.clone(), contents.collect());
        Self(Arc::new(Mutex::new(State { names, names_on_disk, contents, ..State::default() })))
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl Files for Disk {
    fn create_folder(&self, _: &Path) -> io::Result<()> {
        self.call().map(drop)
    }

    fn list(&self, _: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let bytes = |content: &usize| state.contents[*content].bytes.len() as u64;
        Ok(state
            .names
            .iter()
            .map(|(name, content)| Entry { name: name.clone(), bytes: bytes(content) })
            .collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state();
        let content = state.names.get(&name(path)).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.contents[*content].bytes.clone())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.call()?;
        let content = state.contents.len();
        state.contents.push(Content::default());
        assert_eq!(
            state.names.insert(name(path), content),
            None,
            "an unfinished file has a name of its own"
        );
        Ok(Box::new(Open { disk: self.clone(), content }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let content = state.names.remove(&name(from)).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(name(to), content);
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        state.names_on_disk = state.names.clone();
        Ok(())
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        let deleted = self.call()?.names.remove(&name(path));
        deleted.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn delete_abandoned(&self, path: &Path) -> io::Result<()> {
        self.delete(path)
    }
}

/// A file that is being written. If the disk stops during a write, half of the bytes are there.
struct Open {
    disk: Disk,
    content: usize,
}

impl NewFile for Open {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_served = self.disk.call().is_ok();
        let mut state = self.disk.state();
        let room = state.room.unwrap_or(usize::MAX);
        let written = if is_served { bytes.len().min(room) } else { bytes.len() / 2 };
        state.room = state.room.map(|room| room - written.min(room));
        state.contents[self.content].bytes.extend(&bytes[..written]);
        match written == bytes.len() && is_served {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.call()?;
        let content = &mut state.contents[self.content];
        content.on_disk = content.bytes.clone();
        Ok(())
    }
}
