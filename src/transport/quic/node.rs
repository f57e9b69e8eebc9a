//! The state that all parts of a task's QUIC transport share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::iter;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, Incoming, ServerConfig, TransportConfig};
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;

use super::super::{ASKER, Identity, Inbox, Loss, Messages, Payload, PeerId};
use super::handshakes::{Handshakes, MOST_WAITING, Waiting};
use super::hello::Hello;
use super::lanes::threads::{LaneThreads, Servers};
use super::peer::Peer;
use super::refusal::Refusal;
use super::refusals::{NewRefusal, Refusals};
use super::roster::Roster;
use super::security::roles;
use super::settings::transport;
use super::socket::SocketBuffers;
use super::{QuicError, QuicLimits, RunId};
use crate::clock::{Clock, WallClock};
use crate::cluster::{ClusterSpec, TaskName};

/// The number of addresses of which an untrusted handshake is remembered.
const UNTRUSTED: usize = 1024;

/// Limits on packets buffered before the handshake, first packets not counted: for one connection,
/// and for all \[bytes\].
const WAITING_BYTES: u64 = 4 << 10;
const ALL_WAITING_BYTES: u64 = 1 << 20;

thread_local! {
    static DELIVERED: Cell<u64> = const { Cell::new(0) };
}

/// The number of envelopes from other tasks that have been delivered on this thread.
pub(crate) fn envelopes_delivered() -> u64 {
    DELIVERED.get()
}

/// A task's QUIC transport.
pub(super) struct Node<M> {
    pub(super) task: TaskName,
    pub(super) local: PeerId,
    pub(super) run: RunId,
    /// The tasks that may connect.
    pub(super) roster: ClusterSpec,
    /// The tasks that it was told of, as it tells them others of its training.
    pub(super) told_roster: Arc<Roster>,
    pub(super) incarnation: u64,
    pub(super) limits: QuicLimits,
    pub(super) silence: Duration,
    pub(super) clock: WallClock,
    pub(super) endpoint: Endpoint,
    /// The buffers of its socket.
    pub(super) buffers: SocketBuffers,
    pub(super) lanes: LaneThreads,
    pub(super) roles: RefCell<Roles>,
    /// The peers, by id.
    pub(super) peers: RefCell<Vec<Rc<Peer<M>>>>,
    pub(super) inbox: RefCell<Option<Rc<dyn Inbox<M>>>>,
    pub(super) refusals: RefCell<Refusals>,
    /// Why the first task of the cluster was refused that is of another run, or has other settings
    /// or other tasks.
    pub(super) other_run: RefCell<Option<String>>,
    /// By address: why its first handshake was refused that a certificate had ended. Its sender has
    /// not proved who it is.
    pub(super) untrusted: RefCell<BTreeMap<IpAddr, String>>,
    pub(super) handshakes: Rc<Handshakes>,
    /// The connections that peers have opened, until their handshakes begin.
    pub(super) waiting: RefCell<Waiting<Incoming>>,
    /// Whether the endpoint is closed.
    pub(super) is_closed: Cell<bool>,
    /// While the task stops: whether some message is not known to have arrived.
    pub(super) is_unflushed: Cell<bool>,
    /// Wakes whoever waits for all messages to arrive.
    pub(super) progress: Notify,
}

/// The TLS settings of a task as client and as server, with its present certificate.
pub(super) struct Roles {
    client: Arc<QuicClientConfig>,
    pub(super) server: Arc<QuicServerConfig>,
    /// The certificate of the authority, which all tasks of the run trust.
    authority: CertificateDer<'static>,
    /// When the certificate ends, if that is known.
    pub(super) end: Option<SystemTime>,
}

impl Roles {
    pub(super) fn new(task: &TaskName, identity: &Identity) -> Result<Self, QuicError> {
        let (client, server) = roles(task, identity)?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok(Self { client, server, authority: identity.authority(), end: identity.end() })
    }
}

/// The tasks of `cluster` as peers, in the cluster's order.
pub(super) fn peers<M: Payload>(cluster: &ClusterSpec) -> Vec<Rc<Peer<M>>> {
    let peer = |(id, task): (u32, TaskName)| {
        let address = cluster.task_address(&task).ok().map(str::to_owned);
        Rc::new(Peer::new(PeerId(id), task, address))
    };
    (0..).zip(cluster.tasks()).map(peer).collect()
}

impl<M: Payload> Node<M> {
    pub(super) fn peer(&self, id: PeerId) -> Rc<Peer<M>> {
        Rc::clone(&self.peers.borrow()[id.0 as usize])
    }

    pub(super) fn find(&self, name: &TaskName) -> Option<Rc<Peer<M>>> {
        self.peers.borrow().iter().find(|peer| peer.name == *name).map(Rc::clone)
    }

    /// The peer `name` at `address`; added if it was not known. None if it is known at another.
    pub(super) fn know(&self, name: &TaskName, address: &str) -> Option<PeerId> {
        if let Some(known) = self.find(name) {
            return (known.address.as_deref() == Some(address)).then_some(known.id);
        }
        Some(self.add(name, Some(address.to_owned())).id)
    }

    fn add(&self, name: &TaskName, address: Option<String>) -> Rc<Peer<M>> {
        let mut peers = self.peers.borrow_mut();
        let peer = Rc::new(Peer::new(PeerId(peers.len() as u32), name.clone(), address));
        peers.push(Rc::clone(&peer));
        peer
    }

    /// The peer `name`, which has proved its name; added if it was not known.
    pub(super) fn find_or_add(&self, name: &TaskName) -> Rc<Peer<M>> {
        self.find(name).unwrap_or_else(|| self.add(name, None))
    }

