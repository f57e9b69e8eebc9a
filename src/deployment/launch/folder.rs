//! Temporary folders: readable to their owner alone, removed at the end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::deployment::DeploymentError;

/// The greatest number of names tried: a name that is taken may be another process's.
const ATTEMPTS: u32 = 1000;

/// A folder that is removed when this value is dropped.
pub(crate) struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    /// A new folder in the system's folder for temporary files, closed to other users.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn private(purpose: &str) -> Result<Self, DeploymentError> {
        let place = std::env::temp_dir();
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        for attempt in 0..ATTEMPTS {
            let path = place.join(format!("{purpose}-{}-{attempt}", std::process::id()));
            match builder.create(&path) {
                Ok(()) => return Ok(Self { path, is_kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(DeploymentError::writing(path.display().to_string())(error));
                }
            }
        }
        Err(DeploymentError::writing(place.display().to_string())(
            io::ErrorKind::AlreadyExists.into(),
        ))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder, and returns its path.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        std::mem::take(&mut self.path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            remove(&self.path);
        }
    }
}

/// Removes a folder with its contents.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "a folder stays behind");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
}
