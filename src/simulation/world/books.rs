//! The books of what tasks send each other: each byte that a task counts as sent is handed to
//! another task, dropped, or still under way.

use super::World;
use crate::simulation::chore::{Chore, Errand};
use crate::simulation::events::{Envelope, EventQueue};
use crate::simulation::network::Delivery;

/// The bytes that have left the ways between tasks, by their sender.
pub(super) struct Books {
    /// What was handed to the actors of a task.
    handed_over: Vec<u64>,
    /// What was dropped: with its connection, or with the task that was sending or receiving it.
    dropped: Vec<u64>,
}

impl Books {
    pub(super) fn new(tasks: usize) -> Self {
        Self { handed_over: vec![0; tasks], dropped: vec![0; tasks] }
    }

    pub(super) fn hand_over(&mut self, delivery: &Delivery<Envelope>) {
        self.handed_over[delivery.from] += delivery.size.0;
    }

    pub(super) fn drop(&mut self, delivery: &Delivery<Envelope>) {
        self.dropped[delivery.from] += delivery.size.0;
    }

    /// `task` has died, and had this to do.
    pub(super) fn leave_undone(&mut self, task: usize, undone: &[Errand]) {
        for (from, bytes) in undone.iter().filter_map(|errand| with_threads(task, errand)) {
            self.dropped[from] += bytes;
        }
    }

    /// What has left the ways of all that `task` has sent \[bytes\].
    pub(super) fn of(&self, task: usize) -> u64 {
        self.handed_over[task] + self.dropped[task]
    }
}

impl World {
    /// Checks the books at the end of a run, of which these events and this work are left.
    ///
    /// # Panics
    /// If a byte is missing, or is there twice.
    pub(super) fn check_books(&self, events: &EventQueue, work: &[Errand]) {
        if self.replay.is_some() {
            return; // what a task receives is on its tape
        }
        let handed_over: u64 = self.books.handed_over.iter().sum();
        let dropped: u64 = self.books.dropped.iter().sum();
        let sent: u64 = self.traffic.iter().map(|sent| sent.total).sum();
        let held: u64 = self.held.iter().map(|delivery| delivery.size.0).sum();
        let on_links = self.network.bytes_in_flight().0 + events.late_bytes() + held;
        let on_threads = work.iter().filter_map(|errand| with_threads(0, errand));
        let under_way = on_links + on_threads.map(|(_, bytes)| bytes).sum::<u64>();
        assert!(
            sent == handed_over + dropped + under_way,
            "of {sent} bytes that tasks have sent, {handed_over} were handed over and {dropped} \
             dropped, and {under_way} are under way"
        );
    }
}

/// The sender and the bytes of what a message thread or a lane of `task` has to send, or is about
/// to hand over.
fn with_threads(task: usize, errand: &Errand) -> Option<(usize, u64)> {
    match &errand.chore {
        Chore::Send { size, .. } | Chore::Spread { size, .. } => Some((task, size.0)),
        Chore::Receive(delivery) | Chore::Decoded(delivery) => {
            Some((delivery.from, delivery.size.0))
        }
        _ => None,
    }
}
