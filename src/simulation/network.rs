//! The modelled network: when a message arrives that other messages share its links with.
//!
//! Every host has a full-duplex NIC, and may sit in a rack with an oversubscribed, full-duplex
//! uplink. A message first costs its sender a fixed time, one message after another (LogP's
//! overhead; Culler et al. 1993); then it is a flow, and the flows of a moment share the links by
//! max-min fairness; the latency after its last byte has left, it arrives. So messages between the
//! same two hosts may overtake each other, as streams of one connection do. A message of a host to
//! itself crosses no link and has no latency.
//!
//! A flow model does not show what TCP's windows or lossy switches add: incast collapse, slow
//! start, retransmission. A lower bandwidth or a longer latency stands in for them.
//!
//! Most messages are alone on their links. Those never become flows: the network *reserves* their
//! links and schedules their arrival at once, and takes that back only if another message begins on
//! one of the links before they are through ([`Network::revoke`]).

mod event;
mod fill;
mod flows;
mod route;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use event::{Event, What};
use flows::{FlowId, Flows};
use route::{LinkId, Route, Wiring};
pub use spec::{NetworkError, NetworkSpec, Racks};

use crate::units::{Bytes, Time};

/// A message that has arrived.
#[derive(Debug, PartialEq)]
pub(crate) struct Delivery<T> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) size: Bytes,
    /// When it was handed to [`Network::send`].
    pub(crate) sent_at: Time,
    pub(crate) payload: T,
}

/// The network between `hosts` hosts, with the messages under way. It does nothing on its own: its
/// owner calls [`Network::advance`] whenever [`Network::next_event`] says.
pub(crate) struct Network<T> {
    wiring: Wiring,
    latency: Duration,
    message_cost: Duration,
    /// When each host has done the cost of all messages that it was given.
    sender_free: Vec<Time>,
    /// The messages under way; a free slot has no delivery.
    messages: Vec<Message<T>>,
    free: Vec<FlowId>,
    reservations: Vec<Reservation>,
    flows: Flows,
    /// Ordered by (time, sequence); the first is never stale.
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    now: Time,
    /// Kept between calls for its storage.
    ended: Vec<FlowId>,
    /// Kept between calls for its storage.
    rescheduled: Vec<LinkId>,
    bytes_accepted: u64,
    bytes_delivered: u64,
}

struct Message<T> {
    delivery: Option<Delivery<T>>,
    route: Route,
    /// When its first byte is sent.
    start: Time,
    /// The sequence number of its one valid event; any other in the heap is stale.
    event: u64,
}

/// A message alone on a link, through at `until`; over, once that is past.
#[derive(Clone, Copy, Default)]
struct Reservation {
    message: FlowId,
    until: Time,
}

impl<T> Network<T> {
    /// An idle network of hosts `0..hosts`.
    pub(crate) fn new(spec: &NetworkSpec, hosts: usize) -> Self {
        assert_eq!(spec.validate(), Ok(()), "a network is built from a validated spec");
        let (wiring, capacities) = Wiring::new(spec, hosts);
        Self {
            wiring,
            latency: spec.latency,
            message_cost: spec.message_cost,
            sender_free: vec![Time::ZERO; hosts],
            messages: Vec::new(),
            free: Vec::new(),
            reservations: vec![Reservation::default(); capacities.len()],
            flows: Flows::new(&capacities),
            events: BinaryHeap::new(),
            sequence: 0,
            now: Time::ZERO,
            ended: Vec::new(),
            rescheduled: Vec::new(),
            bytes_accepted: 0,
            bytes_delivered: 0,
        }
    }

    /// Host `from` begins to handle a message of `size` for host `to` at `now`, which is not after
    /// the next event.
    pub(crate) fn send(&mut self, now: Time, from: usize, to: usize, size: Bytes, payload: T) {
        assert!(
            self.now <= now,
            "a message is not sent in the past, at {now} when it is {}",
            self.now
        );
        assert!(
            self.next_event().is_none_or(|next| now <= next),
            "no event of the network was passed over by {now}"
        );
        self.now = now;
        self.bytes_accepted += size.0;
        let route = self.wiring.route(from, to);
        let start = self.sender_free[from].max(now).after(self.message_cost);
        self.sender_free[from] = start;
        let delivery = Some(Delivery { from, to, size, sent_at: now, payload });
        let message = Message { delivery, route, start, event: u64::MAX };
        let id = if let Some(id) = self.free.pop() {
            self.messages[id as usize] = message;
            id
        } else {
            self.messages.push(message);
            (self.messages.len() - 1) as FlowId
        };
        if start == now {
            self.start(id);
        } else if !self.reserve(id) {
            self.schedule(start, What::Start(id));
        }
    }

