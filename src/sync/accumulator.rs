//! The barrier of a synchronous training: one gradient of each contributing worker, round by round.

use std::collections::{BTreeMap, BTreeSet};

/// Collects the gradients of one variable until a round is complete.
///
/// TensorFlow's `ConditionalAccumulator` counts gradients, whoever sent them, so that a fast worker
/// can fill a round with two of its own. Here a round has one gradient of each contributor, which
/// also fixes the order in which they are summed. `G` is whatever a gradient is.
#[derive(Debug)]
pub struct Accumulator<G> {
    replicas: u32,
    departed: BTreeSet<u32>,
    /// The round under way, and so the variable's version.
    round: u64,
    offered: BTreeMap<u32, G>,
    contributors: Contributors,
}

/// Whose gradients make a round.
#[derive(Debug)]
enum Contributors {
    /// Every worker that has not left.
    Everyone,
    /// Those that the coordinator names; kept for the round under way and for any after it.
    Named(BTreeMap<u64, BTreeSet<u32>>),
}

/// What became of a gradient offered to an [`Accumulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer<G> {
    /// It is held for the round under way.
    Held,
    /// It was computed from a version that has since been updated; it is dropped.
    Stale,
    /// It is held in the place of this one, which the worker offered in the same round: it has
    /// restarted, or given up that step.
    Replaced(G),
    /// The worker has left; the gradient is dropped.
    Departed,
}

/// A complete round: what one update of the variable is made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Round<G> {
    /// Which round, from 0: the version that the gradients were computed from.
    pub number: u64,
    /// The contributors' gradients by ascending worker index. Empty only where every contributor
    /// of a closed round left before its gradient came: the variable then keeps its value.
    pub gradients: Vec<(u32, G)>,
    /// Gradients of this round that came but do not count, by ascending worker index.
    pub left_over: Vec<(u32, G)>,
}

impl<G> Accumulator<G> {
    /// An accumulator of workers `0..replicas`, in which all of them contribute to every round
    /// unless they leave.
    pub fn new(replicas: u32) -> Self {
        let contributors = Contributors::Everyone;
        Self { replicas, departed: BTreeSet::new(), round: 0, offered: BTreeMap::new(), contributors }
    }

    /// An accumulator of workers `0..replicas`, some of which are backups: no round is complete
    /// before [`Accumulator::close_on`] has said who contributes to it.
    pub fn with_backups(replicas: u32) -> Self {
        Self { contributors: Contributors::Named(BTreeMap::new()), ..Self::new(replicas) }
    }

    /// The same, for a variable that has had `round` updates before.
    #[must_use]
    pub fn from_round(self, round: u64) -> Self {
        Self { round, ..self }
    }

    /// The round under way, and so the variable's version.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Offers `worker`'s gradient, computed from `version` of the variables: the version of the
    /// worker's step, which is the least that it read where variables differ.
    ///
    /// # Panics
    /// If there is no such worker or no such version yet.
    pub fn offer(&mut self, worker: u32, version: u64, gradient: G) -> Offer<G> {
        self.assert_is_replica(worker);
        assert!(version <= self.round, "a gradient comes of a version that exists: {version}, not {}", self.round);
        if self.departed.contains(&worker) {
            Offer::Departed
        } else if version < self.round {
            Offer::Stale
        } else {
            self.offered.insert(worker, gradient).map_or(Offer::Held, Offer::Replaced)
        }
    }

    /// The coordinator has said who contributes to `round`, the one under way or a later one. It may be said again.
    ///
    /// # Panics
    /// If the round is over or closed with other contributors, or if this accumulator has no backups.
    pub fn close_on(&mut self, round: u64, contributors: &[u32]) {
        assert!(round >= self.round, "a round closes once: {round}, but {} is under way", self.round);
        contributors.iter().for_each(|worker| self.assert_is_replica(*worker));
        let Contributors::Named(closed) = &mut self.contributors else {
            panic!("only a training with backups names the contributors of a round");
        };
        let contributors: BTreeSet<u32> = contributors.iter().copied().collect();
        let named = closed.entry(round).or_insert_with(|| contributors.clone());
        assert_eq!(*named, contributors, "a round closes once, round {round} too");
    }

    /// The training is over: hands back what is held, which will not be applied.
    pub fn finish(&mut self) -> Vec<G> {
        std::mem::take(&mut self.offered).into_values().collect()
    }

    /// The round under way, if all that it waits for is here; the next one is then under way.
    ///
    /// Call it until it returns `None`: where contributors left, the next round can be complete too.
    pub fn take_ready(&mut self) -> Option<Round<G>> {
        if !self.is_ready() {
            return None;
        }
        let number = self.round;
        self.round += 1;
        let offered = std::mem::take(&mut self.offered);
        let (gradients, left_over) = match &mut self.contributors {
            Contributors::Everyone => (offered.into_iter().collect(), Vec::new()),
            Contributors::Named(closed) => {
                let contributors = closed.remove(&number).expect("a round is complete only once it is closed");
                offered.into_iter().partition(|(worker, _)| contributors.contains(worker))
            }
        };
        Some(Round { number, gradients, left_over })
    }

