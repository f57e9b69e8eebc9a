//! Envelopes at the message threads of their two ends: what sending and receiving take of them.
//!
//! A deployed thread lets its actors do all that has come up before it sends, so what several of
//! them have posted to one task leaves as one. A thread that gathers does the same.

use std::time::Duration;

use crate::runtime::{Encoding, PeerMessage};
use crate::simulation::chore::Chore;
use crate::simulation::critical_path::SpanKind;
use crate::simulation::events::{Envelope, Event};
use crate::simulation::hosts::Lanes;
use crate::simulation::network::Delivery;
use crate::simulation::processor::{Activity, Piece, ProcessorUnit, WokenBy};
use crate::transport::SPREAD_ENVELOPE;
use crate::units::Bytes;

use super::{Action, World};

impl World {
    /// Brings an envelope onto the network, once the message thread of `from` has sent it.
    pub(super) fn post(&mut self, from: usize, to: usize, size: Bytes, envelope: Envelope) {
        let Some(thread) = &self.message_thread else {
            return self.network.send(self.now, from, to, size, envelope);
        };
        let (fixed, of_bytes) = (thread.send.fixed, thread.send.of_bytes(size));
        let gathers = thread.gathers;
        let coding = self.coding_time(from, &envelope);
        let left = if gathers { self.gather(from, to, size, envelope) } else { Some(envelope) };
        match left {
            Some(envelope) => {
                let chore = Chore::Send { to, size, envelope };
                self.do_on_thread(from, Activity::Sending, fixed + coding, chore);
            }
            None if coding.is_zero() && self.unpaid[from] == 0 => {}
            None => self.do_on_thread(from, Activity::Sending, coding, Chore::Prepare),
        }
        if !of_bytes.is_zero() && self.lanes_for(from, to, size).is_none() {
            self.do_on_thread(from, Activity::Sending, of_bytes, Chore::SendBytes);
        }
    }

    /// Adds a small envelope to the last one for the same task that its sender has not come to
    /// send. Returns it if there is none, or none that it fits into.
    fn gather(
        &mut self,
        from: usize,
        to: usize,
        size: Bytes,
        envelope: Envelope,
    ) -> Option<Envelope> {
        let most = self.cluster.hardware.network.connection.large.0;
        let waiting =
            self.processors.open(self.now, from).find_map(|errand| match &mut errand.chore {
                Chore::Send { to: other, size, envelope } if *other == to && size.0 <= most => {
                    Some((size, envelope))
                }
                _ => None,
            });
        match waiting {
            Some((gathered, first))
                if gathered.0 + size.0 <= most && first.stamp == envelope.stamp =>
            {
                gathered.0 += size.0;
                first.messages.extend(envelope.messages);
                None
            }
            _ => Some(envelope),
        }
    }

    /// Brings an envelope onto the network.
    pub(super) fn send_now(&mut self, from: usize, to: usize, size: Bytes, mut envelope: Envelope) {
        envelope.cause = self.history.current();
        self.send_bytes(from, to, size);
        self.network.send(self.now, from, to, size, envelope);
    }

    /// Queues an envelope on `lanes` of `from`, which send it once they have sent those before.
    pub(super) fn send_over(
        &mut self,
        from: usize,
        lanes: Lanes,
        to: usize,
        size: Bytes,
        envelope: Envelope,
    ) {
        let cost = self.message_thread.as_ref().map(|thread| thread.send.of_bytes(size));
        let cost = cost.unwrap_or_default();
        let spread = Chore::Spread { to, size, envelope };
        self.do_on_lanes(from, lanes, Activity::Sending, Duration::ZERO, spread);
        self.do_on_lanes(from, lanes, Activity::Sending, cost, Chore::SendBytes);
    }

    /// Has the first bytes of an envelope, which is sent now, reach `to` one latency later.
    pub(super) fn send_bytes(&mut self, from: usize, to: usize, size: Bytes) {
        let receive = self.message_thread.as_ref().map(|thread| thread.receive.of_bytes(size));
        if receive.is_some_and(|cost| !cost.is_zero()) {
            let at = self.now.after(self.network.latency(from, to));
            let cause = self.history.current();
            self.events.push(at, Event::FirstBytes { from, to, size, cause });
        }
    }

