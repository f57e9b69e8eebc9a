//! Fences: for whom they wait, and what they hold back.

use super::*;

#[test]
fn a_fence_is_up_once_every_other_worker_is_at_its_commit_where_it_stays_until_the_lift() {
    let mut coordinator = Tried::training(Mode::Async, 3);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    assert_eq!(coordinator.fence_waits_for(), [1, 2]);
    assert_eq!((coordinator.commit(2), coordinator.commit(1)), (vec![], vec![FENCED]));
    assert_eq!(coordinator.put_up_fence(1), Err(0));
    let released = [2, 1].map(|worker| Effect::Release { worker });
    assert_eq!(coordinator.lift_fence(0).as_deref(), Some(&released[..]));
    assert_eq!(coordinator.lift_fence(0), None);
}

#[test]
fn with_bounded_staleness_the_lift_of_a_fence_lets_all_who_wait_take_one_step_more() {
    let mut bounded = Tried::training(Mode::BoundedStaleness { slack: 1 }, 3);
    let release = |worker| Effect::Release { worker };
    assert_eq!((bounded.commit(1), bounded.commit(1)), (vec![release(1)], vec![]));
    assert_eq!(bounded.put_up_fence(0), Ok(vec![]));
    assert_eq!(bounded.lift_fence(0), Some(vec![]), "it was not up");
    assert_eq!(bounded.put_up_fence(0), Ok(vec![]));
    assert_eq!(bounded.commit(2), [FENCED]);
    assert_eq!(bounded.lift_fence(0), Some(vec![release(2), release(1)]));
    assert_eq!(bounded.commit(1), [], "one step, and no more");
    assert_eq!(bounded.commit(0), [release(0)], "worker 1 is two steps ahead");
    assert_eq!(
        (bounded.commit(2), bounded.commit(0)),
        (vec![release(2)], vec![release(0), release(1)])
    );
}

#[test]
fn a_worker_that_waits_for_its_round_is_between_two_steps_and_the_round_closes_after_the_lift() {
    let mut coordinator = Tried::training(Mode::Sync { backups: 1, cancel: false }, 3);
    coordinator.vote(1, 0);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    assert_eq!(coordinator.vote(2, 0), [FENCED]);
    assert_eq!(coordinator.lift_fence(0), Some(close(0, &[1, 2])));
}

#[test]
fn behind_the_barrier_of_plain_sync_a_fence_waits_for_the_ends_of_the_last_round_alone() {
    let mut plain = Tried::training(Mode::Sync { backups: 0, cancel: false }, 3);
    assert_eq!(plain.put_up_fence(0), Ok(vec![FENCED]), "no round has ended");
    let ends = |plain: &mut Tried, worker, (now, read)| {
        plain.count(worker, now, read);
        plain.commit(worker)
    };
    assert_eq!(ends(&mut plain, 0, (4, 4)), [Effect::Release { worker: 0 }]);
    assert_eq!(plain.put_up_fence(0), Ok(vec![]));
    assert_eq!(plain.fence_waits_for(), [1, 2]);
    assert_eq!(ends(&mut plain, 2, (5, 4)), []);
    assert_eq!(ends(&mut plain, 1, (5, 4)), [FENCED]);
    let released = [2, 1, 0].map(|worker| Effect::Release { worker });
    assert_eq!(ends(&mut plain, 0, (5, 5)), released);
    assert_eq!(plain.put_up_fence(0), Ok(vec![]));
    assert_eq!((ends(&mut plain, 1, (6, 5)), plain.lose(2)), (vec![], vec![FENCED]));
    plain.lift_fence(0);
    plain.rejoin(2);
    assert_eq!((ends(&mut plain, 0, (6, 6)).len(), ends(&mut plain, 1, (7, 6)).len()), (1, 1));
    assert_eq!(plain.put_up_fence(0), Ok(vec![FENCED]), "the round may be without worker 2");
}

#[test]
fn a_fence_waits_neither_for_who_leaves_nor_for_who_has_not_begun() {
    let mut coordinator = Tried::new(Mode::Async, 3);
    coordinator.members.join(1, 3, 1, 0);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    assert_eq!(coordinator.leave(1), [FENCED]);
}

#[test]
fn who_takes_a_step_again_may_end_it_before_the_fence_goes_up() {
    let mut coordinator = Tried::training(Mode::KBatchAsync { k: 2 }, 3);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    let holds_off = |tried: &Tried, is_again| tried.coordinator.holds_off(1, is_again);
    assert!(holds_off(&coordinator, false) && !holds_off(&coordinator, true));
    coordinator.vote(1, 0);
    assert!(holds_off(&coordinator, true), "it has ended the step");
}

#[test]
fn a_fence_waits_for_the_steps_under_way_though_the_training_is_over() {
    let mut coordinator = Tried::training(Mode::Async, 3);
    assert_eq!(coordinator.finish(), []);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    assert_eq!(coordinator.fence_waits_for(), [1, 2]);
    assert_eq!((coordinator.commit(1), coordinator.lose(2)), (vec![], vec![FENCED]));
    assert_eq!(coordinator.lift_fence(0), Some(vec![Effect::Release { worker: 1 }]));
}

#[test]
fn the_end_leaves_a_fence_up_with_all_that_it_holds() {
    let mut coordinator = Tried::training(Mode::KAsync { k: 1 }, 3);
    assert_eq!(coordinator.put_up_fence(0), Ok(vec![]));
    assert_eq!((coordinator.vote(1, 0), coordinator.finish()), (vec![], vec![]));
    assert_eq!(coordinator.vote(2, 0), [FENCED]);
    let dropped = Effect::Drop { worker: 2 };
    let held = [close(0, &[1]), vec![dropped]].concat();
    assert_eq!(coordinator.lift_fence(0), Some(held), "a closed round is made");
}

#[test]
fn a_fence_is_gone_when_its_owner_leaves_or_trains() {
    let fenced = || {
        let mut coordinator = Tried::training(Mode::Async, 2);
        coordinator.put_up_fence(0).unwrap();
        assert_eq!(coordinator.commit(1), [FENCED]);
        coordinator
    };
    let [own, other] = [0, 1].map(|worker| Effect::Release { worker });
    assert_eq!(fenced().leave(0), std::slice::from_ref(&other));
    assert_eq!(fenced().commit(0), [other, own]);
}
