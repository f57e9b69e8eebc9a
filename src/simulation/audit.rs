//! The audit digest: a hash of every event, by which two runs are known to be the same.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

/// Hashes what happens, in the order in which it happens.
#[derive(Default)]
pub(super) struct Audit {
    hash: Xxh3,
    events: u64,
}

/// What a run's events hash to; equal for equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Audit {
    /// Something happened, told apart by a few numbers.
    pub(super) fn record(&mut self, numbers: [u64; 4]) {
        let mut bytes = [0; 32];
        for (to, from) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        self.hash.update(&bytes);
        self.events += 1;
    }

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
