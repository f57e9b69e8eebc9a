//! The events of the network, in their total order.

use super::MessageId;
use super::route::LinkId;
use crate::units::Time;

/// An event of the network; events of one time are ordered by their sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Time,
    pub(super) sequence: u64,
    pub(super) kind: EventKind,
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// A message's first byte is sent.
    Start(MessageId),
    /// The first of the flows that a link holds back ends.
    End(LinkId),
    /// A message arrives.
    Arrive(MessageId),
}
