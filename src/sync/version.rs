//! The epochs of a task's trainings, and the versions of variables within them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a training on the same servers, from its beginning or restore to the next one. A
/// message of an older epoch is dropped on arrival, so that nobody has to track what else was under
/// way.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// A variable's version: the number of its updates. Older versions compare as less. A round has the
/// version that it updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The epoch of the rounds that updated the variable; 0 if there were none.
    pub epoch: Epoch,
    /// The number of updates.
    pub updates: u64,
}

impl Version {
    /// After all others.
    pub(super) const LAST: Self = Self { epoch: Epoch(u32::MAX), updates: u64::MAX };
}
