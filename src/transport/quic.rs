//! Tasks in processes of their own, over QUIC with mutual TLS 1.3.
//!
//! A task dials a peer when it has messages for it and no connection, and never gives up; it also
//! accepts connections that peers dial. Both kinds carry messages in both directions. Each end
//! first introduces itself: the protocol's version, the run, the task, and its incarnation. A
//! certificate of the run's authority must prove the task's name.
//!
//! | what | how |
//! |---|---|
//! | small envelopes | one after the other through one stream, several in a packet |
//! | large envelopes | a stream each, which yields to that of the small ones; or lanes |
//! | a peer that is frozen, dead or cut off | [`Loss::Silent`] within [`QuicConfig::silence`] |
//! | a peer that hears nothing of this task, and gives it up | [`Loss::Unheard`] |
//! | an envelope that can't be sent, queued or read | [`Loss::Broken`], at both ends |
//! | a peer that stops | [`Loss::Stopped`], after all that it sent |
//! | a peer that has restarted | [`Loss::Restarted`], before any message of its new incarnation |
//! | a peer that may not connect | refused with the reason, logged once |
//!
//! A loss is reported once: if the connections to the old incarnation are found dead before the new
//! one connects, it is [`Loss::Silent`], and the new one's arrival is no other loss.
//!
//! All but lanes runs on the actors' thread, so that a message reaches them without a change of
//! thread.

mod accepting;
mod addresses;
mod config;
mod dialing;
mod endpoint;
mod handshakes;
mod hello;
mod lanes;
mod mistaken;
mod node;
mod peer;
mod peer_connection;
mod priorities;
mod rebirth;
mod receiving;
mod refusal;
mod refusals;
mod roster;
mod security;
mod sending;
mod settings;
mod silence;
mod socket;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::certificates::Identity;
use super::{Inbox, Loss, Messages, Obstacle, Payload, PeerId, Peers, Refused, Transport};
use crate::clock::Clock;
use crate::cluster::TaskName;

pub(crate) use lanes::{SPREAD_ENVELOPE, lanes_of};
pub(crate) use node::envelopes_delivered;
pub(crate) use sending::LARGE_ENVELOPE;

use node::Node;
use peer::Peer;
use refusal::Close;

pub use config::{QuicConfig, QuicError, QuicLimits, RunId};
pub use socket::SocketBuffers;

/// The QUIC transport of one task.
///
/// Dropping it closes its connections at once, and messages under way may be lost; call
/// [`Quic::shut_down`] first.
pub struct Quic<M: Payload> {
    node: Rc<Node<M>>,
    local_addr: SocketAddr,
}

shown!([M: Payload] Quic<M>, local_addr);

impl<M: Payload> Quic<M> {
    /// Listens, and dials other tasks when there are messages for them.
    ///
    /// Runs on the actix system that it is called in.
    ///
    /// # Errors
    /// If it can't listen on its address, or the identity is not the task's.
    pub async fn bind(config: QuicConfig) -> Result<Rc<Self>, QuicError> {
        let (node, local_addr, arrivals) = endpoint::bind(config)?;
        node.spawn(lanes::attend(Rc::clone(&node), arrivals));
        node.spawn(accepting::accept(Rc::clone(&node)));
        Ok(Rc::new(Self { node, local_addr }))
    }

    /// Proves its name with `identity` from now on, in new connections.
    ///
    /// # Errors
    /// If the identity is not the task's, its key is another certificate's, or its authority is not
    /// the one that is in use: the task keeps the identity that it has.
    pub fn renew(&self, identity: &Identity) -> Result<(), QuicError> {
        self.node.renew(identity)
    }

