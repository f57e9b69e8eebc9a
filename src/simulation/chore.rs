//! Chores: what a task's processor does, and what follows at its end.

use std::time::Duration;

use crate::runtime::Asker;
use crate::units::Bytes;

use super::events::Envelope;
use super::job::Job;
use super::network::Delivery;

/// What follows once a piece of a processor's work is done.
pub(super) enum Chore {
    /// An envelope goes onto the network.
    Send { to: usize, size: Bytes, envelope: Envelope },
    /// An envelope is handed to the actors.
    Receive(Box<Delivery<Envelope>>),
    /// Kernels begin to run on a device, where they take `span` on `threads` threads.
    HandOver { device: usize, kernels: Kernels, span: Duration, threads: u32 },
    /// Kernels have run on a device.
    Computed(Kernels),
    /// The actors hear that kernels have run.
    Finish(Kernels),
    /// Nothing: the message thread has woken up, or encoded or decoded bytes.
    Nothing,
}

/// Kernels, and the actors that are told once they have run.
pub(super) struct Kernels {
    pub(super) job: Job,
    pub(super) asker: Asker,
}

impl Kernels {
    /// Waits for the result and hands it to the actors.
    pub(super) fn finish(self) {
        self.job.finish().done(&self.asker);
    }
}
