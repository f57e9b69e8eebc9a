//! Worked examples of each mode's decisions; the properties are in `any_order`.

mod fences;

use super::*;
use crate::sync::{Leaving, RoundPosition};

/// A coordinator with the membership that it is asked under.
struct Tried {
    coordinator: Coordinator,
    members: Membership,
}

impl Tried {
    fn new(mode: Mode, workers: u32) -> Self {
        Self::among(mode, workers, Membership::default())
    }

    /// A training for which all workers have made ready.
    fn training(mode: Mode, workers: u32) -> Self {
        let mut members = Membership::default();
        for worker in 0..workers {
            members.join(worker, workers, u64::from(worker), 0);
        }
        Self::among(mode, workers, members)
    }

    fn among(mode: Mode, workers: u32, members: Membership) -> Self {
        Self { coordinator: Coordinator::new(mode, workers, &members), members }
    }

    fn vote(&mut self, worker: u32, updates: u64) -> Vec<Effect> {
        self.vote_of(worker, Version { epoch: Epoch(0), updates })
    }

    fn vote_of(&mut self, worker: u32, version: Version) -> Vec<Effect> {
        self.coordinator.vote(&self.members, Contribution { worker, version })
    }

    fn begin(&mut self, worker: u32, updates: u64) -> Vec<Effect> {
        let version = Version { epoch: Epoch(0), updates };
        self.coordinator.begin(&self.members, Contribution { worker, version })
    }

    fn commit(&mut self, worker: u32) -> Vec<Effect> {
        self.coordinator.commit(&self.members, worker)
    }

    /// Counts a step of `worker` that began at the global step `read`, and ends at `now`: the
    /// global step after it, and whether it is told as applied.
    fn count(&mut self, worker: u32, mut now: i64, read: i64) -> (i64, bool) {
        let (is_again, has_others) = (false, true);
        let step = Ended { worker, master: worker.into(), is_again, has_others, read };
        let counted = self.coordinator.count(&self.members, &mut now, &step);
        (now, counted.applied)
    }

    fn leave(&mut self, worker: u32) -> Vec<Effect> {
        self.members.leave(worker, Leaving::Done);
        self.coordinator.leave(&self.members, worker)
    }

    /// The task of `worker` is lost.
    fn lose(&mut self, worker: u32) -> Vec<Effect> {
        self.members.lose(Some(worker), &[]);
        self.coordinator.leave(&self.members, worker)
    }

    fn rejoin(&mut self, worker: u32) {
        self.members.join(worker, u32::MAX, u64::from(worker), 0);
        self.coordinator.rejoin(worker);
    }

    fn finish(&mut self) -> Vec<Effect> {
        self.members.finish();
        self.coordinator.finish(&self.members)
    }

    fn waiting_for(&self) -> Vec<u32> {
        self.coordinator.waiting_for(&self.members)
    }

    fn round_size(&self) -> Option<usize> {
        self.coordinator.round_size(&self.members)
    }

    fn put_up_fence(&mut self, worker: u32) -> Result<Vec<Effect>, u32> {
        self.coordinator.put_up_fence(&self.members, worker)
    }

    fn fence_waits_for(&self) -> Vec<u32> {
        self.coordinator.fence_waits_for(&self.members)
    }

    fn lift_fence(&mut self, worker: u32) -> Option<Vec<Effect>> {
        self.coordinator.lift_fence(worker)
    }
}

#[test]
fn a_vote_of_an_earlier_epoch_is_dropped_and_that_of_a_variable_without_rounds_counts() {
    let mut members = Membership::default();
    members.begin_anew();
    let mut backups = Tried::among(Mode::KAsync { k: 1 }, 3, members);
    let of = |epoch| Version { epoch: Epoch(epoch), updates: 0 };
    assert_eq!(backups.vote_of(1, of(1)), [Effect::Drop { worker: 1 }]);
    assert_eq!(backups.vote_of(1, of(0)), close(0, &[1]));
    assert_eq!(backups.vote_of(1, of(2)), close(1, &[1]));
}

/// The effects of closing a round on `contributors`, who waited for it.
fn close(round: u64, contributors: &[u32]) -> Vec<Effect> {
    let counted = contributors.iter().zip(0..).map(|(worker, index)| count(*worker, round, index));
    std::iter::once(Effect::Close { round, contributors: contributors.to_vec() })
        .chain(counted)
        .collect()
}

