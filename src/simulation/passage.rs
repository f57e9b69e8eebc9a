//! The last of an envelope's way: handed over, held until its receiver can take it, or lost with
//! its connection.

use std::time::Duration;

use crate::transport::PeerId;

use super::events::Happening;
use super::links::Arrival;
use super::misfortune::{Consequence, Sent};
use super::network::Delivery;
use super::world::SimulatedWorld;

impl SimulatedWorld {
    /// Hands an envelope to its receiver, unless something has gone wrong between the two.
    pub(super) fn receive(&self, delivery: Delivery<Sent>) {
        match self.hold_up(&delivery) {
            Some(extra) => self.later(extra, Consequence::Late(Box::new(delivery))),
            None => self.hand_over(delivery),
        }
    }

    /// By how much a slow link holds an envelope up.
    fn hold_up(&self, delivery: &Delivery<Sent>) -> Option<Duration> {
        let trouble = self.trouble.borrow();
        let crosses = |(tasks, _): &&(Vec<usize>, f64)| {
            tasks.contains(&delivery.from) && tasks.contains(&delivery.to)
        };
        let factor =
            trouble.slow_links.iter().filter(crosses).map(|(_, factor)| factor).product::<f64>();
        (factor > 1.0).then(|| self.now.get().since(delivery.sent_at).mul_f64(factor - 1.0))
    }

    pub(super) fn hand_over(&self, delivery: Delivery<Sent>) {
        let (from, to) = (delivery.from, delivery.to);
        let arrival = self.links.borrow_mut().arrive(from, to, delivery.payload.0);
        match arrival {
            Arrival::Held => return self.trouble.borrow_mut().held.push(delivery),
            Arrival::Dropped => {
                return tracing::debug!(
                    from = %self.tasks[from], to = %self.tasks[to],
                    "lost with its connection"
                );
            }
            Arrival::TakenAfter(loss) => self.tell_lost(to, from, loss),
            Arrival::Taken => {}
        }
        let inbox = self.inboxes.borrow()[to].clone();
        match inbox {
            Some(inbox) => inbox.deliver(PeerId(from as u32), delivery.payload.1),
            None => tracing::warn!(to = %self.tasks[to], "lost: the task does not listen"),
        }
    }

    /// What is held back is handed over, where it now can be.
    pub(super) fn release(&self) {
        let held = std::mem::take(&mut self.trouble.borrow_mut().held);
        held.into_iter().for_each(|delivery| self.hand_over(delivery));
    }

    /// Whether a frozen task misses what was to happen to it; it is then kept for later.
    pub(super) fn misses(&self, task: usize, happening: Happening) -> Option<Happening> {
        if self.links.borrow().is_frozen(task) {
            self.trouble.borrow_mut().missed[task].push(happening);
            return None;
        }
        Some(happening)
    }

    /// A task listens: of its next life, it takes what has waited for that.
    pub(super) fn is_up_again(&self, task: usize) {
        if !self.links.borrow().is_up(task) {
            self.links.borrow_mut().listen(task);
            self.later(Duration::ZERO, Consequence::Release);
        }
    }

    /// A task that lives has closed its end: the others hear of it.
    pub(super) fn has_closed(&self, task: usize) {
        let latency = self.latency;
        for observer in (0..self.tasks.len()).filter(|other| *other != task) {
            self.later(latency, Consequence::Stopped { observer, peer: task });
        }
    }
}
