//! Which workers take no more steps, and whether they have left in good order or were lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Replica;

/// The workers that are not waited for.
#[derive(Debug, Default)]
pub(super) struct Departures {
    departed: BTreeSet<u32>,
    /// Those of them that said so themselves.
    left: BTreeSet<u32>,
    /// Who has made ready to train since.
    begun: BTreeSet<u32>,
    /// The workers whose steps each master orders.
    replicas: BTreeMap<u64, BTreeSet<u32>>,
}

impl Departures {
    /// `worker` says that it takes no more steps. Whether that changes who is waited for.
    pub(super) fn leave(&mut self, worker: u32) -> bool {
        self.left.insert(worker);
        self.lose(worker)
    }

    /// `worker` is lost, perhaps for a while. Whether that changes who is waited for.
    pub(super) fn lose(&mut self, worker: u32) -> bool {
        self.begun.remove(&worker);
        self.departed.insert(worker)
    }

    /// `worker` is about to train by order of `master`. Whether it had departed.
    pub(super) fn join(&mut self, master: u64, worker: u32) -> bool {
        self.replicas.entry(master).or_default().insert(worker);
        self.begun.insert(worker);
        self.left.remove(&worker);
        self.departed.remove(&worker)
    }

    /// Everybody is waited for again; gives who was not.
    pub(super) fn clear(&mut self) -> BTreeSet<u32> {
        self.left.clear();
        std::mem::take(&mut self.departed)
    }

    /// Those of `workers` that have departed.
    pub(super) fn of(&self, workers: u32) -> impl Iterator<Item = u32> {
        self.departed.range(..workers).copied()
    }

    /// All that have departed.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.departed.iter().copied()
    }

    /// Those of `workers` that have made ready to train, and not departed.
    pub(super) fn begun(&self, workers: u32) -> impl Iterator<Item = u32> {
        self.begun.range(..workers).copied()
    }

    pub(super) fn count(&self) -> u32 {
        self.departed.len() as u32
    }

    /// Whether a training of `workers` is over: none is left, and it did not only lose them, for
    /// those who are lost may come back.
    pub(super) fn is_over(&self, workers: u32) -> bool {
        self.count() >= workers && !self.left.is_empty()
    }

    /// Whether `replica`, which makes ready to train, does so for another training than the one
    /// that is over. A worker that was lost comes back to the same one, and goes on by itself where
    /// the others have left.
    pub(super) fn begins_anew(&self, replica: Replica) -> bool {
        self.is_over(replica.workers) && self.left.contains(&replica.worker)
    }

    /// The workers whose steps `masters`, which are lost, have ordered.
    pub(super) fn replicas_of(&mut self, masters: &[u64]) -> impl Iterator<Item = u32> {
        let lost: Vec<BTreeSet<u32>> =
            masters.iter().filter_map(|master| self.replicas.remove(master)).collect();
        lost.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mode;

    #[test]
    fn a_training_is_over_when_all_have_departed_and_one_of_them_in_good_order() {
        let mut departures = Departures::default();
        assert!(departures.lose(0) && departures.lose(1) && !departures.is_over(2));
        assert!(!departures.leave(1) && departures.is_over(2));
    }

    #[test]
    fn another_training_is_begun_by_who_has_left_the_last_and_not_by_who_was_lost() {
        let mut departures = Departures::default();
        departures.leave(0);
        departures.lose(1);
        let replica = |worker| Replica { worker, workers: 2, mode: Mode::Async };
        assert!(departures.begins_anew(replica(0)) && !departures.begins_anew(replica(1)));
        departures.join(7, 1);
        assert!(!departures.begins_anew(replica(0)));
    }

    #[test]
    fn a_worker_that_joins_again_has_not_departed() {
        let mut departures = Departures::default();
        assert!(!departures.join(7, 1) && departures.lose(1));
        assert_eq!(departures.of(2).collect::<Vec<_>>(), [1]);
        assert!(departures.join(8, 1) && departures.count() == 0);
    }

    #[test]
    fn the_workers_of_a_lost_master_are_known_once() {
        let mut departures = Departures::default();
        departures.join(7, 1);
        departures.join(7, 3);
        departures.join(8, 2);
        assert_eq!(departures.replicas_of(&[7, 9]).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(departures.replicas_of(&[7]).count(), 0);
    }
}
