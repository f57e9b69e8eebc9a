//! Deliveries: an envelope that arrives is handed over, delayed by a slow link, held until its
//! receiver can take it, or dropped with its connection.

use std::time::Duration;

use crate::runtime::PeerMessage;
use crate::transport::Loss;
use crate::units::{Time, seconds};

use super::{Action, World};
use crate::simulation::audit::EventKind;
use crate::simulation::connections::Arrival;
use crate::simulation::critical_path::SpanKind;
use crate::simulation::events::{Envelope, Event};
use crate::simulation::fault_injector::FaultEvent;
use crate::simulation::network::Delivery;

impl World {
    /// Advances the network by one event, which may be an arrival.
    pub(super) fn advance_network(&mut self, actions: &mut Vec<Action>) {
        let Some(mut delivery) = self.network.advance(self.now) else { return };
        let (from, to, times) = (delivery.from, delivery.to, &delivery.times);
        let has_numbers = delivery.payload.messages.iter().any(PeerMessage::has_numbers);
        self.history.arrive(delivery.payload.cause, self.now, from, to, times, has_numbers);
        delivery.payload.cause = self.history.current();
        if let Some(timeline) = self.timeline.as_mut().filter(|timeline| timeline.is_on()) {
            timeline.message(from, to, delivery.size, &delivery.times, self.now);
        }
        let route = (delivery.from as u64) << 32 | delivery.to as u64;
        self.audit.record(self.now, EventKind::Delivery, [route, delivery.size.0]);
        let due = self.faults.due_at_delivery(self.deliveries);
        self.deliveries += 1;
        for event in due {
            self.apply_fault(event, actions);
        }
        match self.late_arrival(&delivery, actions) {
            Some(at) => self.events.push(at, Event::SlowArrival(Box::new(delivery))),
            None => self.take_in(delivery, actions),
        }
    }

    /// When an envelope arrives that is late: over a slow link, by lost packets, or because small
    /// ones before it are.
    fn late_arrival(
        &mut self,
        delivery: &Delivery<Envelope>,
        actions: &mut Vec<Action>,
    ) -> Option<Time> {
        if !self.faults.are_expected() {
            return None;
        }
        let (from, to) = (delivery.from, delivery.to);
        let latency = self.network.latency(from, to);
        let slow = latency.as_secs_f64() * (self.faults.link_slowness(from, to) - 1.0);
        let lost = self.faults.retransmission(from, to, latency).unwrap_or_else(|| {
            for effect in self.faults.break_connection(self.now, (from, to), &mut self.connections)
            {
                self.apply(effect, actions);
            }
            Duration::ZERO
        });
        let mut at = self.now.after(seconds(slow).saturating_add(lost));
        if delivery.size <= self.cluster.hardware.network.connection.large {
            at = at.max(self.late.get(&(from, to)).copied().unwrap_or(at));
            if at > self.now {
                self.late.insert((from, to), at);
            }
        }
        Some(at).filter(|at| *at > self.now)
    }

    /// Delivers an envelope, if its connection and its receiver's state allow.
    pub(super) fn hand_over(&mut self, delivery: Delivery<Envelope>, actions: &mut Vec<Action>) {
        let (from, to) = (delivery.from, delivery.to);
        match self.connections.arrive(from, to, delivery.payload.stamp) {
            Arrival::Hold => return self.held.push(delivery),
            Arrival::Reset => {
                self.books.drop(&delivery);
                let event = FaultEvent::PeerRestarted { observer: from, peer: to };
                return self.schedule_fault(self.network.latency(to, from), event);
            }
            Arrival::Closed => {
                self.books.drop(&delivery);
                let event = FaultEvent::closed(from, to);
                return self.schedule_fault(self.network.latency(to, from), event);
            }
            Arrival::Drop => {
                self.books.drop(&delivery);
                let (from, to) = (&self.tasks[from], &self.tasks[to]);
                return tracing::debug!(%from, %to, "an envelope is lost with its connection");
            }
            Arrival::DeliverAfterLoss(loss) => self.tell_lost(to, from, loss, actions),
            Arrival::Deliver => {}
        }
        self.books.hand_over(&delivery);
        actions.push(Action::Deliver { from, to, messages: delivery.payload.messages });
    }

    /// Hands over held envelopes that can now be delivered.
    pub(super) fn release_held(&mut self, actions: &mut Vec<Action>) {
        for delivery in std::mem::take(&mut self.held) {
            let Envelope { cause, .. } = delivery.payload;
            self.history.end(cause, self.now, delivery.to, SpanKind::Fault);
            self.take_in(delivery, actions);
        }
    }

    pub(super) fn tell_lost(
        &mut self,
        observer: usize,
        peer: usize,
        loss: Loss,
        actions: &mut Vec<Action>,
    ) {
        let pair = (observer as u64) << 32 | peer as u64;
        self.audit.record(self.now, EventKind::PeerLost, [pair, loss as u64]);
        actions.push(Action::TellLost { observer, peer, loss });
    }
}
