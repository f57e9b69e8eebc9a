//! Collects the gradients of a variable, round by round, until a round's update can be applied.

use std::collections::{BTreeMap, BTreeSet};

use super::{Membership, Place};

/// Collects the gradients of one variable until a round is complete.
///
/// TensorFlow's `ConditionalAccumulator` counts gradients, whoever sent them. Here each gradient
/// has a place in its round, which also fixes the order in which they are summed. `G` is the type
/// of a gradient.
#[derive(Debug)]
pub struct Accumulator<G> {
    replicas: u32,
    /// The round under way, and so the variable's version.
    round: u64,
    /// The gradients of this round and of later ones, each with its worker.
    offered: BTreeMap<Place, (u32, G)>,
    contributors: Contributors,
    complete: Complete,
}

/// How many contributors of the round under way, in their order, are known to have offered or to be
/// gone. The check after each gradient resumes there, so that a round costs one look at each
/// contributor rather than one for each gradient and contributor.
#[derive(Debug, Default)]
struct Complete {
    contributors: usize,
    /// The membership's revision at that check.
    revision: u64,
}

/// The workers whose gradients make a round.
#[derive(Debug)]
enum Contributors {
    /// Every worker that has not left.
    Everyone,
    /// The workers that the coordinator names, by place; kept for the round under way and for later
    /// ones.
    Named(BTreeMap<u64, Vec<u32>>),
}

/// The result of offering a gradient to an [`Accumulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer<G> {
    /// The gradient is held for its round.
    Held,
    /// The gradient's round is over; the gradient is dropped.
    Stale,
    /// The gradient is held and replaces this one, which the worker offered earlier for the same
    /// place: the worker has restarted, or has given up that step.
    Replaced(G),
    /// The worker has left; the gradient is dropped.
    Departed,
}

/// A complete round: the gradients of one update of the variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Round<G> {
    /// The round's number, from 0: the version of the variable that it updates.
    pub number: u64,
    /// The gradients with their workers, by place. Empty only if every contributor of a closed
    /// round left before its gradient came: the variable then keeps its value.
    pub gradients: Vec<(u32, G)>,
}

impl Contributors {
    /// The number of contributors to `round`; 0 if the round is not closed.
    fn of(&self, round: u64, replicas: u32) -> usize {
        match self {
            Self::Everyone => replicas as usize,
            Self::Named(closed) => closed.get(&round).map_or(0, Vec::len),
        }
    }
}

impl<G> Accumulator<G> {
    /// Creates an accumulator for a variable that has had `round` updates before. All workers
    /// `0..replicas` contribute to every round unless they leave.
    pub fn of_all(replicas: u32, round: u64) -> Self {
        Self {
            replicas,
            round,
            offered: BTreeMap::new(),
            contributors: Contributors::Everyone,
            complete: Complete::default(),
        }
    }

    /// Creates an accumulator for workers `0..replicas` that vote: a round is complete only after
    /// [`Accumulator::close_on`] has named its contributors.
    pub fn of_voters(replicas: u32) -> Self {
        Self { contributors: Contributors::Named(BTreeMap::new()), ..Self::of_all(replicas, 0) }
    }

    /// The round under way, and so the variable's version.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Offers `worker`'s gradient for `place`. Behind a barrier of all workers the round is the
    /// version of the worker's step: the least version that it read, if its variables differ.
    ///
    /// # Panics
    /// If the worker does not exist or, behind a barrier, the version does not exist yet.
    pub fn offer(
        &mut self,
        members: &Membership,
        worker: u32,
        place: Place,
        gradient: G,
    ) -> Offer<G> {
        self.assert_is_replica(worker);
        let exists =
            place.round <= self.round || matches!(self.contributors, Contributors::Named(_));
        assert!(
            exists,
            "a gradient comes of a version that exists: {}, not {}",
            place.round, self.round
        );
        if !members.is_live(worker) {
            Offer::Departed
        } else if place.round < self.round {
            Offer::Stale
        } else {
            let before = self.offered.insert(place, (worker, gradient));
            before.map_or(Offer::Held, |(_, gradient)| Offer::Replaced(gradient))
        }
    }

    /// Whether `contributors` can be those of `round`: they are all workers, and the same ones as
    /// were named before, if any were.
    pub fn can_close_on(&self, round: u64, contributors: &[u32]) -> bool {
        let Contributors::Named(closed) = &self.contributors else { return false };
        let is_same = closed.get(&round).is_none_or(|named| named == contributors);
        is_same && contributors.iter().all(|worker| *worker < self.replicas)
    }

    /// Names the contributors of `round`, as the coordinator has decided. The call may be repeated,
    /// also once the round is over.
    ///
    /// # Panics
    /// If the round was closed with other contributors, or if nobody votes.
    pub fn close_on(&mut self, round: u64, contributors: &[u32]) {
        contributors.iter().for_each(|worker| self.assert_is_replica(*worker));
        let Contributors::Named(closed) = &mut self.contributors else {
            panic!("only a training with votes names the contributors of a round");
        };
        if round >= self.round {
            let named = closed.entry(round).or_insert_with(|| contributors.to_vec());
            assert_eq!(named, contributors, "a round closes once, round {round} too");
        }
    }

