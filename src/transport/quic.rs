//! Tasks in processes of their own, over QUIC with mutual TLS 1.3.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::certificates::{CertificateError, Identity};
use super::{Inbox, Messages, Payload, PeerId, Transport};
use crate::cluster::{ClusterError, ClusterSpec, TaskName};

/// Which training a task is part of. Tasks of different runs do not talk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Arc<str>);

impl RunId {
    /// The run of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a task needs to be reached and to reach others.
#[derive(Debug)]
pub struct QuicConfig {
    /// The tasks that it knows, and where they listen.
    pub cluster: ClusterSpec,
    /// Which of them it is.
    pub task: TaskName,
    /// Which training it is part of.
    pub run: RunId,
    /// What it proves with who it is.
    pub identity: Identity,
    /// Where it listens; on its own port in the cluster, on all interfaces, where this is not said.
    pub listen: Option<SocketAddr>,
    /// A bound socket to listen on instead, such as one that was inherited.
    pub socket: Option<UdpSocket>,
    /// How long a peer may be silent before it is lost.
    pub silence: Duration,
    /// What is more than this is refused.
    pub limits: QuicLimits,
}

/// What a task accepts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLimits {
    /// The part of an envelope that is no tensor \[bytes\].
    pub control: usize,
    /// One tensor \[bytes\].
    pub tensor: usize,
    /// All tensors of an envelope \[bytes\].
    pub envelope: usize,
    /// What waits here to be sent to one peer \[bytes\]; what is sent beyond it is refused, with an error in the log.
    pub queue: usize,
    /// Connections whose handshake is under way.
    pub handshakes: usize,
}

/// Why a task can't be reached and can't reach others.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The cluster has no such task, or its address is none that can be listened on.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The certificate is none of the task's.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS refuses the certificate or its key.
    #[error("the certificate of {task} can't be used: {reason}; issue it anew with `trainyard certs issue`")]
    Identity {
        /// The task.
        task: TaskName,
        /// Why not.
        reason: String,
    },
    /// Nothing can listen there.
    #[error("{task} can't listen on {address}: {source}")]
    Bind {
        /// The task.
        task: TaskName,
        /// Where.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A task's end of the network.
pub struct Quic<M> {
    phantom: std::marker::PhantomData<M>,
}

impl QuicConfig {
    /// What `task` of `cluster` needs, with nothing out of the ordinary.
    pub fn new(cluster: ClusterSpec, task: TaskName, run: RunId, identity: Identity) -> Self {
        let (listen, socket, silence, limits) = (None, None, Duration::from_secs(5), QuicLimits::default());
        Self { cluster, task, run, identity, listen, socket, silence, limits }
    }
}

impl Default for QuicLimits {
    fn default() -> Self {
        Self { control: 16 << 20, tensor: 4 << 30, envelope: 16 << 30, queue: 16 << 30, handshakes: 64 }
    }
}

impl<M: Payload> Quic<M> {
    /// Listens, and dials the other tasks when there is something for them.
    ///
    /// Runs on the actix system that it is called in.
    ///
    /// # Errors
    /// If nothing can listen there, or the identity is not the task's.
    pub async fn bind(config: QuicConfig) -> Result<Rc<Self>, QuicError> {
        let _ = config;
        todo!()
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    /// The tasks for which there is something here, and which have not been reached, each with the reason.
    pub fn waiting_for(&self) -> Vec<(TaskName, String)> {
        todo!()
    }

    /// Stops: has all that was sent reach who it is for, as far as `deadline` from now permits, says that the
    /// task stops, and closes. False where not all of it is known to have been taken.
    pub async fn shut_down(&self, deadline: Duration) -> bool {
        let _ = deadline;
        todo!()
    }
}

impl<M: Payload> Transport<M> for Quic<M> {
    fn local(&self) -> PeerId {
        todo!()
    }

    fn resolve(&self, _name: &TaskName) -> Option<PeerId> {
        todo!()
    }

    fn name(&self, _peer: PeerId) -> TaskName {
        todo!()
    }

    fn send(&self, _to: PeerId, _messages: Messages<M>) {
        todo!()
    }

    fn listen(&self, _inbox: Rc<dyn Inbox<M>>) {
        todo!()
    }

    fn close(&self) {
        todo!()
    }
}
