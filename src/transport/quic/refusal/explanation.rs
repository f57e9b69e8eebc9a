//! Why QUIC or TLS has ended a connection, in words that help.

use quinn::{ConnectionError, TransportErrorCode};

use crate::say::one_line;
use crate::transport::wire::VERSION;

/// The most that is told of a phrase which an end may send that has proved nothing \[bytes\]: one
/// of QUIC itself, and one as a task sends it.
const PHRASE: usize = 200;
const REASON: usize = 1000;

/// A TLS alert that has ended a connection, and that a user can do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Alert {
    NoCertificate,
    /// The certificate is of an authority that the one who complains does not know.
    OtherAuthority,
    /// The certificate is another run's, has expired, or is of no use otherwise.
    BadCertificate,
    /// The ends have no protocol in common.
    NoCommonProtocol,
}

impl Alert {
    /// The alert of this number (RFC 8446, 6; RFC 7301, 3.2).
    fn of(number: u64) -> Option<Self> {
        match number {
            116 => Some(Self::NoCertificate),
            48 => Some(Self::OtherAuthority),
            42..=51 => Some(Self::BadCertificate),
            120 => Some(Self::NoCommonProtocol),
            _ => None,
        }
    }
}

/// The end that TLS complains of, and the alert, if that has ended a connection.
pub(super) fn alert(error: &ConnectionError) -> Option<(&'static str, Alert)> {
    /// The first of QUIC's error codes for TLS alerts (RFC 9001, 4.8).
    const ALERTS: u64 = 0x100;
    let (who, code) = match error {
        ConnectionError::TransportError(error) => ("its", u64::from(error.code)),
        ConnectionError::ConnectionClosed(closed) => ("this task's", u64::from(closed.error_code)),
        _ => return None,
    };
    Some((who, Alert::of(code.checked_sub(ALERTS)?)?))
}

/// Explains why a connection has ended; for TLS errors, in words that help.
pub(super) fn explained(connection: &ConnectionError) -> String {
    let alert = alert(connection);
    let error = without_time_of_day(shown(connection));
    match alert {
        Some((who, Alert::NoCertificate)) => format!("{who} certificate is missing: {error}"),
        Some((who, Alert::OtherAuthority | Alert::BadCertificate)) => {
            format!("{who} certificate is not one of this run, or has expired: {error}")
        }
        Some((_, Alert::NoCommonProtocol)) => format!(
            "the two speak different versions of the protocol, of which this is {VERSION}: {error}"
        ),
        None => outdated(connection).unwrap_or(error),
    }
}

/// `error` in the words of QUIC and of the other end, on one line.
pub(super) fn shown(error: &ConnectionError) -> String {
    one_line(&brief(error).to_string())
}

/// `error` with the beginning of the other end's phrase alone.
fn brief(error: &ConnectionError) -> ConnectionError {
    let mut brief = error.clone();
    match &mut brief {
        ConnectionError::ConnectionClosed(closed) => closed.reason.truncate(PHRASE),
        ConnectionError::ApplicationClosed(closed) => closed.reason.truncate(REASON),
        _ => {}
    }
    brief
}

/// Explains that one end could not decrypt a packet that only the other can have sent, if that is
/// why a connection has ended: so look those of a connection that was given up, as a task sends
/// them that goes on after it has stood still.
fn outdated(error: &ConnectionError) -> Option<String> {
    let (code, detail) = match brief(error) {
        ConnectionError::TransportError(error) => (error.code, error.reason),
        ConnectionError::ConnectionClosed(closed) => {
            (closed.error_code, String::from_utf8_lossy(&closed.reason).into_owned())
        }
        _ => return None,
    };
    let is_undecrypted = detail.contains("authentication failed");
    let detail = one_line(&detail);
    (code == TransportErrorCode::PROTOCOL_VIOLATION && is_undecrypted).then(|| {
        format!(
            "a packet was of a connection that one of the two has given up, most likely while the \
             other stood still; they connect anew (QUIC: {detail})"
        )
    })
}

/// The `text` of rustls without the current second, which it names where a certificate is not valid
/// now: the same refusal is to have the same text each time, so that it is logged once.
fn without_time_of_day(text: String) -> String {
    const OPENING: &str = "verification time ";
    const CLOSING: &str = " (UNIX), but ";
    let Some((before, rest)) = text.split_once(OPENING) else { return text };
    let Some((_, after)) = rest.split_once(CLOSING) else { return text };
    let after = after.split_once(" (").map_or(after, |(after, _)| after);
    format!("{before}{after} (seconds since 1970)")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::CertificateError;
    use rustls_pki_types::UnixTime;

    use super::*;

    #[test]
    fn the_refusal_of_an_expired_certificate_has_the_same_text_at_each_attempt() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let told = |time, is_over| {
            let (time, limit) = (at(time), at(2_000));
            let error = match is_over {
                true => CertificateError::ExpiredContext { time, not_after: limit },
                false => CertificateError::NotValidYetContext { time, not_before: limit },
            };
            without_time_of_day(format!("invalid peer certificate: {error}"))
        };
        assert_eq!(told(2_001, true), told(2_002, true));
        assert_eq!(told(1_001, false), told(1_002, false));
        assert!(told(2_001, true).ends_with("is not valid after 2000 (seconds since 1970)"));
        assert_eq!(without_time_of_day("closed".to_owned()), "closed");
    }
}