    /// When something happens next in the network: a message starts, flows end or have new rates, a
    /// message arrives.
    pub(crate) fn next_event(&self) -> Option<Time> {
        if self.flows.are_unsettled() {
            return Some(self.now);
        }
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Advances to `now`, the time of the next event, by that event; the message that arrived, if
    /// it was that.
    pub(crate) fn advance(&mut self, now: Time) -> Option<Delivery<T>> {
        assert_eq!(self.next_event(), Some(now), "the network is advanced by one event at a time");
        self.now = now;
        let Some(event) = self.pop_due() else {
            self.settle();
            return None;
        };
        let delivery = match event.what {
            What::Start(id) => {
                self.start(id);
                None
            }
            What::End(link) => {
                self.end(link);
                None
            }
            What::Arrive(id) => self.messages[id as usize].delivery.take().inspect(|delivery| {
                self.free.push(id);
                self.bytes_delivered += delivery.size.0;
            }),
        };
        self.drop_stale_events();
        delivery
    }

    /// How many messages are under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.messages.len() - self.free.len()
    }

    /// The bytes of all messages that were ever sent.
    pub(crate) fn bytes_accepted(&self) -> Bytes {
        Bytes(self.bytes_accepted)
    }

    /// The bytes of all messages that have arrived.
    pub(crate) fn bytes_delivered(&self) -> Bytes {
        Bytes(self.bytes_delivered)
    }

    /// Sends the first byte of message `id` now: alone on its links if they are idle, else as a
    /// flow.
    fn start(&mut self, id: FlowId) {
        let route = self.messages[id as usize].route;
        for link in &*route {
            let reservation = self.reservations[*link as usize];
            if reservation.until > self.now {
                self.revoke(reservation.message);
            }
        }
        if !self.reserve(id) {
            let size = self.size(id);
            self.flows.join(id, route, size.0 as f64);
        }
        self.drop_stale_events();
    }

    /// Schedules the arrival of message `id` if its links are free, from now until it is through.
    fn reserve(&mut self, id: FlowId) -> bool {
        let Message { route, start, .. } = self.messages[id as usize];
        let free = |link: &LinkId| {
            self.reservations[*link as usize].until <= self.now && self.flows.is_idle(*link)
        };
        if !route.iter().all(free) {
            return false;
        }
        if route.is_empty() {
            self.schedule(start, What::Arrive(id));
            return true;
        }
        let transfer = self.size(id).0 as f64 / self.flows.capacity(&route);
        let until = start.after(Duration::from_nanos(transfer.round() as u64));
        for link in &*route {
            self.reservations[*link as usize] = Reservation { message: id, until };
        }
        self.schedule(until.after(self.latency), What::Arrive(id));
        true
    }

    /// Takes back the reservation of message `id`: what is left of it becomes a flow, or starts
    /// later.
    fn revoke(&mut self, id: FlowId) {
        let Message { route, start, .. } = self.messages[id as usize];
        for link in &*route {
            self.reservations[*link as usize].until = Time::ZERO;
        }
        if start > self.now {
            self.schedule(start, What::Start(id));
        } else {
            let sent = self.flows.capacity(&route) * self.now.since(start).as_nanos() as f64;
            self.messages[id as usize].event = u64::MAX;
            self.flows.join(id, route, (self.size(id).0 as f64 - sent).max(0.0));
        }
    }

    /// Takes the flows off the network that end now at `link`; they arrive the latency later.
    fn end(&mut self, link: LinkId) {
        let mut ended = std::mem::take(&mut self.ended);
        self.flows.end(self.now, link, &mut ended);
        for id in ended.drain(..) {
            self.schedule(self.now.after(self.latency), What::Arrive(id));
        }
        self.ended = ended;
    }

    /// Shares the links out anew after flows began or ended.
    fn settle(&mut self) {
        let mut rescheduled = std::mem::take(&mut self.rescheduled);
        self.flows.settle(self.now, &mut rescheduled);
        for link in rescheduled.drain(..) {
            self.schedule(self.flows.next_end(link), What::End(link));
        }
        self.rescheduled = rescheduled;
        self.drop_stale_events();
    }

    fn size(&self, id: FlowId) -> Bytes {
        self.messages[id as usize]
            .delivery
            .as_ref()
            .expect("a message under way has not been delivered")
            .size
    }

    /// Takes the next event off the heap, if it is due now. Else the links are to be shared out:
    /// once, after all that begins and ends at one time.
    fn pop_due(&mut self) -> Option<Event> {
        let Reverse(next) = self.events.peek()?;
        if next.at > self.now {
            return None;
        }
        self.events.pop().map(|Reverse(event)| event)
    }

    /// Schedules the next event of a message, in place of any other.
    fn schedule(&mut self, at: Time, what: What) {
        if let What::Start(id) | What::Arrive(id) = what {
            self.messages[id as usize].event = self.sequence;
        }
        self.events.push(Reverse(Event { at, sequence: self.sequence, what }));
        self.sequence += 1;
    }

    fn drop_stale_events(&mut self) {
        while let Some(Reverse(event)) = self.events.peek() {
            let valid = match event.what {
                What::Start(id) | What::Arrive(id) => {
                    self.messages[id as usize].event == event.sequence
                }
                What::End(link) => self.flows.next_end(link) == event.at,
            };
            if valid {
                break;
            }
            self.events.pop();
        }
    }
}

#[cfg(test)]
mod tests;