    pub(super) fn hello(&self, epoch: u64) -> Hello {
        let (run, settings) = (self.run.to_string(), Arc::clone(&self.run.settings));
        let roster = Arc::clone(&self.told_roster);
        let task = self.task.clone();
        let (incarnation, lanes) = (self.incarnation, self.lanes.ports());
        Hello { run, settings, roster, task, incarnation, epoch, lanes, lane: None }
    }

    pub(super) fn client_config(&self, is_loopback: bool) -> ClientConfig {
        let mut config = ClientConfig::new(Arc::clone(&self.roles.borrow().client) as Arc<_>);
        config.transport_config(self.transport(is_loopback));
        config
    }

    pub(super) fn server_config(&self, is_loopback: bool) -> ServerConfig {
        server_config(&self.roles.borrow().server, self.transport(is_loopback))
    }

    /// Proves the task's name with `identity` from now on.
    pub(super) fn renew(&self, identity: &Identity) -> Result<(), QuicError> {
        let new = Roles::new(&self.task, identity)?;
        if new.authority != self.roles.borrow().authority {
            return Err(QuicError::OtherAuthority { task: self.task.clone() });
        }
        self.roles.replace(new);
        self.endpoint.set_server_config(Some(self.server_config(false)));
        self.lanes.renew(Servers::new(self.server_config(true), self.server_config(false)));
        Ok(())
    }

    fn transport(&self, is_loopback: bool) -> Arc<TransportConfig> {
        transport(is_loopback.then_some(self.buffers), self.silence)
    }

    /// All its endpoints: the actors' thread's, then those of its lanes.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        iter::once(&self.endpoint).chain(self.lanes.endpoints())
    }

    pub(super) fn deliver(&self, from: PeerId, messages: Messages<M>) {
        DELIVERED.set(DELIVERED.get() + 1);
        let inbox = self.inbox.borrow().clone();
        match inbox {
            Some(inbox) => inbox.deliver(from, messages),
            None => {
                tracing::debug!(
                    task = %self.task, ?from,
                    "messages are lost: the task does not listen"
                )
            }
        }
    }

    /// Runs `work` of the transport beside all else. Its panic is reported, so that the task ends
    /// and does not wait for messages that nobody carries any more.
    pub(super) fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let node = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            if let (Err(panic), Some(node)) = (ended, node.upgrade()) {
                let inbox = node.inbox.borrow().clone();
                inbox.iter().for_each(|inbox| inbox.broken(&*panic));
            }
        });
    }

    /// The reason for giving up `peer`, as this task's log and that peer are told.
    pub(super) fn has_heard_nothing_from(&self, peer: &TaskName) -> String {
        format!("{} has heard nothing from {peer} for {:?}", self.task, self.silence)
    }

    pub(super) fn report(&self, peer: &Peer<M>, loss: Loss) {
        tracing::info!(task = %self.task, peer = %peer.name, %loss, "a peer is lost");
        let inbox = self.inbox.borrow().clone();
        if let Some(inbox) = inbox {
            inbox.lost(peer.id, loss);
        }
    }

    /// Notes the refusal of a task of the cluster that is of another run, or has other settings
    /// or other tasks.
    pub(super) fn note_other_run(&self, refusal: &Refusal) {
        if let Refusal::Run(sender, ..)
        | Refusal::Setting(sender, ..)
        | Refusal::Cluster(sender, ..) = refusal
            && self.roster.contains(sender)
        {
            self.find_or_add(sender).note_refusal(refusal);
            self.other_run.borrow_mut().get_or_insert_with(|| refusal.to_string());
        }
    }

    /// Notes the `refusal` of a handshake that `address` has opened, for the reason `why`, if one
    /// of the two does not trust the other's certificate.
    pub(super) fn note_untrusted(&self, refusal: &Refusal, address: IpAddr, why: &str) {
        let mut untrusted = self.untrusted.borrow_mut();
        if refusal.is_of_trust() && untrusted.len() < UNTRUSTED {
            untrusted.entry(address).or_insert_with(|| why.to_owned());
        }
    }

    /// Logs, once, the `refusal` by or of `who`, with its reason `why`. Who asks for a status is
    /// answered with it.
    pub(super) fn note_refusal(&self, who: String, refusal: &Refusal, why: String) {
        if self.is_new(&who, refusal, &why) {
            match self.task.job() {
                ASKER => tracing::info!(task = %self.task, who, why, "no connection"),
                _ => tracing::warn!(task = %self.task, who, why, "no connection"),
            }
        }
    }

    /// Notes that `who` has made a mistake, of which it is told: the log of this task needs no
    /// warning.
    pub(super) fn note_mistake(&self, who: String, refusal: &Refusal, why: String) {
        if self.is_new(&who, refusal, &why) {
            tracing::info!(task = %self.task, who, why, "no connection");
        }
    }

    /// Remembers the `refusal` by or of `who`; whether it is a new one.
    fn is_new(&self, who: &str, refusal: &Refusal, why: &str) -> bool {
        let (sender, kind, at) = (refusal.sender(), refusal.kind(), self.clock.now());
        self.refusals.borrow_mut().add(&NewRefusal { who, sender, kind, why, at })
    }

    pub(super) fn note_unflushed(&self) {
        self.is_unflushed.set(true);
    }
}

pub(super) fn server_config(
    role: &Arc<QuicServerConfig>,
    transport: Arc<TransportConfig>,
) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(Arc::clone(role) as Arc<_>);
    config.transport_config(transport).migration(false);
    config
        .max_incoming(2 * MOST_WAITING)
        .incoming_buffer_size(WAITING_BYTES)
        .incoming_buffer_size_total(ALL_WAITING_BYTES);
    config
}