fn count(worker: u32, round: u64, index: u32) -> Effect {
    Effect::Count { worker, place: RoundPosition { round, index } }
}

#[test]
fn async_and_plain_sync_release_a_worker_at_once() {
    for mode in [Mode::Async, Mode::Sync { backups: 0, cancel: false }] {
        let mut coordinator = Tried::new(mode, 2);
        for _ in 0..3 {
            assert_eq!(coordinator.commit(1), [Effect::Release { worker: 1 }]);
        }
        assert!(coordinator.leave(0).is_empty() && coordinator.waiting_for().is_empty());
    }
}

#[test]
fn a_round_of_plain_sync_is_of_the_live_workers() {
    let mut coordinator = Tried::new(Mode::Sync { backups: 0, cancel: false }, 3);
    let mut size_after = |change: fn(&mut Tried)| {
        change(&mut coordinator);
        coordinator.round_size()
    };
    assert_eq!(size_after(|_| {}), Some(3));
    assert_eq!(size_after(|coordinator| drop(coordinator.leave(1))), Some(2));
    assert_eq!(size_after(|coordinator| coordinator.rejoin(1)), Some(3));
}

#[test]
fn the_first_votes_close_a_round_and_a_late_one_is_dropped() {
    let mut coordinator = Tried::new(Mode::Sync { backups: 1, cancel: false }, 3);
    assert_eq!(coordinator.vote(2, 0), []);
    assert_eq!(coordinator.waiting_for(), [0, 1]);
    assert_eq!(coordinator.vote(0, 0), close(0, &[0, 2]));
    assert_eq!(coordinator.vote(1, 0), [Effect::Drop { worker: 1 }]);
    assert_eq!(coordinator.vote(1, 1), []);
}

#[test]
fn who_computes_for_a_round_that_closes_is_stopped_and_who_began_again_too_early_once_one_did_not()
{
    let mut coordinator = Tried::new(Mode::Sync { backups: 1, cancel: true }, 3);
    assert!((0..3).all(|worker| coordinator.begin(worker, 0).is_empty()));
    assert_eq!(coordinator.vote(0, 0), []);
    let stop = Effect::Stop { worker: 2 };
    assert_eq!(coordinator.vote(1, 0), [close(0, &[0, 1]), vec![stop.clone()]].concat());
    assert_eq!(coordinator.begin(2, 0), [], "the update may still be on its way");
    assert_eq!(coordinator.begin(0, 1), [stop]);
    assert_eq!((coordinator.begin(2, 1), coordinator.begin(1, 1)), (vec![], vec![]));
}

#[test]
fn whoever_has_begun_to_compute_for_a_batch_is_stopped_when_the_batch_is_full() {
    let mut coordinator = Tried::new(Mode::KBatchSync { k: 2, cancel: true }, 3);
    assert!((0..3).all(|worker| coordinator.begin(worker, 0).is_empty()));
    assert_eq!(coordinator.vote(0, 0), [count(0, 0, 0)]);
    assert_eq!(coordinator.begin(0, 0), []);
    let closed = Effect::Close { round: 0, contributors: vec![0, 1] };
    let stop = |worker| Effect::Stop { worker };
    assert_eq!(coordinator.vote(1, 0), [closed, stop(0), stop(2), count(1, 0, 1)]);
}

#[test]
fn a_round_needs_no_more_than_the_live_workers_and_always_one() {
    let mut coordinator = Tried::new(Mode::Sync { backups: 1, cancel: false }, 3);
    assert_eq!(coordinator.lose(0), []);
    assert_eq!(coordinator.vote(1, 0), []);
    assert_eq!(coordinator.lose(2), close(0, &[1]));
    assert_eq!(coordinator.vote(2, 1), [Effect::Drop { worker: 2 }]);
    assert_eq!(Tried::new(Mode::Sync { backups: 9, cancel: false }, 2).vote(0, 0), close(0, &[0]));
}

