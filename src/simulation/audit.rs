//! The audit digest: a hash of every event, equal for equal runs.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use crate::units::Time;

/// Hashes events in their order.
#[derive(Default)]
pub(super) struct Audit {
    hash: Xxh3,
    events: u64,
}

/// The kind of an event. The numbers are hashed: changing one changes every digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Wake = 1,
    WorkDone = 2,
    Delivery = 3,
    PeerLost = 4,
    Fault = 5,
    ChoreDone = 6,
    CopyDone = 7,
    FirstBytes = 8,
    LanesDone = 9,
}

/// The hash of a run's events; equal for equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Audit {
    /// Hashes an event; `details` tell it from others of its kind at the same time.
    pub(super) fn record(&mut self, at: Time, kind: EventKind, details: [u64; 2]) {
        let mut bytes = [0; 32];
        let numbers = [at.0, kind as u64, details[0], details[1]];
        for (to, from) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        self.hash.update(&bytes);
        self.events += 1;
    }

    /// The number of events so far.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn digest(&self) -> Digest {
        Digest(self.hash.digest())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
