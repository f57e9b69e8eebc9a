//! Faults of network cards: the card of a frozen task stands still, that of a slow link is slower.

use super::flows::FlowId;
use super::{Message, Network};
use crate::units::Time;

impl<T> Network<T> {
    /// Stops the card of task `task`: what it sends and receives is held until
    /// [`Network::resume`]. A message whose last byte has left still arrives.
    pub(crate) fn pause(&mut self, now: Time, task: usize) {
        self.now = now;
        self.is_paused[task] = true;
        for id in 0..self.messages.len() as FlowId {
            if self.is_of(id, task) && self.messages[id as usize].parked.is_none() {
                self.park(id);
            }
        }
        self.settle();
    }

    /// Lets the card of task `task` go on. Messages begin again with the bytes that are left, in
    /// the order in which they were sent.
    pub(crate) fn resume(&mut self, now: Time, task: usize) {
        self.now = now;
        self.is_paused[task] = false;
        let mut held: Vec<(u64, FlowId)> = (0..self.messages.len() as FlowId)
            .filter(|id| self.is_of(*id, task) && !self.has_to_wait(*id))
            .filter_map(|id| Some((self.messages[id as usize].parked?, id)))
            .collect();
        held.sort_unstable();
        for (_, id) in held {
            self.messages[id as usize].parked = None;
            self.messages[id as usize].start = now;
            self.start(id);
        }
    }

    /// Sets the speed of the card of the host of `task`, as a share of what the network says.
    pub(crate) fn set_card_speed(&mut self, now: Time, task: usize, speed: f64) {
        self.now = now;
        for link in self.wiring.card(task) {
            let reservation = self.reservations[link as usize];
            if reservation.until > now {
                self.revoke(reservation.message);
            }
            self.flows.set_capacity(link, self.wiring.card_capacity() * speed);
        }
        self.settle();
    }

    /// Whether the card of the sender or of the receiver of message `id` stands still.
    pub(super) fn has_to_wait(&self, id: FlowId) -> bool {
        let Some(delivery) = &self.messages[id as usize].delivery else { return false };
        self.is_paused[delivery.from] || self.is_paused[delivery.to]
    }

    fn is_of(&self, id: FlowId, task: usize) -> bool {
        let delivery = self.messages[id as usize].delivery.as_ref();
        delivery.is_some_and(|delivery| delivery.from == task || delivery.to == task)
    }

    /// Takes message `id` off the links, unless its last byte has left.
    fn park(&mut self, id: FlowId) {
        let Message { route, is_flow, .. } = self.messages[id as usize];
        let is_reserved = route.iter().any(|link| {
            let reservation = self.reservations[*link as usize];
            reservation.message == id && reservation.until > self.now
        });
        if is_reserved {
            self.revoke(id);
        }
        let message = &self.messages[id as usize];
        if message.is_flow {
            let left = self.flows.withdraw(self.now, id);
            self.hold(id, left);
        } else if is_reserved || (!is_flow && message.start > self.now) {
            let left = message.left;
            self.hold(id, left);
        }
    }

    /// Holds message `id`, of which so many bytes are left.
    pub(super) fn hold(&mut self, id: FlowId, left: f64) {
        let message = &mut self.messages[id as usize];
        (message.left, message.is_flow, message.event) = (left, false, u64::MAX);
        message.parked = Some(self.sequence);
        self.sequence += 1;
    }
}