    /// Ends the training and returns the held gradients, which will not be applied.
    pub fn finish(&mut self) -> Vec<G> {
        self.complete = Complete::default();
        std::mem::take(&mut self.offered).into_values().map(|(_, gradient)| gradient).collect()
    }

    /// Takes the round under way if all its gradients are here, and begins the next one.
    ///
    /// Call it until it returns `None`: the next round can be complete too.
    pub fn take_ready(&mut self, members: &Membership) -> Option<Round<G>> {
        if !self.is_ready(members) {
            return None;
        }
        self.complete = Complete::default();
        let number = self.round;
        self.round += 1;
        let later = self.offered.split_off(&Place { round: self.round, index: 0 });
        let gradients = std::mem::replace(&mut self.offered, later).into_values().collect();
        if let Contributors::Named(closed) = &mut self.contributors {
            closed.remove(&number);
        }
        Some(Round { number, gradients })
    }

    /// Removes the held gradients that `is_void` marks as not counting.
    pub fn withdraw(&mut self, mut is_void: impl FnMut(&G) -> bool) {
        self.complete = Complete::default();
        self.offered.retain(|_, (_, gradient)| !is_void(gradient));
    }

    /// The workers whose gradients the round under way lacks, by ascending index; empty if it waits
    /// for the coordinator to close it.
    pub fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        let all = 0..self.contributors.of(self.round, self.replicas);
        let missing = all.filter_map(|index| self.missing(members, index));
        missing.collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// The contributor in place `index` of the round under way, if its gradient is still missing.
    fn missing(&self, members: &Membership, index: usize) -> Option<u32> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        let worker = match &self.contributors {
            Contributors::Everyone => index as u32,
            Contributors::Named(closed) => closed[&self.round][index],
        };
        let place = Place { round: self.round, index: index as u32 };
        let is_missing = members.is_live(worker) && !self.offered.contains_key(&place);
        is_missing.then_some(worker)
    }

    fn is_ready(&mut self, members: &Membership) -> bool {
        let can_be = match &self.contributors {
            Contributors::Everyone => !self.offered.is_empty(),
            Contributors::Named(closed) => closed.contains_key(&self.round),
        };
        if !can_be {
            return false;
        }
        if self.complete.revision != members.revision() {
            self.complete = Complete { contributors: 0, revision: members.revision() };
        }
        for index in self.complete.contributors..self.contributors.of(self.round, self.replicas) {
            self.complete.contributors = index;
            if self.missing(members, index).is_some() {
                return false;
            }
        }
        true
    }

    fn assert_is_replica(&self, worker: u32) {
        assert!(worker < self.replicas, "workers are replicas 0..{}, not {worker}", self.replicas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    std::thread_local! {
        /// The number of looks at a contributor so far.
        pub(super) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[test]
    fn a_round_costs_two_looks_a_worker_in_whatever_order_they_come() {
        const WORKERS: u32 = 500;
        for is_backwards in [false, true] {
            let mut tried = Tried::of_all(WORKERS);
            let before = LOOKS.get();
            for i in 0..WORKERS {
                let worker = if is_backwards { WORKERS - 1 - i } else { i };
                tried.offer(worker, at(0, worker), ());
                assert_eq!(tried.take_ready().is_some(), i == WORKERS - 1);
            }
            assert!(LOOKS.get() - before <= 2 * WORKERS as usize, "{}", LOOKS.get() - before);
        }
    }

    fn at(round: u64, index: u32) -> Place {
        Place { round, index }
    }

    /// An accumulator with the membership that it is asked under.
    struct Tried<G> {
        accumulator: Accumulator<G>,
        members: Membership,
    }

    impl<G> Tried<G> {
        fn of_all(replicas: u32) -> Self {
            Self { accumulator: Accumulator::of_all(replicas, 0), members: Membership::default() }
        }

        fn of_voters(replicas: u32) -> Self {
            Self { accumulator: Accumulator::of_voters(replicas), ..Self::of_all(replicas) }
        }

        fn offer(&mut self, worker: u32, place: Place, gradient: G) -> Offer<G> {
            self.accumulator.offer(&self.members, worker, place, gradient)
        }

        fn take_ready(&mut self) -> Option<Round<G>> {
            self.accumulator.take_ready(&self.members)
        }

        fn waiting_for(&self) -> Vec<u32> {
            self.accumulator.waiting_for(&self.members)
        }

        fn leave(&mut self, worker: u32) {
            self.members.leave(worker);
        }

        fn rejoin(&mut self, worker: u32) {
            self.members.join(worker, u32::MAX, 1);
        }

        fn close_on(&mut self, round: u64, contributors: &[u32]) {
            self.accumulator.close_on(round, contributors);
        }
    }

    fn offered<const N: usize>(
        mut to: Tried<&'static str>,
        offers: [(u32, &'static str); N],
    ) -> Tried<&'static str> {
        let round = to.accumulator.round;
        for (worker, gradient) in offers {
            assert_eq!(to.offer(worker, Place { round, index: worker }, gradient), Offer::Held);
        }
        to
    }

    #[test]
    fn a_round_can_be_closed_on_workers_that_there_are_and_on_the_same_ones_again() {
        let mut accumulator = Accumulator::<()>::of_voters(2);
        assert!(accumulator.can_close_on(0, &[0, 1]) && !accumulator.can_close_on(0, &[0, 2]));
        accumulator.close_on(0, &[1]);
        assert!(accumulator.can_close_on(0, &[1]) && !accumulator.can_close_on(0, &[0]));
        assert!(!Accumulator::<()>::of_all(2, 0).can_close_on(0, &[0]), "nobody votes");
    }

    #[test]
    fn a_round_waits_for_every_worker_and_orders_gradients_by_worker_not_by_arrival() {
        let mut accumulator = offered(Tried::of_all(3), [(2, "c"), (0, "a")]);
        assert_eq!(accumulator.take_ready(), None);
        assert_eq!(accumulator.waiting_for(), [1]);
        accumulator.offer(1, at(0, 1), "b");
        let gradients = vec![(0, "a"), (1, "b"), (2, "c")];
        assert_eq!(accumulator.take_ready(), Some(Round { number: 0, gradients }));
        assert_eq!(accumulator.waiting_for(), [0, 1, 2]);
    }

    #[test]
    fn a_second_gradient_of_a_round_takes_the_place_of_the_first_and_a_stale_one_is_refused() {
        let mut accumulator = offered(Tried::of_all(2), [(0, "a"), (1, "b")]);
        assert_eq!(accumulator.offer(0, at(0, 0), "again"), Offer::Replaced("a"));
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "again"), (1, "b")]);
        assert_eq!(accumulator.offer(0, at(0, 0), "late"), Offer::Stale);
        assert_eq!(accumulator.waiting_for(), [0, 1]);
    }

    #[test]
    fn a_worker_that_leaves_is_not_waited_for_but_what_it_offered_counts() {
        let mut accumulator = offered(Tried::of_all(3), [(0, "a"), (1, "b")]);
        accumulator.leave(1);
        accumulator.leave(2);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
        assert_eq!(accumulator.offer(1, at(1, 1), "dead"), Offer::Departed);
        accumulator.offer(0, at(1, 0), "a");
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
    }

    #[test]
    fn a_worker_that_comes_back_is_waited_for_again() {
        let mut accumulator = offered(Tried::of_all(2), [(0, "a")]);
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
        accumulator.rejoin(1);
        accumulator.offer(0, at(1, 0), "a");
        assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![1]));
        assert_eq!(accumulator.offer(1, at(1, 1), "b"), Offer::Held);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
    }

    #[test]
    fn a_gradient_that_is_withdrawn_does_not_count() {
        let mut accumulator = offered(Tried::of_all(2), [(0, "a"), (1, "b")]);
        accumulator.accumulator.withdraw(|gradient| *gradient == "b");
        assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![1]));
    }

    #[test]
    fn no_round_is_made_of_nothing_once_everyone_has_left() {
        let mut accumulator = Tried::<()>::of_all(2);
        accumulator.leave(0);
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready(), None);
    }

    #[test]
    fn a_round_of_votes_waits_for_its_close_and_is_summed_by_place() {
        let mut accumulator = Tried::of_voters(3);
        accumulator.offer(2, at(0, 0), "a");
        accumulator.offer(2, at(0, 2), "c");
        accumulator.offer(0, at(0, 1), "b");
        accumulator.offer(0, at(1, 0), "next");
        assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![]));
        accumulator.close_on(0, &[2, 0, 2]);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(2, "a"), (0, "b"), (2, "c")]);
        accumulator.close_on(0, &[2, 0, 2]);
        accumulator.close_on(1, &[0]);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "next")]);
    }

    #[test]
    fn a_round_closed_early_waits_for_its_contributors_and_comes_after_the_one_before() {
        let mut accumulator = Tried::of_voters(3);
        accumulator.close_on(1, &[0]);
        accumulator.close_on(0, &[0, 1]);
        accumulator.offer(0, at(0, 0), "a");
        assert_eq!((accumulator.waiting_for(), accumulator.take_ready()), (vec![1], None));
        accumulator.leave(1);
        assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
        accumulator.leave(0);
        let empty = Round { number: 1, gradients: vec![] };
        assert_eq!(accumulator.take_ready(), Some(empty), "the coordinator has counted the round");
        assert_eq!(accumulator.take_ready(), None);
    }

    #[test]
    #[should_panic(expected = "a version that exists")]
    fn a_gradient_of_a_version_to_come_is_a_bug() {
        Tried::of_all(1).offer(0, at(1, 0), ());
    }
}
