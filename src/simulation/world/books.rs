//! The books of what tasks send each other: each byte that a task counts as sent is handed to
//! another task, dropped, or still under way.

use super::World;
use crate::simulation::chore::{Chore, Errand};
use crate::simulation::events::{Envelope, EventQueue};
use crate::simulation::network::Delivery;

/// The bytes that have left the ways between tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Books {
    /// What was handed to the actors of a task.
    handed_over: u64,
    /// What was dropped: with its connection, or with the task that was sending or receiving it.
    dropped: u64,
}

impl Books {
    pub(super) fn hand_over(&mut self, delivery: &Delivery<Envelope>) {
        self.handed_over += delivery.size.0;
    }

    pub(super) fn drop(&mut self, delivery: &Delivery<Envelope>) {
        self.dropped += delivery.size.0;
    }

    /// A task has died that had this to do.
    pub(super) fn leave_undone(&mut self, undone: &[Errand]) {
        self.dropped += with_threads(undone);
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
        let Books { handed_over, dropped } = self.books;
        let sent: u64 = self.traffic.iter().map(|sent| sent.total).sum();
        let held: u64 = self.held.iter().map(|delivery| delivery.size.0).sum();
        let on_links = self.network.bytes_in_flight().0 + events.late_bytes() + held;
        let under_way = on_links + with_threads(work);
        assert!(
            sent == handed_over + dropped + under_way,
            "of {sent} bytes that tasks have sent, {handed_over} were handed over and {dropped} \
             dropped, and {under_way} are under way"
        );
    }
}

/// What message threads and lanes have to send, or are about to hand over \[bytes\].
fn with_threads(work: &[Errand]) -> u64 {
    let bytes = |errand: &Errand| match &errand.chore {
        Chore::Send { size, .. } | Chore::Spread { size, .. } => size.0,
        Chore::Receive(delivery) | Chore::Decoded(delivery) => delivery.size.0,
        _ => 0,
    };
    work.iter().map(bytes).sum()
}
