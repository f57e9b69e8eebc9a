//! The departed workers of a training, as a task tells another of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The departed workers of a training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departed {
    /// Those that have said that they take no more steps.
    pub left: BTreeSet<u32>,
    /// Those whose task or master is lost, perhaps for a while.
    pub lost: BTreeSet<u32>,
}

impl Departed {
    /// Whether `worker` is one of them.
    pub(crate) fn has(&self, worker: u32) -> bool {
        self.left.contains(&worker) || self.lost.contains(&worker)
    }

    /// Adds those that another task knows of.
    pub fn extend(&mut self, other: Self) {
        self.left.extend(other.left);
        self.lost.extend(other.lost);
    }
}