#[test]
fn k_async_takes_any_version_but_one_gradient_of_a_worker_and_needs_no_more_than_the_live() {
    let mut coordinator = Tried::new(Mode::KAsync { k: 2 }, 3);
    assert_eq!((coordinator.vote(2, 0), coordinator.vote(2, 0)), (vec![], vec![]));
    assert_eq!(coordinator.vote(0, 0), close(0, &[0, 2]));
    assert_eq!(coordinator.vote(1, 0), [], "it is stale, and counts");
    assert_eq!((coordinator.lose(0), coordinator.round_size()), (vec![], Some(2)));
    assert_eq!((coordinator.lose(2), coordinator.round_size()), (close(1, &[1]), Some(1)));
}

#[test]
fn when_a_worker_leaves_in_good_order_the_others_count_again_once_they_know_how_far_it_has_come() {
    let dropped = |worker| Effect::Drop { worker };
    let mut coordinator = Tried::new(Mode::Sync { backups: 1, cancel: false }, 3);
    assert_eq!(coordinator.vote(1, 0), []);
    assert_eq!(coordinator.leave(0), [dropped(1)]);
    assert_eq!(coordinator.vote(2, 0), [dropped(2)]);
    assert_eq!(coordinator.vote(2, 0), [], "it trains on");
    assert_eq!(coordinator.vote(1, 0), close(0, &[1, 2]));
    assert_eq!(coordinator.leave(1), []);
    assert_eq!(coordinator.vote(2, 1), [dropped(2)]);
    assert_eq!(coordinator.vote(2, 1), close(1, &[2]));
}

#[test]
fn in_a_batch_mode_nobody_waits_and_a_fast_worker_has_several_gradients_in_a_round() {
    let closes =
        |contributors: [u32; 2]| Effect::Close { round: 0, contributors: contributors.to_vec() };
    let mut batch = Tried::new(Mode::KBatchSync { k: 2, cancel: false }, 3);
    assert_eq!(batch.vote(1, 0), [count(1, 0, 0)]);
    assert_eq!(batch.vote(1, 0), [closes([1, 1]), count(1, 0, 1)]);
    assert_eq!(batch.vote(0, 0), [Effect::Drop { worker: 0 }]);
    let mut batch = Tried::new(Mode::KBatchAsync { k: 2 }, 3);
    batch.vote(1, 0);
    assert_eq!((batch.leave(1), batch.round_size()), (vec![], Some(2)));
    assert_eq!(batch.vote(2, 0), [closes([1, 2]), count(2, 0, 1)]);
    assert_eq!(batch.vote(0, 0), [count(0, 1, 0)]);
    assert_eq!(batch.finish(), []);
    let mut batch = Tried::new(Mode::KBatchAsync { k: 2 }, 3);
    batch.vote(1, 0);
    assert_eq!(batch.lose(1), [], "its gradient may not have come to every shard");
    assert_eq!(batch.vote(2, 0), [count(2, 0, 0)]);
    assert_eq!(batch.vote(0, 0), [closes([2, 0]), count(0, 0, 1)]);
}

#[test]
fn a_lost_worker_gives_up_the_place_of_its_last_vote_also_if_that_was_a_vacant_one_before() {
    let mut batch = Tried::new(Mode::KBatchAsync { k: 4 }, 3);
    assert_eq!(batch.vote(2, 0), [count(2, 0, 0)]);
    assert_eq!(batch.vote(1, 0), [count(1, 0, 1)]);
    assert_eq!(batch.lose(2), []);
    assert_eq!(batch.vote(1, 0), [count(1, 0, 0)], "the vacant place");
    assert_eq!(batch.lose(1), []);
    assert_eq!(batch.vote(0, 0), [count(0, 0, 0)], "its gradient in place 1 has arrived");
    batch.rejoin(1);
    assert_eq!(batch.lose(1), [], "it has sent nothing since");
    assert_eq!(batch.vote(0, 0), [count(0, 0, 2)]);
    let closed = Effect::Close { round: 0, contributors: vec![0, 1, 0, 0] };
    assert_eq!(batch.vote(0, 0), [closed, count(0, 0, 3)]);
}

