//! The modelled network: computes the arrival of each message, given the others on its links.
//!
//! Every host has a full-duplex NIC, and may sit in a rack with an oversubscribed, full-duplex
//! uplink. Tasks on one host share its NIC and talk to each other over its loopback. A message
//! first takes its sender a fixed time, one message after another (LogP's overhead; Culler et al.
//! 1993); a large one takes a time to start besides. What one task sends another then shares one
//! flow, that of their connection (`connections`); concurrent flows share the links by max-min
//! fairness. A message arrives one latency after its last byte has left. A message of a task to
//! itself crosses no link and has no latency.
//!
//! What held a message back, and for how long, is known as it arrives (`held_back`).
//!
//! An incast law lowers the rate of a receiving NIC by the number of connections that it receives
//! from at a time.
//!
//! A task that crashes stops sending at once (`crashes`). Messages to it go on, because their
//! senders notice its silence only later; the world drops or holds them when they arrive.
//!
//! Packets have headers, if the spec has an MTU, and nothing else: no loss, no retransmission, no
//! slow start. The start of large messages and the incast law stand in for them.
//!
//! Most messages are alone on their links and never become part of a flow: when one starts, the
//! network *reserves* its links and schedules its arrival at once. It takes that back
//! ([`Network::revoke`]) if another message starts on one of the links meanwhile.

mod cards;
mod connections;
mod crashes;
mod event;
mod fill;
mod flows;
mod held_back;
mod reservations;
mod route;
mod sharing;
mod spec;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use connections::{Connection, ConnectionId, Connections};
use event::{Event, EventKind};
use flows::Flows;
pub(crate) use held_back::{HeldBack, Limit};
use reservations::Reservation;
use route::{LinkId, Wiring};
pub(crate) use spec::LEAST_MTU;
pub use spec::{ConnectionSpec, LinkSpeed, Loopback, NetworkError, NetworkSpec, Racks};

use crate::units::{Bytes, BytesPerSecond, Time};

/// A message under way, by its place among them.
type MessageId = u32;

/// A message that has arrived.
#[derive(Debug, PartialEq)]
pub(crate) struct Delivery<T> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) size: Bytes,
    pub(crate) times: MessageTimes,
    pub(crate) payload: T,
}

/// The way of a message: when it was where, and what held it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MessageTimes {
    /// When its sender had paid for it.
    pub(crate) paid: Time,
    /// When its first byte was sent, or waited for the links.
    pub(crate) began: Time,
    /// When its last byte left.
    pub(crate) left: Time,
    /// What held it back between the two.
    pub(crate) held: HeldBack,
}

/// What has crossed a network card, which the tasks of one host share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CardTraffic {
    /// Sent.
    pub out: Bytes,
    /// Received.
    pub into: Bytes,
    /// The rate of each direction.
    pub rate: BytesPerSecond,
}

/// A network with the messages under way. Its owner calls [`Network::advance`] at each time that
/// [`Network::next_event`] returns.
pub(crate) struct Network<T> {
    wiring: Wiring,
    /// By task: the fixed cost of a message, the slowdown of the task included.
    message_cost: Vec<Duration>,
    connection: ConnectionSpec,
    /// By task: the time by which it has paid the fixed cost of all messages given to it.
    sender_free: Vec<Time>,
    /// By task: the fixed costs of all these messages.
    paid: Vec<Duration>,
    /// By task: whether its card stands still.
    is_paused: Vec<bool>,
    /// The messages under way; a free slot has no delivery.
    messages: Vec<Message<T>>,
    free: Vec<MessageId>,
    reservations: Vec<Reservation>,
    connections: Connections,
    /// The flows of the connections that share links.
    flows: Flows,
    /// Ordered by time, then sequence; the first is never stale.
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    now: Time,
    /// Kept between calls for its storage.
    ended: Vec<ConnectionId>,
    /// Kept between calls for its storage.
    rescheduled: Vec<LinkId>,
    /// By link: what has crossed it \[bytes\].
    carried: Vec<u64>,
}

struct Message<T> {
    delivery: Option<Delivery<T>>,
    connection: ConnectionId,
    /// The time at which its first byte is sent.
    start: Time,
    /// What had held its connection's flow back before it joined.
    held_before: HeldBack,
    /// The sequence number of its one valid event; any other in the heap is stale.
    event: u64,
}

