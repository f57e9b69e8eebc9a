//! Rounds are complete with all their gradients, in their order, whoever leaves meanwhile.

use super::*;
use crate::sync::{Decider, Fate, View};

/// The task of the global step, which lives once.
const DECIDER: Decider = Decider { task: 0, incarnation: None };

/// The epoch of all votes.
const EPOCH: Epoch = Epoch(1);

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

fn at(round: u64, index: u32) -> RoundPosition {
    RoundPosition { round, index }
}

/// An accumulator with the participation that it is asked under.
struct Tried<G> {
    accumulator: Accumulator<G>,
    part: Participation,
}

impl<G> Tried<G> {
    fn of_all(replicas: u32) -> Self {
        let part = Participation::default();
        Self { accumulator: Accumulator::of_all(replicas, 0), part }
    }

    fn of_voters(replicas: u32) -> Self {
        Self { accumulator: Accumulator::of_voters(replicas, EPOCH), ..Self::of_all(replicas) }
    }

    fn offer(&mut self, worker: u32, place: RoundPosition, gradient: G) -> Offer<G> {
        self.accumulator.offer(&self.part, worker, place, gradient)
    }

    fn take_ready(&mut self) -> Option<Round<G>> {
        self.accumulator.take_ready(&self.part)
    }

    fn waiting_for(&self) -> Vec<u32> {
        self.accumulator.waiting_for(&self.part)
    }

    fn leave(&mut self, worker: u32) {
        self.part.leave(worker);
    }

    /// The task of the global step takes `out` out of the rounds from now on.
    fn install<const N: usize>(&mut self, number: u32, out: [u32; N]) {
        let out = out.into_iter().map(|worker| (worker, Fate::Counts)).collect();
        self.part.install(DECIDER, View { number, out, ..View::default() });
    }

    fn close_on(&mut self, round: u64, contributors: &[u32]) {
        self.accumulator.close_on(round, &contributors.iter().copied().collect());
    }
}

fn offered<const N: usize>(
    mut to: Tried<&'static str>,
    offers: [(u32, &'static str); N],
) -> Tried<&'static str> {
    let round = to.accumulator.round;
    for (worker, gradient) in offers {
        assert_eq!(to.offer(worker, RoundPosition { round, index: worker }, gradient), Offer::Held);
    }
    to
}

#[test]
fn a_round_can_be_closed_on_workers_that_there_are_and_on_the_same_ones_again() {
    let named = |workers: &[u32]| workers.iter().copied().collect::<Contributors>();
    let mut accumulator = Accumulator::<()>::of_voters(2, EPOCH);
    let can_close_on = |accumulator: &Accumulator<()>, workers: &[u32]| {
        accumulator.can_close_on(0, &named(workers))
    };
    assert!(can_close_on(&accumulator, &[0, 1]) && !can_close_on(&accumulator, &[0, 2]));
    accumulator.close_on(0, &named(&[1]));
    assert!(can_close_on(&accumulator, &[1]) && !can_close_on(&accumulator, &[0]));
    assert!(!can_close_on(&Accumulator::of_all(2, 0), &[0]), "nobody votes");
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
    accumulator.install(1, [2]);
    assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
    assert_eq!(accumulator.offer(1, at(1, 1), "dead"), Offer::Departed);
    accumulator.offer(0, at(1, 0), "a");
    assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
}

#[test]
fn a_worker_that_is_let_in_again_is_waited_for_again() {
    let mut accumulator = offered(Tried::of_all(2), [(0, "a")]);
    accumulator.install(1, [1]);
    assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
    accumulator.install(2, []);
    accumulator.offer(0, at(1, 0), "a");
    assert_eq!((accumulator.take_ready(), accumulator.waiting_for()), (None, vec![1]));
    assert_eq!(accumulator.offer(1, at(1, 1), "b"), Offer::Held);
    assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a"), (1, "b")]);
}

#[test]
fn no_round_is_made_and_no_gradient_of_who_is_taken_out_is_held_while_the_view_changes() {
    let mut accumulator = offered(Tried::of_all(2), [(1, "b")]);
    accumulator.part.flush(DECIDER, 1, vec![1]);
    accumulator.offer(0, at(0, 0), "a");
    assert_eq!(accumulator.take_ready(), None);
    let progress = Progress { least: 1, most: 1, made: 0 };
    assert_eq!(accumulator.accumulator.progress(1), Some(progress));
    assert_eq!(accumulator.offer(1, at(0, 1), "late"), Offer::Departed);
    assert_eq!(accumulator.accumulator.withdraw_of(1), ["b"]);
    accumulator.install(1, [1]);
    assert_eq!(accumulator.take_ready().unwrap().gradients, [(0, "a")]);
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
fn the_gradient_of_a_lost_voter_is_not_that_of_the_worker_that_has_its_place() {
    let mut tried = Tried::of_voters(3);
    assert_eq!(tried.offer(0, at(0, 0), "of the lost one"), Offer::Held);
    tried.close_on(0, &[1, 2]);
    assert_eq!(tried.offer(2, at(0, 1), "second"), Offer::Held);
    assert_eq!((tried.take_ready(), tried.waiting_for()), (None, vec![1]));
    assert_eq!(tried.offer(1, at(0, 0), "first"), Offer::Held);
    assert_eq!(tried.offer(0, at(0, 0), "again"), Offer::Replaced("of the lost one"));
    let gradients = vec![(1, "first"), (2, "second")];
    assert_eq!(tried.take_ready(), Some(Round { number: 0, gradients }));
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
