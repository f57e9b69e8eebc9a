//! The modelled network: computes the arrival of each message, given the others on its links.
//!
//! Every host has a full-duplex NIC, and may sit in a rack with an oversubscribed, full-duplex
//! uplink. A message first takes its sender a fixed time, one message after another (LogP's
//! overhead; Culler et al. 1993). Then it is a flow; concurrent flows share the links by max-min
//! fairness. It arrives one latency after its last byte has left. So messages between the same two
//! hosts may overtake each other, as streams of one connection do. Tasks on one host share its NIC
//! and talk to each other over its loopback. A message of a task to itself crosses no link and has
//! no latency.
//!
//! Not modelled are the effects of TCP windows and lossy switches: incast collapse, slow start,
//! retransmission. A lower bandwidth or a longer latency stands in for them.
//!
//! Most messages are alone on their links and never become flows: the network *reserves* their
//! links and schedules their arrival at once. It takes that back ([`Network::revoke`]) if another
//! message starts on one of the links meanwhile.

mod cards;
mod event;
mod fill;
mod flows;
mod route;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use event::{Event, EventKind};
use flows::{FlowId, Flows};
use route::{LinkId, Route, Wiring};
pub use spec::{Loopback, NetworkError, NetworkSpec, Racks};

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

/// A network with the messages under way. Its owner calls [`Network::advance`] at each time that
/// [`Network::next_event`] returns.
pub(crate) struct Network<T> {
    wiring: Wiring,
    message_cost: Duration,
    /// By task: the time by which it has paid the fixed cost of all messages given to it.
    sender_free: Vec<Time>,
    /// By task: whether its card stands still.
    is_paused: Vec<bool>,
    /// The messages under way; a free slot has no delivery.
    messages: Vec<Message<T>>,
    free: Vec<FlowId>,
    reservations: Vec<Reservation>,
    flows: Flows,
    /// Ordered by time, then sequence; the first is never stale.
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
    /// The time at which its first byte is sent.
    start: Time,
    /// The bytes that it has to send from `start` on.
    left: f64,
    /// Whether it shares its links as a flow.
    is_flow: bool,
    /// If it is held because a card stands still: its place among all that ever were.
    parked: Option<u64>,
    latency: Duration,
    /// The sequence number of its one valid event; any other in the heap is stale.
    event: u64,
}

/// A link's use by one message alone, until its last byte has left.
#[derive(Clone, Copy, Default)]
struct Reservation {
    message: FlowId,
    until: Time,
}

