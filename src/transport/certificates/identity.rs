//! A task's identity: loaded from its files, or from texts, and saved.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::files::{Secrecy, read, read_secret, write};
use super::{CertificateError, malformed, validity};
use crate::clock::date;
use crate::cluster::TaskName;

/// A task's identity: its certificate, the certificate's key, and the authority's certificate.
#[derive(Clone)]
pub struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) authority: String,
}

impl Identity {
    pub(super) fn new(certificate: String, key: String, authority: String) -> Self {
        Self { certificate, key, authority }
    }

    /// The identity of `task` that was saved in `folder`.
    ///
    /// # Errors
    /// If it or the authority's certificate is missing or damaged, or others can read its key; if
    /// it is not valid now.
    pub fn load(folder: &Path, task: &TaskName) -> Result<Self, CertificateError> {
        let [certificate_path, key_path] = paths(folder, task);
        let authority_path = folder.join("authority.pem");
        let (certificate, key) = (read(&certificate_path)?, read_secret(&key_path)?);
        let identity = Self { certificate, key, authority: read(&authority_path)? };
        identity.check([&certificate_path, &key_path, &authority_path])?;
        validity::check(&identity, (&certificate_path, task), date())?;
        Ok(identity)
    }

    /// Checks that all three, which come from these places, can be parsed.
    fn check(&self, [certificate, key, authority]: [&Path; 3]) -> Result<(), CertificateError> {
        parse_certificate(&self.certificate, certificate)?;
        parse_certificate(&self.authority, authority)?;
        let is_whole = RootCertStore::empty().add(self.authority()).is_ok();
        if !is_whole {
            return Err(malformed(authority, "certificate", &"its content is damaged"));
        }
        let parsed = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        parsed.map(drop).map_err(|error| malformed(key, "private key", &error))
    }

    /// The certificate, its key and the authority's certificate, in PEM.
    pub(crate) fn into_texts(self) -> [String; 3] {
        [self.certificate, self.key, self.authority]
    }

    /// The identity with these texts, which come from `origin`.
    ///
    /// # Errors
    /// If one is damaged.
    pub(crate) fn of_texts(texts: [String; 3], origin: &Path) -> Result<Self, CertificateError> {
        let [certificate, key, authority] = texts;
        let identity = Self { certificate, key, authority };
        identity.check([origin; 3])?;
        Ok(identity)
    }

    /// When the certificate ends; none if it can't be used anyhow.
    pub(crate) fn end(&self) -> Option<SystemTime> {
        validity::end(self)
    }

    /// The file of the certificate of `task` in `folder`.
    pub fn path(folder: &Path, task: &TaskName) -> PathBuf {
        paths(folder, task)[0].clone()
    }

    /// Writes the certificate and its key into `folder`, for `ps:0` as `ps-0.pem` and `ps-0.key`,
    /// and `authority.pem` if that is missing. Only its owner can read the key.
    ///
    /// # Errors
    /// If they can't be written, or the folder has another authority.
    pub fn save(&self, folder: &Path, task: &TaskName) -> Result<(), CertificateError> {
        let ([certificate, key], authority) = (paths(folder, task), folder.join("authority.pem"));
        if !authority.exists() {
            write(&authority, &self.authority, Secrecy::Public)?;
        } else if read(&authority)? != self.authority {
            return Err(CertificateError::NotItsAuthority(authority));
        }
        write(&key, &self.key, Secrecy::OwnerOnly)?;
        write(&certificate, &self.certificate, Secrecy::Public)
    }

    pub(in crate::transport) fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .expect("it was parsed when it was loaded")
    }

    pub(in crate::transport) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .expect("it was parsed when it was loaded")
    }

    pub(in crate::transport) fn authority(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.authority.as_bytes())
            .expect("it was parsed when it was loaded")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

fn paths(folder: &Path, task: &TaskName) -> [PathBuf; 2] {
    ["pem", "key"]
        .map(|extension| folder.join(format!("{}-{}.{extension}", task.job(), task.index())))
}

fn parse_certificate(pem: &str, path: &Path) -> Result<(), CertificateError> {
    let parsed = CertificateDer::from_pem_slice(pem.as_bytes());
    parsed.map(drop).map_err(|error| malformed(path, "certificate", &error))
}