#[test]
fn bounded_staleness_holds_who_is_ahead_until_the_slowest_comes_near_or_leaves() {
    let mut coordinator = Tried::new(Mode::BoundedStaleness { slack: 1 }, 3);
    let release = |worker| Effect::Release { worker };
    assert_eq!(coordinator.commit(0), [release(0)]);
    assert_eq!(coordinator.commit(0), []);
    assert_eq!(coordinator.waiting_for(), [1, 2]);
    assert_eq!(coordinator.commit(2), [release(2)]);
    assert_eq!(coordinator.commit(1), [release(0), release(1)]);
    assert_eq!(coordinator.commit(0), []);
    assert_eq!(coordinator.commit(2), [release(2)]);
    assert_eq!(coordinator.leave(1), [release(0)]);
}

#[test]
fn a_worker_that_comes_back_is_waited_for_again() {
    let mut backups = Tried::new(Mode::Sync { backups: 1, cancel: false }, 3);
    backups.lose(0);
    backups.lose(1);
    backups.rejoin(0);
    assert_eq!(backups.vote(2, 0), []);
    assert_eq!(backups.vote(0, 0), close(0, &[0, 2]));
}

#[test]
fn with_bounded_staleness_a_worker_that_comes_back_begins_beside_the_slowest() {
    let mut bounded = Tried::new(Mode::BoundedStaleness { slack: 1 }, 3);
    let release = |worker| Effect::Release { worker };
    bounded.leave(2);
    for _ in 0..5 {
        assert_eq!(bounded.commit(0), [release(0)]);
        assert_eq!(bounded.commit(1), [release(1)]);
    }
    bounded.rejoin(2);
    assert_eq!(bounded.commit(0), [release(0)]);
    assert_eq!(bounded.commit(0), []);
    assert_eq!(bounded.commit(1), [release(1)]);
    assert_eq!(bounded.commit(2), [release(0), release(2)]);
}

#[test]
fn the_end_of_the_training_lets_everybody_go_and_closes_no_more_rounds() {
    let mut backups = Tried::new(Mode::Sync { backups: 1, cancel: false }, 3);
    backups.vote(1, 0);
    assert_eq!(backups.finish(), [Effect::Drop { worker: 1 }]);
    assert_eq!(backups.vote(0, 0), [Effect::Drop { worker: 0 }]);
    let mut bounded = Tried::new(Mode::BoundedStaleness { slack: 0 }, 2);
    bounded.commit(0);
    assert_eq!(bounded.finish(), [Effect::Release { worker: 0 }]);
    assert_eq!(bounded.commit(0), [Effect::Release { worker: 0 }]);
}

const FENCED: Effect = Effect::Fenced { worker: 0 };

#[test]
fn a_step_whose_updates_are_applied_counts_after_the_end_too() {
    for mode in [Mode::Async, Mode::BoundedStaleness { slack: 1 }, Mode::StalenessAware] {
        let mut coordinator = Tried::training(mode, 2);
        assert_eq!(coordinator.count(1, 0, 0), (1, true));
        coordinator.finish();
        assert_eq!(coordinator.count(0, 1, 0), (2, true), "{mode}");
    }
}

#[test]
fn behind_a_barrier_a_step_of_the_last_round_counts_after_the_end_and_one_of_the_next_does_not() {
    let mut coordinator = Tried::training(Mode::Sync { backups: 0, cancel: false }, 3);
    assert_eq!(coordinator.count(0, 4, 4), (5, true));
    assert_eq!(coordinator.count(1, 5, 4), (5, true));
    coordinator.finish();
    coordinator.members.cut_off();
    assert_eq!(coordinator.count(1, 5, 5), (5, false), "the first worker has ended the training");
    assert_eq!(coordinator.count(2, 5, 4), (5, true), "its gradient is in the round");
    assert_eq!(coordinator.count(2, 5, 5), (5, false));
}

#[test]
fn behind_a_barrier_steps_count_after_an_end_that_has_cut_off_no_round() {
    let mut coordinator = Tried::training(Mode::Sync { backups: 0, cancel: false }, 3);
    coordinator.lose(0);
    assert_eq!(coordinator.count(1, 4, 4), (5, true));
    coordinator.finish();
    assert_eq!(coordinator.count(2, 5, 4), (5, true));
    assert_eq!(coordinator.count(1, 5, 5), (6, true), "the round is made without worker 0");
    assert_eq!(coordinator.count(2, 6, 5), (6, true));
    coordinator.members.cut_off();
    assert_eq!(coordinator.count(1, 6, 6), (6, false), "worker 0 is let in, and gives nothing");
}