    /// `worker` is not waited for from now on. A gradient that it has offered in this round still counts.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn leave(&mut self, worker: u32) {
        self.assert_is_replica(worker);
        self.departed.insert(worker);
    }

    /// `worker`, which had left, is back: it is waited for again.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn rejoin(&mut self, worker: u32) {
        self.assert_is_replica(worker);
        self.departed.remove(&worker);
    }

    /// Takes back held gradients that `is_void` says will not count.
    pub fn withdraw(&mut self, mut is_void: impl FnMut(&G) -> bool) {
        self.offered.retain(|_, gradient| !is_void(gradient));
    }

    /// The workers whose gradients the round under way lacks, by ascending index. A round that the
    /// coordinator has not closed yet may turn out not to need all of them, and waits for the
    /// coordinator where this is empty.
    pub fn waiting_for(&self) -> Vec<u32> {
        let missing = |worker: &u32| !self.departed.contains(worker) && !self.offered.contains_key(worker);
        match self.named() {
            Some(contributors) => contributors.iter().copied().filter(missing).collect(),
            None => (0..self.replicas).filter(missing).collect(),
        }
    }

    fn is_ready(&self) -> bool {
        let closed = match self.contributors {
            Contributors::Everyone => !self.offered.is_empty(),
            Contributors::Named(_) => self.named().is_some(),
        };
        closed && self.waiting_for().is_empty()
    }

    /// Who contributes to the round under way, where the coordinator has said so.
    fn named(&self) -> Option<&BTreeSet<u32>> {
        match &self.contributors {
            Contributors::Everyone => None,
            Contributors::Named(closed) => closed.get(&self.round),
        }
    }

    fn assert_is_replica(&self, worker: u32) {
        assert!(worker < self.replicas, "workers are replicas 0..{}, not {worker}", self.replicas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered<const N: usize>(
        mut to: Accumulator<&'static str>,
        offers: [(u32, &'static str); N],
    ) -> Accumulator<&'static str> {
        for (worker, gradient) in offers {
            assert_eq!(to.offer(worker, to.round, gradient), Offer::Held);
        }
        to
    }

    #[test]
    fn a_round_waits_for_every_worker_and_orders_gradients_by_worker_not_by_arrival() {
        let mut accumulator = offered(Accumulator::new(3), [(2, "c"), (0, "a")]);
        assert_eq!(accumulator.take_ready(), None);
        assert_eq!(accumulator.waiting_for(), [1]);
        accumulator.offer(1, 0, "b");
        let gradients = vec![(0, "a"), (1, "b"), (2, "c")];
        assert_eq!(accumulator.take_ready(), Some(Round { number: 0, gradients, left_over: vec![] }));
        assert_eq!(accumulator.waiting_for(), [0, 1, 2]);
    }

    #[test]
    fn a_second_gradient_of_a_round_takes_the_place_of_the_first_and_a_stale_one_is_refused() {
        let mut accumulator = offered(Accumulator::new(2), [(0, "a"), (1, "b")]);
        assert_eq!(accumulator.offer(0, 0, "again"), Offer::Replaced("a"));
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "again"), (1, "b")]);
        assert_eq!(accumulator.offer(0, 0, "late"), Offer::Stale);
        assert_eq!(accumulator.waiting_for(), [0, 1]);
    }

    #[test]
    fn a_worker_that_leaves_is_not_waited_for_but_what_it_offered_counts() {
        let mut accumulator = offered(Accumulator::new(3), [(0, "a"), (1, "b")]);
        accumulator.leave(1);
        accumulator.leave(2);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
        assert_eq!(accumulator.offer(1, 1, "dead"), Offer::Departed);
        accumulator.offer(0, 1, "a");
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
    }

    #[test]
    fn a_worker_that_comes_back_is_waited_for_again() {
        let mut accumulator = offered(Accumulator::new(2), [(0, "a")]);
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
        accumulator.rejoin(1);
        accumulator.offer(0, 1, "a");
        assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![1]));
        assert_eq!(accumulator.offer(1, 1, "b"), Offer::Held);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
    }

    #[test]
    fn a_gradient_that_is_withdrawn_does_not_count() {
        let mut accumulator = offered(Accumulator::new(2), [(0, "a"), (1, "b")]);
        accumulator.withdraw(|gradient| *gradient == "b");
        assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![1]));
    }

    #[test]
    fn no_round_is_made_of_nothing_once_everyone_has_left() {
        let mut accumulator = Accumulator::<()>::new(2);
        accumulator.leave(0);
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready(), None);
    }

    #[test]
    fn with_backups_the_named_contributors_count_and_the_others_are_left_over() {
        let mut accumulator = offered(Accumulator::with_backups(3), [(0, "a"), (2, "c"), (1, "b")]);
        assert_eq!(accumulator.take_ready(), None, "all are here, but who counts is not known");
        accumulator.close_on(0, &[1, 2]);
        let gradients = vec![(1, "b"), (2, "c")];
        assert_eq!(accumulator.take_ready(), Some(Round { number: 0, gradients, left_over: vec![(0, "a")] }));
    }

    #[test]
    fn a_round_closed_early_waits_for_its_contributors_and_comes_after_the_one_before() {
        let mut accumulator = Accumulator::with_backups(3);
        accumulator.close_on(1, &[0]);
        accumulator.close_on(0, &[0, 1]);
        accumulator.offer(0, 0, "a");
        assert_eq!((accumulator.waiting_for(), accumulator.take_ready()), (vec![1], None));
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
        accumulator.leave(0);
        let empty = Round { number: 1, gradients: vec![], left_over: vec![] };
        assert_eq!(accumulator.take_ready(), Some(empty), "the coordinator has counted the round");
        assert_eq!(accumulator.take_ready(), None);
    }

    #[test]
    #[should_panic(expected = "a version that exists")]
    fn a_gradient_of_a_version_to_come_is_a_bug() {
        Accumulator::new(1).offer(0, 1, ());
    }
}
