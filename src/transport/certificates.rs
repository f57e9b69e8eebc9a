//! Certificates: the authority of a run, and the identity that it gives each task.
//!
//! Each run has its own authority, and its tasks trust no other. A task's certificate holds its
//! name, as `ps-0.task.trainyard`, so that a peer knows which task it talks to; it also holds the
//! hosts' names, for other tools.

mod files;
mod identity;
mod validity;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, DnsName};

use crate::clock::date;
use crate::cluster::TaskName;
use crate::process::{MORE_FILES, lacks_files};

use files::{Secrecy, read, read_secret, write};
pub use identity::Identity;

/// The time before its making at which a certificate becomes valid, since machines' clocks differ.
const LEEWAY: Duration = Duration::from_secs(24 * 3600);
/// The lifetime of an authority; its tasks' certificates end with it at the latest.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The domain of all tasks' names. No name server knows it.
const DOMAIN: &str = "task.trainyard";

/// The certificate authority of a run. The holder of its key decides who is which task.
pub struct Authority {
    certificate: String,
    params: CertificateParams,
    key: KeyPair,
}

/// Errors of making, reading and writing certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file can't be read.
    #[error("can't read {path}: {source}; {}", way_to_read(.path, .source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("can't write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder has an authority already.
    #[error(
        "{0} exists already; a new authority would make its tasks' certificates invalid: use \
         another folder"
    )]
    Exists(PathBuf),
    /// A file is not the certificate or key that it should be.
    #[error("{path} is not a {what} in PEM: {reason}; {}", renewer(.path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
        /// The parser's error.
        reason: String,
    },
    /// A task's name is too long for a certificate.
    #[error(
        "the name of the task {0} is too long for a certificate; use a job name of at most 50 \
         letters"
    )]
    Task(TaskName),
    /// A text is not a host's name.
    #[error("`{0}` is not a host; write a DNS name or an address, without a port")]
    Host(String),
    /// A host's name would make its certificate another task's.
    #[error(
        "`{0}` is a name of the cluster's own domain, `task.trainyard`, which says what task a \
         certificate is for; name the task with --task, and its host with --host"
    )]
    Reserved(String),
    /// Others than its owner can read or change a private key.
    #[error(
        "others than its owner can read or change {0}, a private key: run `chmod 600 {0}`; if \
         somebody may have read it, make a new authority with `trainyard certs new` in another \
         folder, issue all certificates anew, and restart all tasks, since nothing revokes a \
         certificate"
    )]
    Exposed(PathBuf),
    /// A task's certificate is not valid now.
    #[error(
        "{path} is valid {validity}: `trainyard certs renew DIR --task {task}` makes another; if \
         the clock is wrong, set it"
    )]
    NotValid {
        /// The file.
        path: PathBuf,
        /// The task that it is of.
        task: TaskName,
        /// Until or from when it is valid, and the present time.
        validity: String,
    },
    /// Another authority has signed a task's certificate than the one whose certificate is there.
    #[error(
        "{0} is not signed by the authority.pem beside it, so no peer takes it: copy both from the \
         folder that one `trainyard certs issue` has written"
    )]
    OtherAuthority(PathBuf),
    /// A task's certificate can't be written beside an authority's other than its own.
    #[error(
        "{0} is not the certificate of the authority that issues here: if it is damaged, copy \
         authority.pem from the authority's folder; if it is another run's, use another folder"
    )]
    NotItsAuthority(PathBuf),
    /// The task has a certificate already.
    #[error(
        "there is {0} already, which a task may run with: `trainyard certs renew`, with the same \
         arguments, replaces it"
    )]
    Issued(PathBuf),
    /// There is no certificate to renew.
    #[error("there is no {0} to renew; `trainyard certs issue` makes a task's first certificate")]
    NotIssued(PathBuf),
    /// The cryptography library failed, for a reason that is not the user's.
    #[error("can't make a certificate: {0}")]
    Crypto(#[from] rcgen::Error),
}

