//! A peer: the queue to it, its links, and its incarnation.
//!
//! A connection belongs to an epoch: the number of times that the two tasks have lost each other.
//! When a connection breaks, both ends give up all connections and queued messages between them,
//! and the epoch ends; a handshake of an epoch that has ended starts again. So both ends count the
//! same losses, and no message from before a loss arrives after it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::super::{
    ASKER, CLIENT, Loss, Messages, Obstacle, Payload, PeerId, Refused, envelope_size,
};
use super::hello::Hello;
use super::node::Node;
use super::peer_connection::{PeerConnection, Side};
use super::refusal::{Close, Refusal};
use crate::clock::Clock;
use crate::cluster::TaskName;
use crate::units::Time;

/// A peer of this task.
pub(super) struct Peer<M> {
    pub(super) id: PeerId,
    pub(super) name: TaskName,
    /// Its address, `host:port`; unknown if only it has this task's.
    pub(super) address: Option<String>,
    state: RefCell<PeerState<M>>,
}

struct PeerState<M> {
    /// Envelopes with their lengths \[bytes\].
    queue: VecDeque<(Messages<M>, usize)>,
    /// The length of all envelopes that are queued or being written \[bytes\].
    waiting: usize,
    /// The links. The first is used for sending; there is a second if both ends dialed.
    links: Vec<Rc<PeerConnection>>,
    epoch: u64,
    /// The latest incarnation that has connected. No earlier one does after it.
    incarnation: Option<u64>,
    /// The latest incarnation that other tasks say they have met. It ends the links to an earlier
    /// one. It refuses no connection: others may be wrong, and who connects proves what it is.
    heard: Option<u64>,
    is_dialing: bool,
    /// The number of its connections that it has been greeted on, and that are yet to join.
    joining: usize,
    /// The reason why it has not been reached.
    obstacle: Option<Obstacle>,
    /// Why one of the two refused the other when they last met, if one did.
    refusal: Option<(Refused, String)>,
    has_stopped: bool,
    /// When its last link was lost.
    lost_at: Option<Time>,
}

impl<M: Payload> Peer<M> {
    pub(super) fn new(id: PeerId, name: TaskName, address: Option<String>) -> Self {
        let state = PeerState {
            queue: VecDeque::new(),
            waiting: 0,
            links: Vec::new(),
            epoch: 0,
            incarnation: None,
            heard: None,
            is_dialing: false,
            joining: 0,
            obstacle: None,
            refusal: None,
            has_stopped: false,
            lost_at: None,
        };
        Self { id, name, address, state: RefCell::new(state) }
    }

