//! Temporary folders: readable to their owner alone, removed at the end, also where the process is
//! ended amid its work.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use tempfile::TempDir;

use crate::deployment::DeploymentError;
use crate::process::realm;

/// The folder in which Linux shows a folder for each process.
const PROCESSES: &str = "/proc";

/// The folders of this process that are to go with it.
static OWN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OWN.lock().expect("nobody panics while a folder is noted")
}

/// A folder that is removed when this value is dropped.
pub(crate) struct Folder {
    folder: TempDir,
    noted: Noted,
}

/// The note that a folder is this process's own, which is taken back when this is dropped.
struct Noted(PathBuf);

impl Drop for Noted {
    fn drop(&mut self) {
        own().remove(&self.0);
    }
}

impl Folder {
    /// A new folder in the system's folder for temporary files, closed to other users.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn private(purpose: &str) -> Result<Self, DeploymentError> {
        let prefix = format!("{purpose}-{}-{}-", std::process::id(), realm());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
        let place = std::env::temp_dir();
        let failed = DeploymentError::writing(place.display().to_string());
        let folder = builder.tempdir_in(&place).map_err(failed)?;
        let path = folder.path().to_owned();
        own().insert(path.clone());
        Ok(Self { folder, noted: Noted(path) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folders beside it of the same `purpose` and owner whose processes are gone: one
    /// that is killed leaves its own. Where the system does not tell which run, they stay.
    pub(crate) fn remove_left_behind(&self, purpose: &str) {
        let owner = |path: &Path| fs::symlink_metadata(path).map(|there| there.uid()).ok();
        let (own, place) = (owner(self.path()), self.path().parent().unwrap_or(self.path()));
        let (processes, realm) = (Path::new(PROCESSES), realm());
        if !processes.join("self").exists() {
            return;
        }
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is_gone = process_of(&name.to_string_lossy(), purpose, &realm)
                .is_some_and(|id| !processes.join(id.to_string()).exists());
            let is_folder = || entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_gone && is_folder() && owner(&path) == own {
                remove(&path);
            }
        }
    }

    /// Keeps the folder, unless [`remove_all`] is called, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        std::mem::forget(self.noted);
        self.folder.keep()
    }
}

/// The number of the process that has made the folder `name` for `purpose`, if it is such a name
/// and the number is of this `realm`.
fn process_of(name: &str, purpose: &str, realm: &str) -> Option<u32> {
    let (id, rest) = name.strip_prefix(purpose)?.strip_prefix('-')?.split_once('-')?;
    rest.strip_prefix(realm)?.strip_prefix('-')?;
    id.parse().ok()
}

/// Removes all folders of this process, which is ended at once and drops none.
pub(crate) fn remove_all() {
    for path in std::mem::take(&mut *own()) {
        fs::remove_dir_all(path).ok(); // the other end of its work may remove it, too
    }
}

/// Removes a folder with its contents.
pub(crate) fn remove(path: &Path) {
    own().remove(path);
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "a folder stays behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_its_owners_alone_and_goes_with_its_value() {
        let (one, other) = (
            Folder::private("trainyard-test").unwrap(),
            Folder::private("trainyard-test").unwrap(),
        );
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let path = one.path().to_owned();
        fs::write(path.join("key"), "secret").unwrap();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_of_a_process_that_is_gone_is_removed_and_no_other() {
        let purpose = "trainyard-left-behind";
        let own = Folder::private(purpose).unwrap();
        let beside = |name: String| own.path().with_file_name(name);
        let (realm, none) = (realm(), u32::MAX); // more than Linux gives out
        let gone = beside(format!("{purpose}-{none}-{realm}-a"));
        let running = beside(format!("{purpose}-{}-{realm}-a", std::process::id()));
        let other = beside(format!("{purpose}-of-another-{none}-{realm}-a"));
        let of_another_realm = beside(format!("{purpose}-{none}-{realm}0-a"));
        for path in [&gone, &running, &other, &of_another_realm] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("key"), "secret").unwrap();
        }
        own.remove_left_behind(purpose);
        let stay = [running, other, of_another_realm];
        let are_there = stay.each_ref().map(|path| path.exists());
        stay.iter().for_each(|path| remove(path));
        assert_eq!((gone.exists(), are_there, own.path().exists()), (false, [true; 3], true));
    }
}