impl Authority {
    /// A new authority, for the tasks of `run`.
    ///
    /// # Errors
    /// If this machine has no randomness.
    pub fn new(run: &str) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let params = authority_params(&authority_name(run));
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, params, key })
    }

    /// The authority that was saved in `folder`.
    ///
    /// # Errors
    /// If it is missing or damaged, or others can read its key.
    pub fn load(folder: &Path) -> Result<Self, CertificateError> {
        let (certificate_path, key_path) =
            (folder.join("authority.pem"), folder.join("authority.key"));
        let (certificate, key) = (read(&certificate_path)?, read_secret(&key_path)?);
        let key =
            KeyPair::from_pem(&key).map_err(|error| malformed(&key_path, "private key", &error))?;
        let name = name_of_authority(&certificate, &key)
            .map_err(|reason| malformed(&certificate_path, "certificate", &reason))?;
        Ok(Self { certificate, params: authority_params(&name), key })
    }

    /// Writes `authority.pem` and `authority.key` into `folder`; only its owner can read the key.
    ///
    /// # Errors
    /// If the folder has an authority, or nothing can be written.
    pub fn save(&self, folder: &Path) -> Result<(), CertificateError> {
        let certificate = folder.join("authority.pem");
        if certificate.exists() {
            return Err(CertificateError::Exists(certificate));
        }
        write(&folder.join("authority.key"), &self.key.serialize_pem(), Secrecy::OwnerOnly)?;
        write(&certificate, &self.certificate, Secrecy::Public)
    }

    /// Issues the identity of `task`, which listens on `hosts`: names or addresses, without a port.
    ///
    /// # Errors
    /// If a host's name is malformed, or the task's name is too long.
    pub fn issue(&self, task: &TaskName, hosts: &[String]) -> Result<Identity, CertificateError> {
        self.issue_for(task, hosts, LIFETIME)
    }

    /// [`Authority::issue`] for `lifetime` from now on. A task that connects later is refused;
    /// connections that there are then stay.
    ///
    /// # Errors
    /// Those of [`Authority::issue`].
    pub fn issue_for(
        &self,
        task: &TaskName,
        hosts: &[String],
        lifetime: Duration,
    ) -> Result<Identity, CertificateError> {
        let issuer = Issuer::from_params(&self.params, &self.key);
        let key = KeyPair::generate()?;
        let mut params = params(&task.to_string(), lifetime.min(LIFETIME));
        params.subject_alt_names.push(SanType::DnsName(dns_name(task)?));
        for host in hosts {
            params.subject_alt_names.push(alternative(host)?);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(Identity::new(certificate, key.serialize_pem(), self.certificate.clone()))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// The task whose `JOB-N.pem` or key `path` is; none if it is the authority's.
fn owner(path: &Path) -> Option<TaskName> {
    let (job, index) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    format!("{job}:{index}").parse().ok()
}

/// What to do about the file at `path`, which the system does not give.
fn way_to_read(path: &Path, error: &io::Error) -> String {
    if lacks_files(error) {
        return MORE_FILES.to_owned();
    }
    let is_half = || ["pem", "key"].iter().any(|kind| path.with_extension(kind).exists());
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run the task as the owner of the file, or make its user the owner (`chown`)".to_owned()
        }
        io::ErrorKind::NotFound if is_half() => renewer(path),
        _ => maker(path),
    }
}

/// Names the command that makes a file anew that is damaged, or one of two.
fn renewer(path: &Path) -> String {
    match owner(path) {
        Some(task) => format!("`trainyard certs renew DIR --task {task}` makes both files anew"),
        None => "copy it from the authority's folder, or make another for all tasks: `trainyard \
                 certs new DIR`"
            .to_owned(),
    }
}

/// Names the command that makes the file at `path`: `JOB-N.pem`, its key, or the authority's.
fn maker(path: &Path) -> String {
    match owner(path) {
        Some(task) => format!(
            "`trainyard certs issue DIR --task {task}` makes it, of the authority that `certs new \
             DIR` makes"
        ),
        None => "`trainyard certs new DIR` makes an authority, and `certs issue DIR --task ps:0` \
                 the certificate of a task, beside a copy of the authority's"
            .to_owned(),
    }
}