impl<T> Network<T> {
    /// An idle network of tasks on the hosts `host_of`. The senders and receivers that `may_slow`
    /// are those that [`Network::set_link_speed`] may be asked for.
    pub(crate) fn new(
        spec: &NetworkSpec,
        host_of: Vec<usize>,
        may_slow: &BTreeSet<(usize, usize)>,
    ) -> Self {
        assert_eq!(spec.validate(), Ok(()), "a network is built from a validated spec");
        let tasks = host_of.len();
        let (wiring, capacities) = Wiring::new(spec, host_of, may_slow);
        let links = (0..).zip(&capacities).map(|(link, rate)| (wiring.kind(link), *rate));
        let mut flows = Flows::new(links);
        wiring.inwards().for_each(|link| flows.set_incast(link, spec.incast));
        Self {
            wiring,
            message_cost: vec![spec.message_cost; tasks],
            connection: spec.connection,
            sender_free: vec![Time::ZERO; tasks],
            paid: vec![Duration::ZERO; tasks],
            is_paused: vec![false; tasks],
            messages: Vec::new(),
            free: Vec::new(),
            reservations: vec![Reservation::default(); capacities.len()],
            connections: Connections::new(tasks),
            flows,
            events: BinaryHeap::new(),
            sequence: 0,
            now: Time::ZERO,
            ended: Vec::new(),
            rescheduled: Vec::new(),
            carried: vec![0; capacities.len()],
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
        let connection = self.connections.between(from, to, &self.wiring);
        let handled = self.sender_free[from].max(now).after(self.message_cost[from]);
        self.sender_free[from] = handled;
        self.paid[from] += self.message_cost[from];
        let is_large = size > self.connection.large;
        let start = if is_large { handled.after(self.connection.start) } else { handled };
        let held = HeldBack::default();
        let times = MessageTimes { paid: handled, began: start, left: start, held };
        let delivery = Some(Delivery { from, to, size, times, payload });
        let message = Message { delivery, connection, start, held_before: held, event: u64::MAX };
        let id = if let Some(id) = self.free.pop() {
            self.messages[id as usize] = message;
            id
        } else {
            self.messages.push(message);
            (self.messages.len() - 1) as MessageId
        };
        match start == now {
            true => self.start(id),
            false => self.schedule(start, EventKind::Start(id)),
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
                let message = &mut self.messages[id as usize];
                let connection = message.connection;
                message.delivery.take().inspect(|delivery| {
                    self.free.push(id);
                    let Delivery { from, to, size, .. } = *delivery;
                    let Bytes(crossed) = self.wiring.on_the_wire(from, to, size);
                    for link in &*self.connections.get(connection).route {
                        self.carried[*link as usize] += crossed;
                    }
                })
            }
        };
        self.drop_stale_events();
        delivery
    }

    /// Sets the fixed cost of the messages that `task` sends from now on.
    pub(crate) fn set_message_cost(&mut self, task: usize, cost: Duration) {
        self.message_cost[task] = cost;
    }

    /// The time until `now` in which `task` paid the fixed costs of its messages.
    pub(crate) fn time_paid(&self, task: usize, now: Time) -> Duration {
        self.paid[task] - self.sender_free[task].since(now)
    }

    /// What has crossed the card of the host of `task`, out and in, and the rate of each direction.
    pub(crate) fn card_traffic(&self, task: usize) -> CardTraffic {
        let [out, into] = self.wiring.card(task).map(|link| Bytes(self.carried[link as usize]));
        CardTraffic { out, into, rate: BytesPerSecond(self.wiring.card_rate(task) * 1e9) }
    }

    /// The bytes of all messages under way.
    pub(crate) fn bytes_in_flight(&self) -> Bytes {
        let under_way = self.messages.iter().filter_map(|message| message.delivery.as_ref());
        Bytes(under_way.map(|delivery| delivery.size.0).sum())
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

    fn connection(&self, id: MessageId) -> &Connection {
        self.connections.get(self.messages[id as usize].connection)
    }

    /// Notes that the last byte of a message leaves now, held back by `link`. Its connection's flow
    /// was `held` back so until then.
    fn note_way(&mut self, id: MessageId, held: HeldBack, link: LinkId) {
        let (now, limit) = (self.now, Limit::of(self.wiring.kind(link)));
        let of_flow = held.without(self.messages[id as usize].held_before);
        let times = self.times_of(id);
        times.left = now;
        times.held = times.held.and(of_flow);
        // No flow carried it while a card stood still.
        let whole = now.since(times.began).as_nanos() as u64;
        let rest = whole.saturating_sub(times.held.span());
        times.held = times.held.and(HeldBack::by(limit, rest));
    }

    fn times_of(&mut self, id: MessageId) -> &mut MessageTimes {
        let delivery = self.messages[id as usize].delivery.as_mut();
        &mut delivery.expect("a message under way has not been delivered").times
    }

    fn size(&self, id: MessageId) -> Bytes {
        let delivery = self.messages[id as usize].delivery.as_ref();
        delivery.expect("a message under way has not been delivered").size
    }

    /// The bytes of message `id` with the headers of its packets.
    fn on_the_wire(&self, id: MessageId) -> f64 {
        let Connection { from, to, .. } = *self.connection(id);
        self.wiring.on_the_wire(from, to, self.size(id)).0 as f64
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
