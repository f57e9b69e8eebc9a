//! What a task's QUIC transport is given, and why it can't begin with it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::super::certificates::{CertificateError, Identity};
use super::super::wire::WireLimits;
use crate::cluster::{ClusterError, ClusterSpec, TaskName};
use crate::process::more_files;

/// The training that a task is part of. Tasks of different runs refuse each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    name: Arc<str>,
    /// The settings that must be equal on all its tasks; empty for a task that has none to compare.
    pub(super) settings: Arc<BTreeMap<String, String>>,
}

impl RunId {
    /// The run of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), settings: Arc::default() }
    }

    /// The same run with `settings`, by their names, that must be equal on all its tasks. Tasks
    /// with other values refuse each other; one without any settings goes with all.
    ///
    /// # Panics
    /// If all of them together are longer than 3,000 bytes.
    #[must_use]
    pub fn with_settings(self, settings: BTreeMap<String, String>) -> Self {
        let length: usize = settings.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(length <= 3_000, "an introduction has no room for {length} bytes of settings");
        Self { settings: Arc::new(settings), ..self }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The configuration of [`Quic`](super::Quic).
#[derive(Debug)]
pub struct QuicConfig {
    /// The tasks and their addresses.
    pub cluster: ClusterSpec,
    /// The tasks that may connect, of whatever address. Clients may, too (`client:N`).
    pub roster: ClusterSpec,
    /// This task.
    pub task: TaskName,
    /// The training that it is part of.
    pub run: RunId,
    /// Its certificate and key.
    pub identity: Identity,
    /// The address to listen on; `None` for the task's port in the cluster, on all interfaces.
    pub listen: Option<SocketAddr>,
    /// A bound socket to listen on instead, such as one that was inherited.
    pub socket: Option<UdpSocket>,
    /// The time that a peer may be silent before it is lost.
    pub silence: Duration,
    /// The number of threads that encrypt large envelopes beside the actors' thread, over lanes
    /// of their own; none for a task with few cores.
    pub lanes: usize,
    /// The limits above which messages are refused.
    pub limits: QuicLimits,
}

/// The limits on what a task accepts and queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLimits {
    /// The greatest lengths that are accepted and sent.
    pub wire: WireLimits,
    /// The queue to one peer \[bytes\]. If more would wait, the peer is lost, and with it all that
    /// waits.
    pub queue: usize,
    /// The number of handshakes at a time.
    pub handshakes: usize,
}

impl QuicConfig {
    /// The time after which a peer that is not heard of is lost, where nobody has said another.
    pub const SILENCE: Duration = Duration::from_secs(5);

    /// The configuration of `task` of `cluster`, with the default settings.
    pub fn new(cluster: ClusterSpec, task: TaskName, run: RunId, identity: Identity) -> Self {
        let (listen, socket, silence) = (None, None, Self::SILENCE);
        let (lanes, limits) = (0, QuicLimits::default());
        let roster = cluster.clone();
        Self { cluster, roster, task, run, identity, listen, socket, silence, lanes, limits }
    }
}

impl Default for QuicLimits {
    fn default() -> Self {
        Self { wire: WireLimits::default(), queue: 16 << 30, handshakes: 64 }
    }
}

/// Errors of [`Quic::bind`](super::Quic::bind).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The cluster has no such task, or nothing can listen on its address.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The certificate is damaged or malformed.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS refuses the certificate or its key.
    #[error(
        "the certificate of {task}, or its key, can't be used: {reason}; `trainyard certs renew \
         DIR --task {task}` makes both files anew"
    )]
    Identity {
        /// The task that the certificate is for.
        task: TaskName,
        /// The reason.
        reason: String,
    },
    /// The new certificate of a running task is of an authority that the other tasks do not trust.
    #[error(
        "the new certificate of {task} is of another authority, and is not taken: issue it from \
         that of the run, or restart all tasks with certificates of the new one"
    )]
    OtherAuthority {
        /// The task.
        task: TaskName,
    },
    /// The machine provides no randomness.
    #[error("this machine provides no randomness, which encryption needs")]
    Randomness,
    /// The task can't listen on its address.
    #[error("{task} can't listen on {address}: {source}{}", listening_elsewhere(.source))]
    Bind {
        /// The task.
        task: TaskName,
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
}

/// What to do where a task can't listen on its address.
fn listening_elsewhere(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; end the process that has the port, perhaps this task from before, or give the task \
             another in every task's cluster"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine does not have that address: start the task on the one that has, or \
             correct it in every task's cluster"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 are the system's: give it another",
        _ => more_files(error),
    }
}