    /// Makes `task` known at `address`, `host:port`; none if it is known at another.
    pub fn know(&self, task: &TaskName, address: &str) -> Option<PeerId> {
        self.node.know(task, address)
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The tasks that have not been reached though there are messages for them, each with the
    /// reason.
    pub fn waiting_for(&self) -> Vec<(TaskName, Obstacle)> {
        let peers = self.node.peers.borrow();
        peers.iter().filter_map(|peer| Some((peer.name.clone(), peer.obstacle()?))).collect()
    }

    /// Whether something that is for `peer` has not been written.
    pub(crate) fn has_unwritten(&self, peer: PeerId) -> bool {
        self.node.peer(peer).has_unwritten()
    }

    /// Whether `peer` is connected.
    pub(crate) fn is_connected(&self, peer: PeerId) -> bool {
        self.node.peer(peer).way().is_some()
    }

    /// The refusals in either direction: the peer's address or name, and the reason. Each once: the
    /// first 1024 of peers that have proved who they are, and the last 512 of others, of which one
    /// address has a few.
    pub fn refusals(&self) -> Vec<(String, String)> {
        self.node.refusals.borrow().all()
    }

    /// Those refusals after which the two have not connected, each with the time since it last
    /// happened.
    pub(crate) fn standing_refusals(&self) -> Vec<(String, String, Duration)> {
        let (standing, now) = (self.node.refusals.borrow().standing(), self.node.clock.now());
        standing.into_iter().map(|(who, why, at)| (who, why, now.since(at))).collect()
    }

    /// Why the first task of the cluster was refused that is of another run than this task, or has
    /// other settings, if one was.
    pub fn other_run(&self) -> Option<String> {
        self.node.other_run.borrow().clone()
    }

    /// Why a handshake that another had opened was refused for a certificate, and whether it came
    /// from the address of a task of the cluster: the first such, or else the first of all.
    pub(crate) async fn untrusted(&self) -> Option<(String, bool)> {
        let node = &self.node;
        let untrusted = node.untrusted.borrow().clone();
        let first = untrusted.iter().next()?;
        let ours = addresses::of_others(node).await;
        let of_cluster = untrusted.iter().find(|(address, _)| ours.contains(address));
        let (address, why) = of_cluster.unwrap_or(first);
        Some((format!("a connection from {address} was refused: {why}"), of_cluster.is_some()))
    }

    /// When its certificate ends, if that is known.
    pub(crate) fn certificate_end(&self) -> Option<SystemTime> {
        self.node.roles.borrow().end
    }

    /// Sends all queued messages, tells the peers that the task stops, and closes. After `limit` it
    /// gives the messages up, and waits as long again at most until the peers know. Returns whether
    /// all messages are known to have arrived.
    pub async fn shut_down(&self, limit: Duration) -> bool {
        self.shut_down_within(limit, limit).await
    }

    /// The same; peers that are not connected, and were not of late, are waited for no longer than
    /// `absent`, if that is less.
    pub(crate) async fn shut_down_within(&self, limit: Duration, absent: Duration) -> bool {
        self.node.is_unflushed.set(false);
        let has_flushed =
            tokio::time::timeout(absent.min(limit), self.flushed(|_| true)).await.is_ok();
        if !has_flushed {
            let node = &self.node;
            let others = self.flushed(|peer| peer.was_there(node.clock.now(), node.silence));
            let _in_time = tokio::time::timeout(limit.saturating_sub(absent), others).await;
        }
        self.close_endpoint();
        // The last packets close the connections, so that peers don't have to find out by silence.
        let _closed_anyway = tokio::time::timeout(limit, self.closed()).await;
        has_flushed && !self.node.is_unflushed.get()
    }

    /// Waits until all peers have received everything or are lost; of messages that wait for a
    /// connection, those alone count that are for peers of which `is_awaited` is true.
    async fn flushed(&self, is_awaited: impl Fn(&Peer<M>) -> bool) {
        loop {
            let progress = self.node.progress.notified();
            let peers = self.node.peers.borrow().clone();
            let links: Vec<_> = peers.iter().flat_map(|peer| peer.links()).collect();
            for link in &links {
                link.say_bye();
            }
            if links.iter().all(|link| link.sent.is_taken.get())
                && !peers.iter().any(|peer| peer.is_owed() && is_awaited(peer))
            {
                return;
            }
            progress.await;
        }
    }

    /// Waits until the peers know that all connections are closed.
    async fn closed(&self) {
        for endpoint in self.node.endpoints() {
            endpoint.wait_idle().await;
        }
    }

    fn close_endpoint(&self) {
        self.node.is_closed.set(true);
        self.node.inbox.take();
        drop(self.node.waiting.take());
        for endpoint in self.node.endpoints() {
            endpoint.close(Close::Stopped.code(), b"the task has stopped");
        }
    }
}

impl<M: Payload> Drop for Quic<M> {
    fn drop(&mut self) {
        self.close_endpoint();
    }
}

impl<M: Payload> Transport<M> for Quic<M> {
    fn peers(&self) -> &dyn Peers {
        self
    }

    fn send(&self, to: PeerId, messages: Messages<M>) {
        let node = &self.node;
        if to == node.local {
            return node.deliver(to, messages);
        }
        let peer = node.peer(to);
        if node.is_closed.get() {
            tracing::warn!(to = %peer.name, "messages are lost: this task has stopped");
        } else if peer.push(messages, node.limits.queue) {
            dialing::attend_to(node, &peer);
        } else {
            let limit = node.limits.queue;
            tracing::error!(
                to = %peer.name, limit,
                "messages are lost: the queue to the task is full"
            );
            // Not at once: the sender may hold a borrow that the report of the loss needs.
            let of_peer = Rc::clone(node);
            node.spawn(async move { peer.lose(&of_peer, Loss::Broken, Close::Lost) });
        }
    }

    fn listen(&self, inbox: Rc<dyn Inbox<M>>) {
        self.node.inbox.replace(Some(inbox));
    }

    fn close(&self) {
        self.node.inbox.take();
    }
}

impl<M: Payload> Peers for Quic<M> {
    fn local(&self) -> PeerId {
        self.node.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.node.find(name).map(|peer| peer.id)
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.node.peer(peer).name.clone()
    }

    fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.node.peer(peer).incarnation()
    }

    fn has_restarted(&self, peer: PeerId, incarnation: u64) {
        self.node.peer(peer).outlive(&self.node, incarnation);
    }

    fn silence(&self) -> Duration {
        self.node.silence
    }

    fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.node.peer(peer).obstacle()
    }

    fn refusal(&self, peer: PeerId) -> Option<(Refused, String)> {
        self.node.peer(peer).refusal()
    }
}
