//! Reasons to refuse or to close a connection, as each end tells the other and its user.

mod explanation;
mod outsiders;

use std::net::IpAddr;

use quinn::{ConnectionError, TransportErrorCode, VarInt};

use super::super::wire::WireError;
use super::super::{ASKER, Refused};
use super::RunId;
use super::mistaken;
use crate::cluster::{ClusterSpec, Role, TaskName};

use explanation::{Alert, alert, explained, shown};
use outsiders::{outlived, same_run};

/// The reason for closing a connection, as the other end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The task stops.
    Stopped,
    /// The other end may not connect.
    Refused,
    /// A message was malformed.
    Garbage,
    /// The two tasks have lost each other, perhaps on another connection.
    Lost,
    /// The other end is of another training, has other settings, or is not in this task's cluster.
    OtherRun,
    /// A later incarnation of the other end has connected before.
    Outlived,
    /// The other end was not heard of for too long. It may hear this one, as it still runs.
    Silent,
}

impl Close {
    pub(super) fn code(self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Stopped => 0,
            Self::Refused => 1,
            Self::Garbage => 2,
            Self::Lost => 3,
            Self::OtherRun => 4,
            Self::Outlived => 5,
            Self::Silent => 6,
        })
    }
}

/// The kind of a refusal where the other end has not proved who it is. That end chooses the words
/// of a refusal, but only among these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// It does not answer.
    Silent,
    /// It took this task for another.
    Mistaken,
    /// It complains of this task.
    OfUs(Option<Alert>),
    /// This task complains of it.
    OfThem(Option<Alert>),
}

