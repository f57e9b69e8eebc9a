//! A store in a folder.

mod files;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use files::{Files, System};

use super::{Entry, Store};

/// The digits of a writer's token in the name of an unfinished file.
const TOKEN_DIGITS: usize = 16;

/// A store in a folder. A file is written under another name, synced to the disk and renamed; then
/// the folder is synced.
///
/// If a process is killed, the next one that writes here deletes its unfinished file, which is
/// known by its name and by the lock that its writer no longer holds.
pub struct Folder {
    path: PathBuf,
    files: Box<dyn Files>,
    /// Whether unfinished files of other processes were looked for.
    is_tidy: AtomicBool,
    written: AtomicU64,
    /// Tells its unfinished files from those of other processes, which may be on other machines.
    token: u64,
}

shown!(Folder, path);

impl Folder {
    /// The folder at `path`, which is made by the first write.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::over(path.into(), Box::new(System))
    }

    fn over(path: PathBuf, files: Box<dyn Files>) -> Self {
        let token = RandomState::new().build_hasher().finish();
        Self { path, files, is_tidy: AtomicBool::new(false), written: AtomicU64::new(0), token }
    }

    /// The path of a file directly in the folder.
    fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        let is_plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0']);
        let error = || {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is no name of a file"))
        };
        is_plain.then(|| self.path.join(name)).ok_or_else(error)
    }

    /// Deletes unfinished files whose writers are gone.
    fn tidy(&self) -> io::Result<()> {
        for Entry { name, .. } in self.files.list(&self.path)? {
            if is_unfinished(&name) {
                self.files.delete_abandoned(&self.path_of(&name)?)?;
            }
        }
        Ok(())
    }

    /// Makes the folder, and tidies it once.
    fn prepare(&self) -> io::Result<()> {
        self.files.create_folder(&self.path)?;
        if !self.is_tidy.swap(true, Ordering::Relaxed)
            && let Err(error) = self.tidy()
        {
            tracing::warn!(
                folder = %self.path.display(), %error,
                "can't delete what was left unfinished"
            );
        }
        Ok(())
    }

    fn write_whole(&self, unfinished: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = self.files.create(unfinished)?; // if it can't, the file is another's
        let mut written = || {
            for part in parts {
                file.write_all(part)?;
            }
            file.sync()?;
            self.files.rename(unfinished, path)?;
            self.files.sync_folder(&self.path)
        };
        let written = written();
        if written.is_err() && self.files.delete(unfinished).is_err() {
            // The next process that writes here deletes it.
            tracing::debug!(file = %unfinished.display(), "left unfinished");
        }
        written
    }
}

/// The name of the file `name` until it is finished: the write number `serial` of the writer with
/// this token.
fn unfinished(name: &str, token: u64, serial: u64) -> String {
    format!("{name}.{token:0TOKEN_DIGITS$x}-{serial}.tmp")
}

/// Whether `name` is of the form that [`unfinished`] gives: users have files that end with `.tmp`,
/// too.
fn is_unfinished(name: &str) -> bool {
    let writer = name.strip_suffix(".tmp").and_then(|rest| rest.rsplit_once('.'));
    let Some((token, serial)) = writer.and_then(|(_, writer)| writer.split_once('-')) else {
        return false;
    };
    let are_all =
        |text: &str, is: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|b| is(&b));
    token.len() == TOKEN_DIGITS
        && are_all(token, u8::is_ascii_hexdigit)
        && are_all(serial, u8::is_ascii_digit)
}

impl Store for Folder {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = match self.files.list(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        entries.retain(|entry| !is_unfinished(&entry.name));
        entries.sort();
        Ok(entries)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.files.read(&self.path_of(name)?)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let path = self.path_of(name)?;
        self.prepare()?;
        let serial = self.written.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.path.join(unfinished(name, self.token, serial));
        self.write_whole(&unfinished, &path, parts)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.files.delete(&self.path_of(name)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            deleted => deleted?,
        }
        self.files.sync_folder(&self.path)
    }

    fn locate(&self, name: &str) -> String {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        path.display().to_string()
    }
}

#[cfg(test)]
mod tests;
