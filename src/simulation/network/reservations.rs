//! Reservations: a message alone on its links has them for itself, and arrives in one event.

use std::time::Duration;

use super::connections::Connection;
use super::event::EventKind;
use super::route::LinkId;
use super::{MessageId, Network};
use crate::units::Time;

/// A link's use by one message alone, until its last byte has left.
#[derive(Clone, Copy, Default)]
pub(super) struct Reservation {
    pub(super) message: MessageId,
    pub(super) until: Time,
}

impl<T> Network<T> {
    /// Starts message `id` now: alone on its links if they are idle, else in its connection's flow.
    pub(super) fn start(&mut self, id: MessageId) {
        if !self.has_to_wait(self.messages[id as usize].connection) {
            let route = self.connection(id).route;
            for link in &*route {
                let reservation = self.reservations[*link as usize];
                if reservation.until > self.now {
                    self.revoke(reservation.message);
                }
            }
            if self.reserve(id) {
                return self.drop_stale_events();
            }
        }
        self.queue(id, self.on_the_wire(id));
        self.drop_stale_events();
    }

    /// If the links of message `id`, which starts now, are free, reserves them and schedules its
    /// arrival.
    fn reserve(&mut self, id: MessageId) -> bool {
        let Connection { route, latency, .. } = *self.connection(id);
        let free = |link: &LinkId| {
            self.reservations[*link as usize].until <= self.now && self.flows.is_idle(*link)
        };
        if !route.iter().all(free) {
            return false;
        }
        if route.is_empty() {
            self.schedule(self.now, EventKind::Arrive(id));
            return true;
        }
        let transfer = self.on_the_wire(id) / self.flows.capacity(&route);
        let until = self.now.after(Duration::from_nanos(transfer.round() as u64));
        self.note_reserved(id, self.now, until);
        for link in &*route {
            self.reservations[*link as usize] = Reservation { message: id, until };
        }
        self.schedule(until.after(latency), EventKind::Arrive(id));
        true
    }

    /// Notes that message `id` has its links for itself from `start` until `until`.
    fn note_reserved(&mut self, id: MessageId, start: Time, until: Time) {
        let route = self.connection(id).route;
        let held = self.flows.held_back_alone(&route, until.since(start).as_nanos() as u64);
        let times = self.times_of(id);
        (times.left, times.held) = (until, held);
    }

    /// Takes back the reservation of message `id`: its remaining bytes join its connection's flow.
    pub(super) fn revoke(&mut self, id: MessageId) {
        let start = self.messages[id as usize].start;
        let route = self.connection(id).route;
        for link in &*route {
            self.reservations[*link as usize].until = Time::ZERO;
        }
        let sent = self.flows.capacity(&route) * self.now.since(start).as_nanos() as f64;
        self.messages[id as usize].event = u64::MAX;
        self.note_reserved(id, start, self.now);
        self.queue(id, (self.on_the_wire(id) - sent).max(0.0));
    }
}