impl<T> Network<T> {
    /// An idle network of tasks on the hosts `host_of`.
    pub(crate) fn new(spec: &NetworkSpec, host_of: Vec<usize>) -> Self {
        assert_eq!(spec.validate(), Ok(()), "a network is built from a validated spec");
        let tasks = host_of.len();
        let (wiring, capacities) = Wiring::new(spec, host_of);
        Self {
            wiring,
            message_cost: spec.message_cost,
            sender_free: vec![Time::ZERO; tasks],
            is_paused: vec![false; tasks],
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

    /// Sends a message of `size` from task `from` to task `to`. `now` must not be after the next
    /// event.
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
        let message = Message {
            delivery,
            route,
            start,
            left: size.0 as f64,
            is_flow: false,
            parked: None,
            latency: self.wiring.latency(from, to),
            event: u64::MAX,
        };
        let id = if let Some(id) = self.free.pop() {
            self.messages[id as usize] = message;
            id
        } else {
            self.messages.push(message);
            (self.messages.len() - 1) as FlowId
        };
        if start == now {
            self.start(id);
        } else if self.has_to_wait(id) || !self.reserve(id) {
            self.schedule(start, EventKind::Start(id));
        }
    }

    /// The time from the last byte of a message sent to its arrival.
    pub(crate) fn latency(&self, from: usize, to: usize) -> Duration {
        self.wiring.latency(from, to)
    }

    /// The time of the next event: a message starts or arrives, flows end or change their rates.
    pub(crate) fn next_event(&self) -> Option<Time> {
        if self.flows.are_unsettled() {
            return Some(self.now);
        }
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Lets the next event happen; `now` is its time. Returns the message if it was an arrival.
    pub(crate) fn advance(&mut self, now: Time) -> Option<Delivery<T>> {
        assert_eq!(self.next_event(), Some(now), "the network is advanced by one event at a time");
        self.now = now;
        let Some(event) = self.pop_due() else {
            self.settle();
            return None;
        };
        let delivery = match event.kind {
            EventKind::Start(id) => {
                self.start(id);
                None
            }
            EventKind::End(link) => {
                self.end(link);
                None
            }
            EventKind::Arrive(id) => {
                self.messages[id as usize].delivery.take().inspect(|delivery| {
                    self.free.push(id);
                    self.bytes_delivered += delivery.size.0;
                })
            }
        };
        self.drop_stale_events();
        delivery
    }

    /// The number of messages under way.
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

    /// Starts message `id` now: alone on its links if they are idle, else as a flow.
    fn start(&mut self, id: FlowId) {
        let Message { route, left, .. } = self.messages[id as usize];
        if self.has_to_wait(id) {
            self.hold(id, left);
            return self.drop_stale_events();
        }
        for link in &*route {
            let reservation = self.reservations[*link as usize];
            if reservation.until > self.now {
                self.revoke(reservation.message);
            }
        }
        if !self.reserve(id) {
            self.join(id, left);
        }
        self.drop_stale_events();
    }

    /// Reserves the links of message `id` and schedules its arrival, if the links are free.
    fn reserve(&mut self, id: FlowId) -> bool {
        let Message { route, start, left, latency, .. } = self.messages[id as usize];
        let free = |link: &LinkId| {
            self.reservations[*link as usize].until <= self.now && self.flows.is_idle(*link)
        };
        if !route.iter().all(free) {
            return false;
        }
        if route.is_empty() {
            self.schedule(start, EventKind::Arrive(id));
            return true;
        }
        let transfer = left / self.flows.capacity(&route);
        let until = start.after(Duration::from_nanos(transfer.round() as u64));
        for link in &*route {
            self.reservations[*link as usize] = Reservation { message: id, until };
        }
        self.schedule(until.after(latency), EventKind::Arrive(id));
        true
    }

    /// Takes back the reservation of message `id`: its remaining bytes become a flow, or, if it has
    /// not started, its start is scheduled.
    fn revoke(&mut self, id: FlowId) {
        let Message { route, start, left, .. } = self.messages[id as usize];
        for link in &*route {
            self.reservations[*link as usize].until = Time::ZERO;
        }
        if start > self.now {
            self.schedule(start, EventKind::Start(id));
        } else {
            let sent = self.flows.capacity(&route) * self.now.since(start).as_nanos() as f64;
            self.messages[id as usize].event = u64::MAX;
            self.join(id, (left - sent).max(0.0));
        }
    }

    /// Makes message `id`, of which so many bytes are left, a flow.
    fn join(&mut self, id: FlowId, left: f64) {
        let message = &mut self.messages[id as usize];
        message.is_flow = true;
        self.flows.join(id, message.route, left);
    }

    /// Ends the flows at `link` whose last byte leaves now; they arrive one latency later.
    fn end(&mut self, link: LinkId) {
        let mut ended = std::mem::take(&mut self.ended);
        self.flows.end(self.now, link, &mut ended);
        for id in ended.drain(..) {
            let message = &mut self.messages[id as usize];
            message.is_flow = false;
            let arrival = self.now.after(message.latency);
            self.schedule(arrival, EventKind::Arrive(id));
        }
        self.ended = ended;
    }

    /// Computes new rates after flows began or ended.
    fn settle(&mut self) {
        let mut rescheduled = std::mem::take(&mut self.rescheduled);
        self.flows.settle(self.now, &mut rescheduled);
        for link in rescheduled.drain(..) {
            self.schedule(self.flows.next_end(link), EventKind::End(link));
        }
        self.rescheduled = rescheduled;
        self.drop_stale_events();
    }

    /// Takes the next event off the heap if it is due now. If none is, the rates are to be settled:
    /// once, after all flows that begin and end at one time.
    fn pop_due(&mut self) -> Option<Event> {
        let Reverse(next) = self.events.peek()?;
        if next.at > self.now {
            return None;
        }
        self.events.pop().map(|Reverse(event)| event)
    }

    /// Schedules the next event of a message, in place of any other.
    fn schedule(&mut self, at: Time, kind: EventKind) {
        if let EventKind::Start(id) | EventKind::Arrive(id) = kind {
            self.messages[id as usize].event = self.sequence;
        }
        self.events.push(Reverse(Event { at, sequence: self.sequence, kind }));
        self.sequence += 1;
    }

    fn drop_stale_events(&mut self) {
        while let Some(Reverse(event)) = self.events.peek() {
            let valid = match event.kind {
                EventKind::Start(id) | EventKind::Arrive(id) => {
                    self.messages[id as usize].event == event.sequence
                }
                EventKind::End(link) => self.flows.next_end(link) == event.at,
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
