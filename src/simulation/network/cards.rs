//! Faults of cards and links: the card of a frozen task stands still, a slow link is slower.

use super::Network;
use super::connections::ConnectionId;
use crate::units::Time;

impl<T> Network<T> {
    /// Stops the card of task `task`: its connections keep what they have not sent until
    /// [`Network::resume`]. A message whose last byte has left still arrives.
    pub(crate) fn pause(&mut self, now: Time, task: usize) {
        self.now = now;
        self.is_paused[task] = true;
        for link in 0..self.reservations.len() {
            let reservation = self.reservations[link];
            if reservation.until > now && self.connection(reservation.message).is_of(task) {
                self.revoke(reservation.message);
            }
        }
        for id in self.connections.of_task(task) {
            if self.connections.get(id).is_flowing() {
                let left = self.flows.left(now, id);
                self.connections.get_mut(id).interrupt(left);
                self.flows.leave(now, id);
            }
        }
        self.settle();
    }

    /// Lets the card of task `task` go on, and its connections with what they have kept.
    pub(crate) fn resume(&mut self, now: Time, task: usize) {
        self.now = now;
        self.is_paused[task] = false;
        for id in self.connections.of_task(task) {
            if !self.connections.get(id).is_flowing() && !self.has_to_wait(id) {
                self.begin_flow(id);
            }
        }
    }

    /// Sets the speed of the link from one task to another, which the two have to themselves, as a
    /// share of what the network says. The cards at its ends are as fast as before for others.
    pub(crate) fn set_link_speed(&mut self, now: Time, pair: (usize, usize), speed: f64) {
        self.now = now;
        let link = self.wiring.own_link(pair);
        let link = link.expect("the network was told which links may become slow");
        let reservation = self.reservations[link as usize];
        if reservation.until > now {
            self.revoke(reservation.message);
        }
        self.flows.set_rate(now, link, self.wiring.rate_of_own_link(pair, speed));
        self.settle();
    }

    /// Whether the card of the sender or of the receiver of a connection stands still.
    pub(super) fn has_to_wait(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(id);
        let is_paused = self.is_paused[connection.from] || self.is_paused[connection.to];
        is_paused && !connection.route.is_empty()
    }
}
