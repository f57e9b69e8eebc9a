//! The events of the network, in their total order.

use std::cmp::Ordering;

use super::MessageId;
use super::route::LinkId;
use crate::units::Time;

/// An event of the network; events of one time are ordered by their sequence numbers.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) at: Time,
    pub(super) sequence: u64,
    pub(super) kind: EventKind,
}

/// The kind of an event.
#[derive(Clone, Copy)]
pub(super) enum EventKind {
    /// A message's first byte is sent.
    Start(MessageId),
    /// The first of the flows that a link holds back ends.
    End(LinkId),
    /// A message arrives.
    Arrive(MessageId),
}

impl Event {
    /// Orders as time and sequence do, in one comparison of two numbers.
    fn rank(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.sequence)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
