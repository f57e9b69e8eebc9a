//! The departed workers of a training, as a task tells another of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Why a worker takes no more steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaving {
    /// Its training has ended in good order.
    Done,
    /// It was asked to stop, or has failed, before the end; it may come back.
    Stopped,
}

/// The departed workers of a training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departed {
    /// Those whose training has ended in good order.
    pub done: BTreeSet<u32>,
    /// Those that have left before the end.
    pub stopped: BTreeSet<u32>,
    /// Those whose task or master is lost, perhaps for a while.
    pub lost: BTreeSet<u32>,
}

impl Departed {
    /// Whether `worker` is one of them.
    pub(crate) fn has(&self, worker: u32) -> bool {
        [&self.done, &self.stopped, &self.lost].into_iter().any(|all| all.contains(&worker))
    }

    /// Adds those that another task knows of.
    pub fn extend(&mut self, other: Self) {
        self.done.extend(other.done);
        self.stopped.extend(other.stopped);
        self.lost.extend(other.lost);
        self.stopped.retain(|worker| !self.done.contains(worker)); // one that has come back since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_some_task_knows_to_be_done_has_come_back_since_it_was_stopped() {
        let of = |done: &[u32], stopped: &[u32]| Departed {
            done: done.iter().copied().collect(),
            stopped: stopped.iter().copied().collect(),
            lost: BTreeSet::new(),
        };
        let mut all = of(&[1], &[2]);
        all.extend(of(&[3], &[1, 4]));
        assert_eq!(all, of(&[1, 3], &[2, 4]));
    }
}