    /// Has the message thread of `to` decode the bytes of an envelope while they come: packets are
    /// encoded, carried and decoded at the same time.
    pub(super) fn take_in_bytes(&mut self, from: usize, to: usize, size: Bytes) {
        let Some(thread) = self.message_thread.as_ref().filter(|_| self.connections.is_up(to))
        else {
            return;
        };
        let (activity, span) = (Activity::Receiving, thread.receive.of_bytes(size));
        if let Some(lanes) = self.lanes_for(from, to, size) {
            return self.do_on_lanes(to, lanes, activity, span, Chore::Nothing);
        }
        self.wake_thread(to, WokenBy::Envelope);
        self.do_on_thread(to, activity, span, Chore::Nothing);
    }

    /// The lanes that an envelope takes, if it is long enough and both ends have some.
    pub(super) fn lanes_for(&self, from: usize, to: usize, size: Bytes) -> Option<Lanes> {
        let is_spread = size.0 >= SPREAD_ENVELOPE as u64 && from != to;
        let [one, other] = [from, to].map(|task| self.lanes[task].filter(|_| is_spread));
        let (one, other) = (one?, other?);
        Some(if one.threads < other.threads { one } else { other })
    }

    /// Has the lanes of `task` do what would take its message thread so long.
    fn do_on_lanes(
        &mut self,
        task: usize,
        lanes: Lanes,
        activity: Activity,
        span: Duration,
        chore: Chore,
    ) {
        let Lanes { threads, speed_up } = lanes;
        let (span, threads) = (span.div_f64(speed_up), threads.get());
        let then = self.errand(SpanKind::MessageThread, chore);
        let activity = Some(activity);
        let piece = Piece { span, activity, operations: Duration::ZERO, threads, then };
        self.processors.give(self.now, task, ProcessorUnit::Lanes, piece);
    }

    /// Hands an envelope that has arrived to the actors, once their message thread has received it.
    pub(super) fn take_in(&mut self, delivery: Delivery<Envelope>, actions: &mut Vec<Action>) {
        let (from, to, stamp) = (delivery.from, delivery.to, delivery.payload.stamp);
        let is_received =
            self.connections.is_up(to) && !self.connections.must_wait(from, to, stamp);
        let Some(thread) = self.message_thread.as_ref().filter(|_| is_received) else {
            return self.hand_over(delivery, actions);
        };
        match self.lanes_for(from, to, delivery.size) {
            Some(lanes) if !thread.receive.of_bytes(delivery.size).is_zero() => {
                // It is whole once all its bytes are decoded, which wait there before it.
                let (activity, chore) = (Activity::Receiving, Chore::Decoded(Box::new(delivery)));
                self.do_on_lanes(to, lanes, activity, Duration::ZERO, chore);
            }
            _ => self.receive(delivery),
        }
    }

    /// Has the message thread of its receiver hand an envelope to the actors.
    pub(super) fn receive(&mut self, delivery: Delivery<Envelope>) {
        let to = delivery.to;
        let fixed = self.message_thread.as_ref().map_or(Duration::ZERO, |it| it.receive.fixed);
        let cost = fixed + self.coding_time(to, &delivery.payload);
        self.wake_thread(to, WokenBy::Envelope);
        self.do_on_thread(to, Activity::Receiving, cost, Chore::Receive(Box::new(delivery)));
    }

    /// The time that it takes `task` to encode the values of an envelope, or to decode them.
    fn coding_time(&self, task: usize, envelope: &Envelope) -> Duration {
        if self.cluster.encoding == Encoding::Exact {
            return Duration::ZERO;
        }
        let bytes: u64 = envelope.messages.iter().map(PeerMessage::coding_traffic).sum();
        self.devices[task][0].copy_time(bytes)
    }
}
