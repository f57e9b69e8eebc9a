//! Checks a task's certificate: the authority beside it has signed it, and it is valid by this
//! machine's clock.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::UnixTime;

use super::{CertificateError, Identity};
use crate::cluster::TaskName;

/// A certificate that ends sooner is to be renewed.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// A time after the end of every certificate, from 1970 on: the last that one can name (RFC 5280,
/// 4.1.2.5).
const FAR: Duration = Duration::from_secs(253_402_300_799);

/// Checks that the certificate of `identity`, which is that of `task` in the file `path`, is signed
/// by the identity's authority and valid at the time `now`; warns if it soon is no longer.
///
/// # Errors
/// If another authority has signed it; if it has expired, or is not valid yet.
pub(super) fn check(
    identity: &Identity,
    (path, task): (&Path, &TaskName),
    now: SystemTime,
) -> Result<(), CertificateError> {
    use rustls::CertificateError::{BadSignature, UnknownIssuer};
    if let Some(BadSignature | UnknownIssuer) = problem(identity, now) {
        return Err(CertificateError::OtherAuthority(path.to_owned()));
    }
    if let Some(validity) = invalid(identity, now) {
        let validity = format!("{validity}, and it is {} now", written(now));
        return Err(CertificateError::NotValid {
            path: path.to_owned(),
            task: task.clone(),
            validity,
        });
    }
    if let Some(validity) = invalid(identity, now + SOON) {
        tracing::warn!(
            "{} is valid {validity} only: `trainyard certs renew DIR --task {task}` makes another",
            path.display()
        );
    }
    Ok(())
}

/// When the certificate ends; none if it can't be used anyhow.
pub(super) fn end(identity: &Identity) -> Option<SystemTime> {
    match problem(identity, UNIX_EPOCH + FAR)? {
        rustls::CertificateError::ExpiredContext { not_after, .. } => {
            Some(UNIX_EPOCH + Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

/// From or until when the certificate is valid, if it is not at the time `at`.
fn invalid(identity: &Identity, at: SystemTime) -> Option<String> {
    let time = |time: UnixTime| written(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    match problem(identity, at)? {
        rustls::CertificateError::ExpiredContext { not_after, .. } => {
            Some(format!("until {}", time(not_after)))
        }
        rustls::CertificateError::NotValidYetContext { not_before, .. } => {
            Some(format!("from {} on", time(not_before)))
        }
        _ => None,
    }
}

/// Why a peer would refuse the certificate at the time `at`, if it would. Files that hold no
/// certificate are refused where they are used.
fn problem(identity: &Identity, at: SystemTime) -> Option<rustls::CertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity.authority()).ok()?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let at = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    let verified = verifier.build().ok()?.verify_client_cert(&identity.certificate(), &[], at);
    match verified.err()? {
        rustls::Error::InvalidCertificate(error) => Some(error),
        _ => None,
    }
}

fn written(time: SystemTime) -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_seconds(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::date;
    use crate::transport::Authority;

    #[test]
    fn a_certificate_is_refused_before_and_after_its_time_with_both_dates_and_what_to_do() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let task = TaskName::new("ps", 0);
        let identity = Authority::new("run").unwrap().issue_for(&task, &[], 90 * DAY).unwrap();
        let path = Path::new("certs/ps-0.pem");
        let told = |now| check(&identity, (path, &task), now).map_err(|error| error.to_string());
        let now = date();
        assert_eq!((told(now), told(now + 89 * DAY)), (Ok(()), Ok(())));
        let left = end(&identity).unwrap().duration_since(now).unwrap();
        assert!(left > 89 * DAY && left <= 90 * DAY, "{left:?}");
        let is_soon_over = |now| invalid(&identity, now + SOON).is_some();
        assert_eq!((is_soon_over(now), is_soon_over(now + 61 * DAY)), (false, true));
        let (late, early) = (now + 91 * DAY, now - 2 * DAY);
        for (at, validity) in [(late, "until"), (early, "from")] {
            let error = told(at).unwrap_err();
            let begins = format!("certs/ps-0.pem is valid {validity} 2");
            assert!(error.starts_with(&begins), "{error}");
            assert!(error.contains(&format!("it is {} now", written(at))), "{error}");
            assert!(error.contains("certs renew DIR --task ps:0"), "{error}");
        }
    }
}
