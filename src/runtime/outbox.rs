//! What an actor sends: to the actors of its own task at once, to other tasks when it is flushed.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use tracing::trace_span;

use crate::cluster::TaskName;
use crate::runtime::actors::Actors;
use crate::runtime::compression::Encoding;
use crate::runtime::gathered::Gathered;
use crate::runtime::messages::{PeerMessage, second_large};
use crate::transport::{Messages, Obstacle, PeerId, Refused, Transport};

/// The way from one of a task's actors to all others, of this task and of the cluster.
///
/// Messages to other tasks wait until [`Outbox::flush`]: all that an actor sends to one task in one
/// turn travels in one envelope, but each large message in one of its own.
#[derive(Clone)]
pub(crate) struct Outbox {
    pub(crate) actors: Rc<Actors>,
    transport: Rc<dyn Transport<PeerMessage>>,
    encoding: Encoding,
    outgoing: Rc<RefCell<Gathered<PeerId, Messages<PeerMessage>>>>,
}

impl Outbox {
    pub(crate) fn new(
        actors: Rc<Actors>,
        transport: Rc<dyn Transport<PeerMessage>>,
        encoding: Encoding,
    ) -> Self {
        Self { actors, transport, encoding, outgoing: Rc::default() }
    }

    /// This task.
    pub(crate) fn local(&self) -> PeerId {
        self.transport.peers().local()
    }

    pub(crate) fn resolve(&self, task: &TaskName) -> Option<PeerId> {
        self.transport.peers().resolve(task)
    }

    pub(crate) fn name(&self, peer: PeerId) -> TaskName {
        self.transport.peers().name(peer)
    }

    /// The incarnation of `peer` that this task has met last.
    pub(crate) fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.transport.peers().incarnation(peer)
    }

    /// Another task has met `incarnation` of `task`: an earlier one is lost.
    pub(crate) fn has_restarted(&self, task: &TaskName, incarnation: u64) {
        if let Some(peer) = self.resolve(task).filter(|peer| *peer != self.local()) {
            self.transport.peers().has_restarted(peer, incarnation);
        }
    }

    /// How long a connected peer may be silent before it is lost.
    pub(crate) fn silence(&self) -> Duration {
        self.transport.peers().silence()
    }

    /// How long a lost task has to come back.
    pub(crate) fn recovery(&self) -> Duration {
        let Actors { training, access, .. } = &*self.actors;
        training.recovery().unwrap_or_else(|| access.client_limit())
    }

    /// Why messages to `peer` wait, if they do.
    pub(crate) fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.transport.peers().obstacle(peer)
    }

    /// Why one of this task and `peer` refused the other when they last met, if one did. The words
    /// begin with the peer's name.
    pub(crate) fn refusal(&self, peer: PeerId) -> Option<(Refused, String)> {
        let (refused, why) = self.transport.peers().refusal(peer)?;
        Some((refused, format!("{} (refused: {why})", self.name(peer))))
    }

    /// Sends `message` to its actor at `to`; a message to another task goes with the next flush.
    pub(crate) fn send(&self, to: PeerId, message: impl Into<PeerMessage>) {
        let mut message = message.into();
        if to == self.local() {
            self.actors.dispatch(to, message);
        } else {
            self.encoding.encode(&mut message);
            let mut outgoing = self.outgoing.borrow_mut();
            outgoing.of(to, || self.actors.envelopes.take()).push(message);
        }
    }

    /// Hop 7 of a step: sends all messages that have waited since the last flush.
    pub(crate) fn flush(&self) {
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.is_empty() {
            return;
        }
        for (to, mut messages) in outgoing.drain() {
            self.actors.training.note_partner(to, &messages);
            while let Some(second) = second_large(&messages) {
                let later = messages.split_off(second);
                self.send_together(to, mem::replace(&mut messages, later));
            }
            self.send_together(to, messages);
        }
    }

    fn send_together(&self, to: PeerId, messages: Messages<PeerMessage>) {
        let span = trace_span!(
            "transport",
            from = %self.name(self.local()),
            to = %self.name(to),
            messages = messages.len()
        );
        let _in_span = span.entered();
        self.transport.send(to, messages);
    }

    /// Tells `peer`, which was lost, again what it was told about the end of the training.
    pub(crate) fn send_parting(&self, peer: PeerId) {
        for message in self.actors.training.partings.sent_to(peer) {
            self.send(peer, message);
        }
    }
}