/// The DNS name of `task` in certificates. DNS names ignore case, so a capital is written as its
/// small letter and a hyphen, which no job name contains: no two tasks have the same name.
///
/// # Errors
/// If the job's name is too long.
pub(super) fn task_domain(task: &TaskName) -> Result<DnsName<'static>, CertificateError> {
    let mut name = String::new();
    for letter in task.job().chars() {
        name.push(letter.to_ascii_lowercase());
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
    }
    let name = format!("{name}-{}.{DOMAIN}", task.index());
    DnsName::try_from(name).map_err(|_| CertificateError::Task(task.clone()))
}

/// The task whose name in certificates is `domain`; none if it is a host's.
pub(super) fn task_of_domain(domain: &str) -> Option<TaskName> {
    let (name, index) = domain.strip_suffix(DOMAIN)?.strip_suffix('.')?.rsplit_once('-')?;
    let mut job = String::new();
    for letter in name.chars() {
        match letter {
            '-' => {
                let small: char = job.pop()?;
                job.push(small.to_ascii_uppercase());
            }
            _ => job.push(letter),
        }
    }
    format!("{job}:{index}").parse().ok()
}

fn dns_name(task: &TaskName) -> Result<Ia5String, CertificateError> {
    Ok(Ia5String::try_from(task_domain(task)?.as_ref())?)
}

fn alternative(host: &str) -> Result<SanType, CertificateError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let wrong = || CertificateError::Host(host.to_owned());
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if name == DOMAIN || name.strip_suffix(DOMAIN).is_some_and(|before| before.ends_with('.')) {
        return Err(CertificateError::Reserved(host.to_owned()));
    }
    let name = DnsName::try_from(host).map_err(|_| wrong())?;
    Ok(SanType::DnsName(Ia5String::try_from(name.as_ref()).map_err(|_| wrong())?))
}

/// The name of the authority of `run`, cut to the 64 letters that X.520 allows a common name.
fn authority_name(run: &str) -> String {
    format!("trainyard run {run}").chars().filter(char::is_ascii).take(64).collect()
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name, LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// The name in an authority's certificate.
///
/// # Errors
/// The reason, if it is not a certificate that [`Authority::new`] made with `key`.
fn name_of_authority(pem: &str, key: &KeyPair) -> Result<String, String> {
    let certificate =
        CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
    let mut store = RootCertStore::empty();
    store.add(certificate).map_err(|error| error.to_string())?;
    let anchor = &store.roots[0];
    // webpki gives both without the header of their outermost sequence.
    if !key.subject_public_key_info().ends_with(&anchor.subject_public_key_info) {
        return Err("authority.key is not its key".to_owned());
    }
    match &*anchor.subject {
        // RFC 5280: one set of one attribute, 2.5.4.3 (common name), as UTF-8.
        [0x31, _, 0x30, _, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, length, name @ ..]
            if name.len() == usize::from(*length) =>
        {
            String::from_utf8(name.to_vec()).map_err(|error| error.to_string())
        }
        _ => Err("trainyard did not make it".to_owned()),
    }
}

fn params(name: &str, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = (date() - LEEWAY).into();
    params.not_after = (date() + lifetime).into();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// How much of a malformed file a message shows at most.
const LETTERS: usize = 40;

fn malformed(path: &Path, what: &'static str, reason: &dyn fmt::Display) -> CertificateError {
    let reason = reason.to_string();
    let reason = with_text(&reason).unwrap_or(reason);
    CertificateError::Malformed { path: path.to_owned(), what, reason }
}

/// A parser's `reason` with text in the place of its list of bytes, if it has one.
fn with_text(reason: &str) -> Option<String> {
    let (before, rest) = reason.split_once('[')?;
    let (list, after) = rest.split_once(']')?;
    let bytes: Result<Vec<u8>, _> = list.split(", ").map(str::parse).collect();
    let text = String::from_utf8_lossy(&bytes.ok()?).into_owned();
    let text: String = text.chars().filter(|c| !c.is_control()).take(LETTERS).collect();
    Some(format!("{before}`{text}`{after}"))
}

#[cfg(test)]
mod tests;
