//! Crashes: the card of a task that dies sends nothing more.

use std::cmp::Reverse;

use super::event::EventKind;
use super::{Delivery, MessageId, Network};
use crate::units::Time;

impl<T> Network<T> {
    /// Takes back the messages of `task` whose last byte has not left, and returns them. The task
    /// may then send again. What is under way to it goes on: its peers don't know yet.
    pub(crate) fn crash(&mut self, now: Time, task: usize) -> Vec<Delivery<T>> {
        self.pause(now, task); // all that has begun and not left is then in the queues
        let waiting = self.waiting_to_start(task);
        let mut unsent: Vec<_> = waiting.into_iter().map(|id| self.take_back(id)).collect();
        for connection in self.connections.of_sender(task) {
            for (id, left) in self.connections.get_mut(connection).clear() {
                self.count_part(id, left);
                unsent.push(self.take_back(id));
            }
        }
        self.paid[task] = self.time_paid(task, now);
        self.sender_free[task] = now;
        self.drop_stale_events();
        self.resume(now, task);
        unsent
    }

    /// The messages of `task` whose first byte is still to be sent, in order of sending.
    fn waiting_to_start(&self, task: usize) -> Vec<MessageId> {
        let mut starts: Vec<(u64, MessageId)> = Vec::new();
        for Reverse(event) in &self.events {
            if let EventKind::Start(id) = event.kind
                && self.messages[id as usize].event == event.sequence
                && self.connection(id).from == task
            {
                starts.push((event.sequence, id));
            }
        }
        starts.sort_unstable();
        starts.into_iter().map(|(_, id)| id).collect()
    }

    /// Counts the bytes of message `id` that have crossed its links, all but `left`.
    fn count_part(&mut self, id: MessageId, left: f64) {
        let crossed = (self.on_the_wire(id) - left).round() as u64;
        let route = self.connection(id).route;
        for link in &*route {
            self.carried[*link as usize] += crossed;
        }
    }

    /// Removes message `id`, which will not arrive.
    fn take_back(&mut self, id: MessageId) -> Delivery<T> {
        let message = &mut self.messages[id as usize];
        message.event = u64::MAX;
        let delivery = message.delivery.take().expect("a message under way is not delivered");
        self.free.push(id);
        delivery
    }
}