    /// Queues `messages`. Returns false if there is no room. Those for a client or an asker that
    /// has stopped are dropped: if it comes back, then as another, with other sessions and
    /// questions.
    pub(super) fn push(&self, messages: Messages<M>, room: usize) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.has_stopped && self.address.is_none() && [CLIENT, ASKER].contains(&self.name.job())
        {
            return true;
        }
        let size = envelope_size(&messages).0 as usize;
        let has_room = state.waiting.saturating_add(size) <= room;
        if has_room {
            state.waiting += size;
            state.queue.push_back((messages, size));
        }
        has_room
    }

    /// Takes the next envelope for `link` to send, and its length; `None` if another link sends.
    pub(super) fn pop(&self, link: &Rc<PeerConnection>) -> Option<(Messages<M>, usize)> {
        let state = &mut *self.state.borrow_mut();
        let is_first = state.links.first().is_some_and(|first| Rc::ptr_eq(first, link));
        if is_first { state.queue.pop_front() } else { None }
    }

    /// Notes that an envelope of `size` has been written on `link`.
    pub(super) fn written(&self, link: &PeerConnection, size: usize) {
        if link.is_alive.get() {
            let state = &mut *self.state.borrow_mut();
            state.waiting = state.waiting.saturating_sub(size);
        }
    }

    /// Whether an envelope is queued or being written.
    pub(super) fn has_unwritten(&self) -> bool {
        self.state.borrow().waiting > 0
    }

    /// The link that is used for sending.
    pub(super) fn way(&self) -> Option<Rc<PeerConnection>> {
        self.state.borrow().links.first().map(Rc::clone)
    }

    pub(super) fn links(&self) -> Vec<Rc<PeerConnection>> {
        self.state.borrow().links.clone()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.state.borrow().epoch
    }

    /// Whether it has said that it stops, and has not come back.
    pub(super) fn has_stopped(&self) -> bool {
        self.state.borrow().has_stopped
    }

    /// Whether messages wait for it that may still arrive.
    pub(super) fn is_owed(&self) -> bool {
        let state = self.state.borrow();
        !state.queue.is_empty() && !state.has_stopped
    }

    /// Whether it is connected at the time `now`, or was within `span` before.
    pub(super) fn was_there(&self, now: Time, span: Duration) -> bool {
        let state = self.state.borrow();
        let was_lost_since = || state.lost_at.is_some_and(|lost_at| now.since(lost_at) < span);
        !state.links.is_empty() || was_lost_since()
    }

    /// Whether to dial: there are messages and nobody dials yet. If so, the caller dials.
    pub(super) fn begin_dialing(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_needed = state.links.is_empty() && !state.queue.is_empty() && self.address.is_some();
        is_needed && !std::mem::replace(&mut state.is_dialing, true)
    }

    /// Whether dialing can end, because there is a link or nothing to send.
    pub(super) fn end_dialing(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_over = !state.links.is_empty() || state.queue.is_empty();
        if is_over {
            state.is_dialing = false;
        }
        is_over
    }

    pub(super) fn note_obstacle(&self, why: String, refused: Option<Refused>) {
        let state = &mut *self.state.borrow_mut();
        if let Some(refused) = refused {
            state.refusal = Some((refused, why.clone()));
        }
        state.obstacle = Some(Obstacle { why, refused });
    }

    /// Notes that this task has refused a connection of it, unless another life of it is connected.
    pub(super) fn note_refusal(&self, refusal: &Refusal) {
        let state = &mut *self.state.borrow_mut();
        if state.links.is_empty() {
            state.refusal = refusal.refused().map(|refused| (refused, refusal.to_string()));
        }
    }

    /// Why the two refuse each other, if they did when they met last.
    pub(super) fn refusal(&self) -> Option<(Refused, String)> {
        self.state.borrow().refusal.clone()
    }

    /// The reason why its messages have not been sent; `None` if no messages wait.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let state = self.state.borrow();
        let waits = state.links.is_empty() && !state.queue.is_empty();
        let unknown = if self.address.is_some() {
            "it has not answered yet"
        } else {
            "its address is not known"
        };
        let unknown = || Obstacle { why: unknown.to_owned(), refused: None };
        waits.then(|| state.obstacle.clone().unwrap_or_else(unknown))
    }

    /// Handles the introduction of the peer on a new connection. If it has restarted or counts more
    /// losses, the present links are lost. Returns the epoch of the connection.
    ///
    /// # Errors
    /// If a later incarnation has connected before.
    pub(super) fn greet(&self, node: &Node<M>, side: Side, hello: &Hello) -> Result<u64, Refusal> {
        let known = self.incarnation();
        if known.is_some_and(|known| known > hello.incarnation) {
            return Err(match self.name.job() {
                ASKER => Refusal::OtherLook,
                _ => Refusal::Outlived(self.name.clone()),
            });
        }
        let has_restarted = known.is_some_and(|known| known < hello.incarnation);
        let links = self.links();
        let is_again = links.iter().any(|link| link.side == side);
        self.state.borrow_mut().incarnation = Some(hello.incarnation);
        if has_restarted && !links.is_empty() {
            self.lose(node, Loss::Restarted, Close::Outlived);
        } else if !links.is_empty() && (is_again || hello.epoch > self.epoch()) {
            self.lose(node, Loss::Broken, Close::Lost);
        }
        let state = &mut *self.state.borrow_mut();
        state.epoch = state.epoch.max(hello.epoch);
        Ok(state.epoch)
    }

    /// The incarnation that connected last.
    pub(super) fn incarnation(&self) -> Option<u64> {
        self.state.borrow().incarnation
    }

    /// Another task has met `incarnation`: the links to an earlier one are lost. Without links, its
    /// loss has been reported. Who tells of one that does not come is believed once: after that, a
    /// task could cut off this one from a third as often as it likes.
    pub(super) fn outlive(&self, node: &Node<M>, incarnation: u64) {
        let mut state = self.state.borrow_mut();
        let is_awaited = state.heard > state.incarnation;
        if is_awaited || state.incarnation.is_none_or(|known| incarnation <= known) {
            return;
        }
        state.heard = Some(incarnation);
        let has_links = !state.links.is_empty();
        drop(state);
        if has_links {
            self.lose(node, Loss::Restarted, Close::Lost);
        }
    }

    /// Adds a link of `epoch`. Returns false if that epoch has ended meanwhile.
    pub(super) fn join(&self, link: &Rc<PeerConnection>, epoch: u64) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_current = state.epoch == epoch;
        if is_current {
            state.links.push(Rc::clone(link));
            state.obstacle = None;
            state.refusal = None;
            state.has_stopped = false;
        }
        is_current
    }

    /// Counts a connection that is yet to join, until what this returns is dropped.
    pub(super) fn begin_joining(self: &Rc<Self>) -> Joining<M> {
        self.state.borrow_mut().joining += 1;
        Joining(Rc::clone(self))
    }

    /// Loses the peer as one that has stopped, if everything that it sent has arrived on every
    /// link. A connection that is being made may have more, and be the one that it says goodbye on.
    pub(super) fn end_if_it_has_parted(&self, node: &Node<M>) {
        let state = self.state.borrow();
        let is_being_made = state.is_dialing || state.joining > 0;
        let mut links = state.links.iter();
        let has_parted = links.len() > 0 && links.all(|link| link.received.is_taken.get());
        drop(state);
        if has_parted && !is_being_made {
            self.lose(node, Loss::Stopped, Close::Stopped);
        }
    }

    /// Loses the peer: all links and messages under way are given up, and the epoch ends.
    pub(super) fn lose(&self, node: &Node<M>, loss: Loss, close: Close) {
        let links = {
            let state = &mut *self.state.borrow_mut();
            state.epoch += 1;
            state.queue.clear();
            state.waiting = 0;
            state.has_stopped = loss == Loss::Stopped;
            state.lost_at = Some(node.clock.now());
            if loss == Loss::Outlived {
                state.refusal = Some((Refused::Outlived, loss.to_string()));
            }
            std::mem::take(&mut state.links)
        };
        let reason = match close {
            Close::Silent => node.has_heard_nothing_from(&self.name),
            _ => loss.to_string(),
        };
        for link in &links {
            link.is_alive.set(false);
            if loss != Loss::Stopped {
                link.close(close, &reason);
            }
            link.wake.notify_one();
        }
        if links.iter().any(|link| !link.sent.is_taken.get()) {
            node.note_unflushed();
        }
        node.report(self, loss);
        node.progress.notify_waiters();
    }
}

/// A connection with a peer that is yet to join its links, until this is dropped.
pub(super) struct Joining<M>(Rc<Peer<M>>);

impl<M> Drop for Joining<M> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().joining -= 1;
    }
}
