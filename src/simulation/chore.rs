//! Chores: what a task's processor does, and what follows at its end.

use std::time::Duration;

use smallvec::SmallVec;

use crate::runtime::{Asker, WorkerStep};
use crate::units::Bytes;

use super::background::Pending;
use super::critical_path::{CauseId, SpanKind};
use super::events::Envelope;
use super::gpus::Hop;
use super::network::Delivery;

/// A piece of a processor's work: what has begun it, and what follows.
pub(super) struct Errand {
    pub(super) cause: CauseId,
    /// What its time is spent on.
    pub(super) part: SpanKind,
    pub(super) chore: Chore,
}

/// What follows once a piece of a processor's work is done.
pub(super) enum Chore {
    /// An envelope goes onto the network.
    Send { to: usize, size: Bytes, envelope: Envelope },
    /// Lanes begin to send an envelope, which the message thread has given them.
    Spread { to: usize, size: Bytes, envelope: Envelope },
    /// Lanes have decoded an envelope: the message thread hears of it.
    Decoded(Box<Delivery<Envelope>>),
    /// An envelope is handed to the actors.
    Receive(Box<Delivery<Envelope>>),
    /// Kernels begin to run on a device, where they take `span` on `threads` threads.
    HandOver { device: usize, kernels: Box<Kernels>, span: Duration, threads: u32 },
    /// A value has gone over a link between memories; these are left of its way.
    Copied { left: SmallVec<[Hop; 2]>, kernels: Box<Kernels> },
    /// Kernels have run on a device.
    Computed(Box<Kernels>),
    /// The actors hear that kernels have run.
    Finish(Box<Kernels>),
    /// Nothing follows; the time went into messages whose envelope waits to be sent already.
    Prepare,
    /// Nothing follows; the time went into encoding the bytes of an envelope that has been sent.
    SendBytes,
    /// Nothing follows; the time went into waking up, or into decoding bytes.
    Nothing,
}

/// Kernels, and the actors that are told once they have run.
pub(super) struct Kernels {
    /// The worker step that they are part of, if they are part of one.
    pub(super) step: Option<WorkerStep>,
    /// For how much longer they run than on average.
    pub(super) straggling: Duration,
    pub(super) pending: Pending,
    pub(super) asker: Asker,
}

impl Chore {
    /// The work that leads to it, in a word or two.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Send { .. } => "send",
            Self::Spread { .. } => "send over lanes",
            Self::Decoded(_) => "bytes that have come over lanes",
            Self::Receive(_) => "receive",
            Self::HandOver { .. } => "hand over",
            Self::Copied { .. } => "copy between memories",
            Self::Computed(_) => "kernels",
            Self::Finish(_) => "small kernels, or their end",
            Self::Prepare => "messages of an envelope that waits",
            Self::SendBytes => "bytes that are sent",
            Self::Nothing => "bytes that are received, or waking",
        }
    }

    /// Whether the message thread does it for actors, in their turn.
    pub(super) fn is_of_actors(&self) -> bool {
        matches!(self, Self::HandOver { .. } | Self::Finish(_) | Self::Prepare)
    }

    /// Whether the message thread does it to send, for which a thread that gathers waits until its
    /// actors have had their turn.
    pub(super) fn is_of_sending(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::SendBytes)
    }

    /// Whether it has a device run kernels of `step`.
    pub(super) fn computes(&self, step: WorkerStep) -> bool {
        match self {
            Self::HandOver { kernels, .. } | Self::Computed(kernels) => kernels.step == Some(step),
            _ => false,
        }
    }
}

impl Kernels {
    /// Waits for the result and hands it to the actors.
    pub(super) fn finish(self) {
        match self.pending.finish() {
            Ok(calculation) => calculation.done(&self.asker),
            Err(panic) => self.asker.has_panicked(&*panic),
        }
    }
}
