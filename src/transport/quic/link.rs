//! A connection to a peer that has introduced itself, and what has been said on it.

use std::cell::Cell;

use quinn::Connection;
use tokio::sync::{Notify, Semaphore};

/// Who has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dialed,
    Accepted,
}

/// One of the at most two connections to a peer: each end can have dialed.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) side: Side,
    /// Until the way to the peer is lost. Nothing is delivered after that.
    pub(super) is_alive: Cell<bool>,
    /// Wakes the sender: there is something to send, or to say.
    pub(super) wake: Notify,
    /// Lets so many large envelopes be written at once; the others wait in their order.
    pub(super) large: Semaphore,
    pub(super) sent: Farewell,
    pub(super) received: Farewell,
}

/// Large envelopes that are written at once: the next fills the gap that one leaves when it ends,
/// and no more, so that they arrive one after the other and not all at last.
const LARGE_AT_ONCE: usize = 2;

/// How far one direction has come in its end: `Bye` after all that there was, then the other end's
/// `Taken`.
#[derive(Default)]
pub(super) struct Farewell {
    /// Large envelopes, each on a stream of its own, that have been begun or have arrived.
    pub(super) large: Cell<u64>,
    /// Of these, those that are being written.
    pub(super) unfinished: Cell<u64>,
    /// `Bye` is wanted or has come, with so many large envelopes before it.
    pub(super) bye: Cell<Option<u64>>,
    /// All has arrived.
    pub(super) is_taken: Cell<bool>,
}

impl Link {
    pub(super) fn new(connection: Connection, side: Side) -> Self {
        let (sent, received) = (Farewell::default(), Farewell::default());
        let (wake, large) = (Notify::new(), Semaphore::new(LARGE_AT_ONCE));
        Self { connection, side, is_alive: Cell::new(true), wake, large, sent, received }
    }

    /// Asks the sender to say `Bye` once all is sent.
    pub(super) fn say_bye(&self) {
        if self.sent.bye.get().is_none() {
            self.sent.bye.set(Some(0));
        }
        self.wake.notify_one();
    }

    /// Whether all that the peer sent before its `Bye` has arrived, which is found out once.
    pub(super) fn has_taken_all(&self) -> bool {
        let Farewell { large, bye, is_taken, .. } = &self.received;
        bye.get().is_some_and(|expected| large.get() >= expected) && !is_taken.replace(true)
    }
}
