//! The files of certificates and keys.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::CertificateError;
use crate::user_file;

/// The readers that a file permits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Public,
    /// A private key.
    OwnerOnly,
}

pub(super) fn read(path: &Path) -> Result<String, CertificateError> {
    user_file::read_text(path)
        .map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}

/// Reads a private key.
///
/// # Errors
/// If others than its owner can read or change it. A group may read a key that is the system's, as
/// Kubernetes mounts a secret for the group of a pod.
pub(super) fn read_secret(path: &Path) -> Result<String, CertificateError> {
    let failed = |source| CertificateError::Read { path: path.to_owned(), source };
    if is_exposed(&fs::metadata(path).map_err(failed)?) {
        return Err(CertificateError::Exposed(path.to_owned()));
    }
    read(path)
}

fn is_exposed(file: &fs::Metadata) -> bool {
    let allowed = if file.uid() == 0 { 0o740 } else { 0o700 };
    file.mode() & 0o777 & !allowed != 0
}

/// Writes a file, and makes its folders. A secret is never readable for others, not even for a
/// moment, and not if the file existed before.
pub(super) fn write(path: &Path, text: &str, secrecy: Secrecy) -> Result<(), CertificateError> {
    let written = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true);
        if secrecy == Secrecy::OwnerOnly {
            match fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => options.create_new(true).mode(0o600),
            }
        } else {
            options.create(true).truncate(true)
        };
        options.open(path)?.write_all(text.as_bytes())
    };
    written().map_err(|source| CertificateError::Write { path: path.to_owned(), source })
}
