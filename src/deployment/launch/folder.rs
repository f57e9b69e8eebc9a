//! Temporary folders: readable to their owner alone, removed at the end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::deployment::DeploymentError;

/// A folder that is removed when this value is dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// A new folder in the system's folder for temporary files, closed to other users.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn private(purpose: &str) -> Result<Self, DeploymentError> {
        let prefix = format!("{purpose}-{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
        let place = std::env::temp_dir();
        let failed = DeploymentError::writing(place.display().to_string());
        Ok(Self(builder.tempdir_in(&place).map_err(failed)?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Keeps the folder, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
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
