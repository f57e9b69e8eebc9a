//! How the workers of a training are coordinated.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the workers of a training are coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each worker's gradient is applied as it arrives.
    Async,
    /// One update a round, from one gradient of each worker, all of the same version of the
    /// variables. With backups only the first `workers - backups` gradients of a round count.
    Sync {
        /// How many of the workers need not be waited for.
        backups: u32,
    },
    /// Asynchronous, but a worker waits when it is more than `slack` steps ahead of the slowest.
    BoundedStaleness {
        /// How many steps ahead of the slowest a worker may be.
        slack: u32,
    },
}

impl Mode {
    /// How many steps each of `workers` has taken at `global_step`: exactly with synchronous training; else as if they
    /// were equally fast.
    pub fn steps_of_a_worker(self, global_step: u64, workers: u32) -> u64 {
        match self {
            Self::Sync { .. } => global_step,
            Self::Async | Self::BoundedStaleness { .. } => global_step / u64::from(workers.max(1)),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Async => f.write_str("async"),
            Self::Sync { backups: 0 } => f.write_str("sync"),
            Self::Sync { backups } => write!(f, "sync, {backups} backup{}", if *backups == 1 { "" } else { "s" }),
            Self::BoundedStaleness { slack } => write!(f, "bounded staleness, slack {slack}"),
        }
    }
}
