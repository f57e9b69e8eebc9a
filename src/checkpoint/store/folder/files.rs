//! The system calls of a folder, one method each, so that a test can fail at any of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use crate::checkpoint::store::Entry;

/// The system calls that a folder needs.
pub(super) trait Files: Send + Sync {
    /// Makes the folder and its missing parents, synced so that they survive a crash.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// The plain files in a folder.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Reads a plain file; refuses all else.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// A new file, locked as long as it is open.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Syncs the folder: makes its new, renamed and deleted files survive a crash.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    fn delete(&self, path: &Path) -> io::Result<()>;
    /// Deletes a file, unless its writer still has it open.
    fn delete_abandoned(&self, path: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub(super) trait NewFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Syncs the file to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operating system.
pub(super) struct System;

impl Files for System {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            if !parent.as_os_str().is_empty() {
                self.create_folder(parent)?;
            }
            fs::create_dir(path)
                .or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })?;
            return self.sync_folder(if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            });
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // No file of a checkpoint has a name that is not UTF-8 or has just been deleted.
            let metadata = fs::metadata(entry.path()); // of what a link leads to
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), metadata) else {
                continue;
            };
            if metadata.is_file() {
                entries.push(Entry { name, bytes: metadata.len() });
            }
        }
        Ok(entries)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if fs::metadata(path)?.is_file() {
            return fs::read(path);
        }
        // Reading a pipe or a device may never end.
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        match file.try_lock() {
            // On a file system without locks, nobody deletes unlocked files as abandoned.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::other("another process took the new file for abandoned"))
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn delete_abandoned(&self, path: &Path) -> io::Result<()> {
        let file = match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        if file.try_lock().is_ok() { self.delete(path) } else { Ok(()) }
    }
}

impl NewFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
