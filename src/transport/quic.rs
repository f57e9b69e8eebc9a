//! Tasks in processes of their own, over QUIC with mutual TLS 1.3.
//!
//! Each end dials when it has something for a peer to which there is no connection, for ever, and
//! takes the connections that its peers dial; both kinds are used in both directions. What is said
//! first is who speaks: the protocol's version, the run, the task, and the number of its life
//! (incarnation), which a certificate of the run's authority must bear out.
//!
//! | what | how |
//! |---|---|
//! | small envelopes | one after the other through one stream, several in a packet |
//! | large envelopes | a stream each, which yields to that of the small ones |
//! | a peer that is frozen, dead or cut off | [`Loss::Silent`] within [`QuicConfig::silence`] |
//! | a peer that stops | [`Loss::Stopped`], after all that it sent |
//! | a peer that has restarted | [`Loss::Restarted`] before anything of its new life |
//! | a peer that may not talk to us | told why and refused, logged once |
//!
//! Where the connections to the old life are found dead before the new one has spoken,
//! [`Loss::Silent`] comes before [`Loss::Restarted`].
//!
//! Everything runs on the thread of the actors: a message that arrives is with them without a
//! change of thread.

mod accepting;
mod dialing;
mod endpoint;
mod hello;
mod link;
mod node;
mod peer;
mod rebirth;
mod receiving;
mod security;
mod sending;
mod settings;
mod socket;

use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::certificates::{CertificateError, Identity};
use super::{Inbox, Loss, Messages, Payload, PeerId, Transport};
use crate::cluster::{ClusterError, ClusterSpec, TaskName};

use hello::Close;
use node::Node;
pub use socket::SocketBuffers;

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
    /// What waits here to be sent to one peer \[bytes\]; what is sent beyond it is refused, with an
    /// error in the log.
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
    #[error(
        "the certificate of {task} can't be used: {reason}; issue it anew with \
         `trainyard certs issue`"
    )]
    Identity {
        /// The task.
        task: TaskName,
        /// Why not.
        reason: String,
    },
    /// The machine has no randomness.
    #[error("this machine has no randomness, without which there is no security")]
    Randomness,
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
///
/// Dropping it closes its connections at once: what was sent may be lost, unless
/// [`Quic::shut_down`] came before.
pub struct Quic<M: Payload> {
    node: Rc<Node<M>>,
    local_addr: SocketAddr,
    buffers: SocketBuffers,
}

impl QuicConfig {
    /// What `task` of `cluster` needs, with nothing out of the ordinary.
    pub fn new(cluster: ClusterSpec, task: TaskName, run: RunId, identity: Identity) -> Self {
        let (listen, socket, silence, limits) =
            (None, None, Duration::from_secs(5), QuicLimits::default());
        Self { cluster, task, run, identity, listen, socket, silence, limits }
    }
}

impl Default for QuicLimits {
    fn default() -> Self {
        Self {
            control: 16 << 20,
            tensor: 4 << 30,
            envelope: 16 << 30,
            queue: 16 << 30,
            handshakes: 64,
        }
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
        let (node, local_addr, buffers) = endpoint::bind(config)?;
        tokio::task::spawn_local(accepting::accept(Rc::clone(&node)));
        Ok(Rc::new(Self { node, local_addr, buffers }))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The buffers that the system gives its socket.
    pub fn socket_buffers(&self) -> SocketBuffers {
        self.buffers
    }

    /// The tasks for which there is something here, and which have not been reached, each with the
    /// reason.
    pub fn waiting_for(&self) -> Vec<(TaskName, String)> {
        let peers = self.node.peers.borrow();
        peers.iter().filter_map(|peer| Some((peer.name.clone(), peer.waits_because()?))).collect()
    }

    /// Who was refused or has refused, by address or by name, and why; each once, the first 1024.
    pub fn refusals(&self) -> Vec<(String, String)> {
        self.node.refusals.borrow().iter().cloned().collect()
    }

    /// Stops: has all that was sent reach who it is for, as far as `deadline` from now permits,
    /// says that the task stops, and closes. False where not all of it is known to have been taken.
    pub async fn shut_down(&self, deadline: Duration) -> bool {
        self.node.is_unflushed.set(false);
        let has_flushed = tokio::time::timeout(deadline, self.flushed()).await.is_ok();
        self.close_endpoint();
        // The last packets say that the connections are closed: peers need not find out by silence.
        let _closed_anyway = tokio::time::timeout(deadline, self.node.endpoint.wait_idle()).await;
        has_flushed && !self.node.is_unflushed.get()
    }

    /// Waits until all peers have taken all, or are lost.
    async fn flushed(&self) {
        loop {
            let progress = self.node.progress.notified();
            let peers = self.node.peers.borrow().clone();
            let links: Vec<_> = peers.iter().flat_map(|peer| peer.links()).collect();
            links.iter().for_each(|link| link.say_bye());
            if links.iter().all(|link| link.sent.is_taken.get())
                && !peers.iter().any(|peer| peer.is_owed())
            {
                return;
            }
            progress.await;
        }
    }

    fn close_endpoint(&self) {
        self.node.is_closed.set(true);
        self.node.inbox.take();
        self.node.endpoint.close(Close::Stopped.code(), b"the task has stopped");
    }
}

impl<M: Payload> Drop for Quic<M> {
    fn drop(&mut self) {
        self.close_endpoint();
    }
}

impl<M: Payload> Transport<M> for Quic<M> {
    fn local(&self) -> PeerId {
        self.node.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.node.find(name).map(|peer| peer.id)
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.node.peer(peer).name.clone()
    }

    fn send(&self, to: PeerId, messages: Messages<M>) {
        let node = &self.node;
        if to == node.local {
            return node.deliver(to, messages);
        }
        let peer = node.peer(to);
        if node.is_closed.get() {
            tracing::warn!(to = %peer.name, "lost: this task has stopped");
        } else if peer.push(messages, node.limits.queue) {
            dialing::attend_to(node, &peer);
        } else {
            let limit = node.limits.queue;
            tracing::error!(
                to = %peer.name, limit,
                "lost: more bytes wait to be sent to the task than may"
            );
            // Whoever sends may not be able to hear of it before it has sent.
            let node = Rc::clone(node);
            tokio::task::spawn_local(async move { peer.lose(&node, Loss::Silent, Close::Lost) });
        }
    }

    fn listen(&self, inbox: Rc<dyn Inbox<M>>) {
        self.node.inbox.replace(Some(inbox));
    }

    fn close(&self) {
        self.node.inbox.take();
    }
}
