//! Links: connections to peers that have introduced themselves.

use std::cell::Cell;

use quinn::Connection;
use tokio::sync::{Notify, Semaphore};

use super::lanes::of_link::LinkLanes;
use super::refusal::Close;

/// The side that has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dialed,
    Accepted,
}

/// A connection to a peer. There are at most two, since each end can have dialed.
pub(super) struct PeerConnection {
    pub(super) connection: Connection,
    pub(super) side: Side,
    /// Whether the link still delivers; false once the peer is lost.
    pub(super) is_alive: Cell<bool>,
    /// Wakes the sender, which has an envelope or a `Bye` to send.
    pub(super) wake: Notify,
    /// The turn to write a large envelope; the others wait in order.
    pub(super) large: Semaphore,
    /// Further connections, for large envelopes.
    pub(super) lanes: LinkLanes,
    pub(super) sent: Farewell,
    pub(super) received: Farewell,
}

/// The end of one direction: the sender's `Bye` after its last envelope, then the receiver's
/// `Taken`.
#[derive(Default)]
pub(super) struct Farewell {
    /// The number of large envelopes that have been started or have arrived.
    pub(super) large: Cell<u64>,
    /// The number of those that are being written.
    pub(super) unfinished: Cell<u64>,
    /// The number of large envelopes before `Bye`, once that is wanted or has come.
    pub(super) bye: Cell<Option<u64>>,
    /// Whether everything before `Bye` has arrived.
    pub(super) is_taken: Cell<bool>,
}

impl PeerConnection {
    /// A link to a peer that has lanes at `ports`.
    pub(super) fn new(connection: Connection, side: Side, ports: Vec<u16>) -> Self {
        let (sent, received) = (Farewell::default(), Farewell::default());
        let (wake, large) = (Notify::new(), Semaphore::new(1));
        let (is_alive, lanes) = (Cell::new(true), LinkLanes::to(ports));
        Self { connection, side, is_alive, wake, large, lanes, sent, received }
    }

    /// Closes the connection, and its lanes.
    pub(super) fn close(&self, close: Close, reason: &str) {
        self.connection.close(close.code(), reason.as_bytes());
        self.lanes.close(close.code(), reason.as_bytes());
    }

    /// Asks the sender to send `Bye` after all else.
    pub(super) fn say_bye(&self) {
        if self.sent.bye.get().is_none() {
            self.sent.bye.set(Some(0));
        }
        self.wake.notify_one();
    }

    /// Whether everything that the peer sent before its `Bye` has arrived; true only at the first
    /// call that finds it so.
    pub(super) fn has_taken_all(&self) -> bool {
        let Farewell { large, bye, is_taken, .. } = &self.received;
        bye.get().is_some_and(|expected| large.get() >= expected) && !is_taken.replace(true)
    }
}