/// The reason why there is no connection to a peer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    // Either end may print these four, so they name both.
    #[error(
        "{0} takes part in the training `{1}`, and {2} in `{3}`: {advice}",
        advice = same_run(.0, .2)
    )]
    Run(TaskName, String, TaskName, RunId),
    #[error("{0} has {1}, and {2} {3}: start both with the same scenario and the same `--set`")]
    Setting(TaskName, String, TaskName, String),
    #[error(
        "{0} was started with {1}, and {2} with {3}: start all tasks with the same cluster, as by \
         the same `--ps-hosts` and `--worker-hosts`"
    )]
    Cluster(TaskName, String, TaskName, String),
    #[error(
        "{sender} is not among the tasks that {task} knows ({known}): start all tasks with the \
         same addresses"
    )]
    NotListed { sender: TaskName, task: TaskName, known: String },
    #[error("it says that it is {0}, but its certificate has another name")]
    Name(TaskName),
    #[error(
        "{address} is {found}, not {wanted}: mend the address, the task's name, or the order of \
         the addresses in the cluster"
    )]
    OtherTask { address: String, found: TaskName, wanted: TaskName },
    #[error("{}", outlived(.0))]
    Outlived(TaskName),
    #[error(
        "somebody else looks with the same certificate; look again, or with that of another client"
    )]
    OtherLook,
    #[error(
        "{0} is neither a task of this cluster nor a client; issue it a certificate as `client:N`"
    )]
    Stranger(TaskName),
    #[error("it does not answer")]
    Silent,
    #[error("it has no such lane, or not for this connection")]
    NoSuchLane,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{}", explained(.0))]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    #[error(transparent)]
    Connect(#[from] quinn::ConnectError),
    #[error("its address can't be found: {0}")]
    Address(#[from] std::io::Error),
    #[error("its host has no address")]
    NoAddress,
}

impl Refusal {
    /// The reason to give to the other end.
    pub(super) fn close(&self) -> Close {
        match self {
            Self::Wire(_) => Close::Garbage,
            Self::Run(..) | Self::Setting(..) | Self::Cluster(..) | Self::NotListed { .. } => {
                Close::OtherRun
            }
            Self::Outlived(_) => Close::Outlived,
            _ => Close::Refused,
        }
    }

    /// Whether it is of one who only asks for the status of a task of `roster`, and has made a
    /// mistake in that.
    pub(super) fn is_of_asker(&self, roster: &ClusterSpec) -> bool {
        match self {
            Self::OtherLook => true,
            Self::Run(sender, ..) | Self::Setting(sender, ..) => {
                sender.job() == ASKER && !roster.contains(sender)
            }
            _ => false,
        }
    }

    /// Whether who dialed this task took it for another, and so has refused it.
    pub(super) fn took_for_another(&self) -> bool {
        matches!(self, Self::Connection(error) if mistaken::wanted(error).is_some())
    }

    /// The reason in the words of the end that was dialed from `address`. Whoever dials may have
    /// any certificate, know another authority than all tasks of the run, and take this task for
    /// another: that this task's certificate is at fault does not follow.
    pub(super) fn of_dialed(&self, address: IpAddr) -> String {
        let Self::Connection(error @ ConnectionError::ConnectionClosed(_)) = self else {
            return self.to_string();
        };
        if let Some(wanted) = mistaken::wanted(error) {
            return format!(
                "who dialed from {address} took this task for another ({wanted}): the address, or \
                 the order of the addresses, is wrong there"
            );
        }
        match alert(error) {
            Some((_, Alert::OtherAuthority)) => format!(
                "who dialed from {address} does not trust this run's authority: it, or this task, \
                 has another run's certificates: {}",
                shown(error)
            ),
            _ => self.to_string(),
        }
    }

    /// The task that has proved its name, and was refused all the same.
    pub(super) fn sender(&self) -> Option<&TaskName> {
        match self {
            Self::Run(sender, ..)
            | Self::Setting(sender, ..)
            | Self::Cluster(sender, ..)
            | Self::NotListed { sender, .. }
            | Self::Outlived(sender) => Some(sender),
            _ => None,
        }
    }

    /// Its kind, if the other end need not have proved who it is.
    pub(super) fn kind(&self) -> Option<Kind> {
        let Self::Connection(error) = self else {
            return matches!(self, Self::Silent).then_some(Kind::Silent);
        };
        let alert = alert(error).map(|(_, alert)| alert);
        Some(match error {
            _ if self.took_for_another() => Kind::Mistaken,
            ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
                Kind::OfUs(alert)
            }
            _ => Kind::OfThem(alert),
        })
    }

    /// The error of the connection, if that is the reason.
    fn of_connection(&self) -> Option<&ConnectionError> {
        match self {
            Self::Connection(error)
            | Self::Read(quinn::ReadError::ConnectionLost(error))
            | Self::Write(quinn::WriteError::ConnectionLost(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether one of the two has given up the connection before it was made, and refuses nobody:
    /// its task ends, has no room for another handshake, or has lost patience and dials again.
    pub(super) fn is_given_up(&self) -> bool {
        /// What QUIC says for an endpoint that is closed, and for a handshake that is given up.
        const GIVEN_UP: [TransportErrorCode; 2] =
            [TransportErrorCode::CONNECTION_REFUSED, TransportErrorCode::APPLICATION_ERROR];
        match self.of_connection() {
            Some(ConnectionError::LocallyClosed) => true,
            Some(ConnectionError::ConnectionClosed(closed)) => {
                GIVEN_UP.contains(&closed.error_code)
            }
            Some(ConnectionError::ApplicationClosed(closed)) => {
                closed.error_code == Close::Stopped.code()
            }
            _ => false,
        }
    }

    /// Whether one of the two does not trust the other's certificate. Who takes a task for another
    /// trusts it.
    pub(super) fn is_of_trust(&self) -> bool {
        let Self::Connection(error) = self else { return false };
        let is_of_certificate = matches!(
            alert(error),
            Some((_, Alert::NoCertificate | Alert::OtherAuthority | Alert::BadCertificate))
        );
        is_of_certificate && mistaken::wanted(error).is_none()
    }

    /// Why dialing again does not help, if it does not.
    pub(super) fn refused(&self) -> Option<Refused> {
        let closed = |error: &ConnectionError| {
            let ConnectionError::ApplicationClosed(closed) = error else { return None };
            let is_for = |close: Close| closed.error_code == close.code();
            let outlived = is_for(Close::Outlived).then_some(Refused::Outlived);
            outlived.or_else(|| is_for(Close::OtherRun).then_some(Refused::Run))
        };
        match self {
            Self::Name(_) => Some(Refused::Certificate),
            Self::Run(..)
            | Self::Setting(..)
            | Self::Cluster(..)
            | Self::NotListed { .. }
            | Self::OtherTask { .. } => Some(Refused::Run),
            _ => {
                let error = self.of_connection()?;
                match alert(error) {
                    Some((_, Alert::NoCommonProtocol)) => Some(Refused::Run),
                    Some(_) => Some(Refused::Certificate),
                    None => closed(error),
                }
            }
        }
    }
}

/// The refusal of `sender`, which is not in the `roster` of `task`: it has the job of a task, and
/// so another list of the tasks, or is somebody else.
pub(super) fn unlisted(sender: TaskName, task: &TaskName, roster: &ClusterSpec) -> Refusal {
    /// How many tasks are named.
    const NAMED: usize = 6;
    let is_task = roster.jobs().any(|job| job == sender.job())
        || matches!(sender.role(), Role::Worker | Role::ParameterServer);
    if !is_task {
        return Refusal::Stranger(sender);
    }
    let (named, all) = (roster.tasks().take(NAMED), roster.tasks().count());
    let mut known = named.map(|task| task.to_string()).collect::<Vec<_>>().join(", ");
    if all > NAMED {
        append!(known, " and {} more", all - NAMED);
    }
    Refusal::NotListed { sender, task: task.clone(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_or_dials_again_refuses_nobody() {
        let closed = |error_code| {
            let reason = Default::default();
            Refusal::Connection(ConnectionError::ConnectionClosed(quinn::ConnectionClose {
                error_code,
                frame_type: None,
                reason,
            }))
        };
        let by_task = |close: Close| {
            let (error_code, reason) = (close.code(), Default::default());
            let closed = quinn::ApplicationClose { error_code, reason };
            let error = ConnectionError::ApplicationClosed(closed);
            Refusal::Read(quinn::ReadError::ConnectionLost(error))
        };
        assert!(closed(TransportErrorCode::CONNECTION_REFUSED).is_given_up());
        assert!(closed(TransportErrorCode::APPLICATION_ERROR).is_given_up());
        assert!(by_task(Close::Stopped).is_given_up());
        assert!(!closed(TransportErrorCode::crypto(48)).is_given_up());
        assert!(!by_task(Close::Refused).is_given_up() && !Refusal::Silent.is_given_up());
        assert_eq!(by_task(Close::OtherRun).refused(), Some(Refused::Run));
    }

    #[test]
    fn a_worker_that_is_not_listed_is_told_to_mend_the_addresses_and_not_to_be_a_client() {
        let (ps, roster) = (TaskName::new("ps", 0), |workers| {
            ClusterSpec::simulated([("ps", 1), ("worker", workers)]).unwrap()
        });
        let refusal =
            |sender: &str, workers| unlisted(TaskName::new(sender, 9), &ps, &roster(workers));
        let (worker, other) = (refusal("worker", 2), refusal("tester", 2));
        let told = "worker:9 is not among the tasks that ps:0 knows (ps:0, worker:0, worker:1): \
                    start all tasks with the same addresses";
        assert_eq!(worker.to_string(), told);
        assert_eq!((worker.close(), worker.refused()), (Close::OtherRun, Some(Refused::Run)));
        assert!(refusal("worker", 8).to_string().contains("worker:4 and 3 more)"));
        assert!(other.to_string().contains("issue it a certificate as `client:N`"), "{other}");
        assert_eq!((other.close(), other.refused()), (Close::Refused, None));
    }

    #[test]
    fn the_words_of_one_who_has_proved_nothing_are_few_and_on_one_line() {
        let closed = |code, reason: String| {
            let reason = reason.into();
            let closed = quinn::ConnectionClose { error_code: code, frame_type: None, reason };
            Refusal::Connection(ConnectionError::ConnectionClosed(closed))
        };
        let address = IpAddr::from([10, 0, 0, 9]);
        for code in [48, 42, 1].map(TransportErrorCode::crypto) {
            let told = closed(code, "a\u{1b}[2J\nps:0 is fine\u{202e}".to_owned());
            for told in [told.to_string(), told.of_dialed(address)] {
                assert!(told.ends_with(r"a\u{1b}[2J\nps:0 is fine\u{202e}"), "{told}");
            }
            let long = closed(code, "ü".repeat(500));
            assert!(long.to_string().len().max(long.of_dialed(address).len()) < 500, "{long}");
        }
        let reason = "a\n".repeat(30_000).into();
        let error_code = Close::Refused.code();
        let closed_by_task = quinn::ApplicationClose { error_code, reason };
        let told = Refusal::Connection(ConnectionError::ApplicationClosed(closed_by_task));
        assert!(!told.to_string().contains('\n') && told.to_string().len() < 2_000, "{told}");
        let undecrypted = format!("authentication failed\n{}", "ü".repeat(500));
        let told = closed(TransportErrorCode::PROTOCOL_VIOLATION, undecrypted).to_string();
        assert!(told.contains(r"failed\nü") && told.len() < 500, "{told}");
    }

    #[test]
    fn a_packet_of_a_connection_that_was_given_up_is_told_without_the_words_of_quic() {
        let closed = quinn::ConnectionClose {
            error_code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame_type: None,
            reason: "authentication failed".into(),
        };
        let told = Refusal::Connection(ConnectionError::ConnectionClosed(closed)).to_string();
        let says = "a packet was of a connection that one of the two has given up, most likely \
                    while the other stood still; they connect anew (QUIC: authentication failed)";
        assert_eq!(told, says);
    }
}
