//! Handshakes that have failed because a task was taken for another. QUIC keeps only the words of
//! rustls, which name the task that was dialed and those that the certificate is for.

use quinn::ConnectionError;

use super::super::certificates::task_of_domain;
use crate::cluster::TaskName;

/// The words before the name that was dialed, and before those in the certificate.
const WANTED: &str = "certificate not valid for name ";
const FOUND: &str = "valid for ";

/// The task of this run that has answered in place of the one that this task dialed, if that is why
/// there is no connection.
pub(super) fn found(error: &ConnectionError) -> Option<TaskName> {
    let ConnectionError::TransportError(error) = error else { return None };
    let (_, names) = error.reason.split_once(WANTED)?;
    let (_, names) = names.split_once(FOUND)?;
    tasks(names).next()
}

/// The task that another took this one for as it dialed, if that is why there is no connection.
pub(super) fn wanted(error: &ConnectionError) -> Option<TaskName> {
    let ConnectionError::ConnectionClosed(closed) = error else { return None };
    let reason = String::from_utf8_lossy(&closed.reason);
    tasks(reason.split_once(WANTED)?.1).next()
}

/// The tasks whose names are quoted in `text`.
fn tasks(text: &str) -> impl Iterator<Item = TaskName> {
    text.split('"').skip(1).step_by(2).filter_map(task_of_domain)
}

#[cfg(test)]
mod tests {
    use quinn::{ConnectionClose, TransportErrorCode};

    use super::*;

    #[test]
    fn who_took_this_task_for_another_tells_for_which() {
        let closed = |reason: &str| {
            ConnectionError::ConnectionClosed(ConnectionClose {
                error_code: TransportErrorCode::crypto(42),
                frame_type: None,
                reason: reason.to_owned().into(),
            })
        };
        let told = "invalid peer certificate: certificate not valid for name \
                    \"ps-1.task.trainyard\"; certificate is only valid for \
                    DnsName(\"ps-0.task.trainyard\")";
        assert_eq!(wanted(&closed(told)), Some(TaskName::new("ps", 1)));
        for told in ["", "certificate not valid for name \"example.org\"; certificate is not"] {
            assert_eq!(wanted(&closed(told)), None, "{told}");
        }
    }
}
