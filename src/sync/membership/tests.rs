//! Who takes part, over losses, returns, lives and trainings.

use super::*;

#[test]
fn a_training_is_over_when_all_have_departed_and_one_of_them_in_good_order() {
    let mut members = Membership::default();
    assert_eq!((members.lose(Some(0), &[]), members.lose(Some(1), &[])), (vec![0], vec![1]));
    assert!(!members.all_departed(2), "those who are lost may come back");
    assert!(!members.leave(1, Leaving::Done) && members.all_departed(2));
}

#[test]
fn a_training_that_all_were_asked_to_leave_is_not_over_and_goes_on_with_who_comes_back() {
    let mut members = Membership::default();
    members.join(0, 2, 7, 0);
    assert!(members.leave(0, Leaving::Stopped) && members.leave(1, Leaving::Stopped));
    assert!(!members.all_departed(2) && members.has_left(1) && !members.is_done(1));
    let stopped = members.all_that_departed().stopped;
    assert_eq!(stopped.into_iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!((members.join(1, 2, 8, 0), members.epoch()), (Joined::Back, Epoch(1)));
    assert_eq!((members.leave(1, Leaving::Done), members.all_departed(2)), (true, true));
}

#[test]
fn who_was_asked_to_stop_hears_of_the_end_and_is_not_early_for_another_training() {
    let mut members = Membership::default();
    members.leave(0, Leaving::Stopped);
    members.finish();
    assert!(!members.is_early(0, 2, 0) && !members.is_done_with_what_is_over(0));
    assert_eq!((members.join(0, 2, 7, 0), members.is_over()), (Joined::Back, true));
}

#[test]
fn another_training_is_begun_by_who_has_left_the_last_and_not_by_who_was_lost() {
    let mut members = Membership::default();
    members.leave(0, Leaving::Done);
    members.lose(Some(1), &[]);
    members.finish();
    assert_eq!(members.join(1, 2, 7, 0), Joined::Back);
    assert!(members.is_over() && members.epoch() == Epoch(1));
    members.lose(Some(1), &[]);
    assert_eq!(members.join(0, 2, 8, 0), Joined::Anew);
    assert!(!members.is_over() && members.epoch() == Epoch(2) && members.live(2) == 2);
    assert_eq!(members.join(1, 2, 9, 0), Joined::Expected);
}

#[test]
fn who_has_left_a_training_that_others_still_end_is_early_for_the_next() {
    let mut members = Membership::default();
    members.leave(0, Leaving::Done);
    assert!(!members.is_early(0, 2, 0), "the training goes on, and so can this worker");
    members.finish();
    assert!(members.is_early(0, 2, 0) && !members.is_early(1, 2, 0));
    members.leave(1, Leaving::Done);
    assert!(!members.is_early(0, 2, 0));
}

#[test]
fn who_has_ended_a_training_waits_for_those_who_take_part_in_it_and_not_for_who_never_came() {
    let mut members = Membership::default();
    for worker in [0, 1] {
        members.join(worker, 3, worker.into(), 1);
    }
    members.leave(0, Leaving::Done);
    assert!(members.is_early(0, 3, 2) && !members.is_early(0, 3, 1));
    members.leave(1, Leaving::Done);
    assert!(!members.is_early(0, 3, 2), "worker 2 has never come");
    assert_eq!((members.join(0, 3, 0, 2), members.number()), (Joined::Anew, 2));
    assert_eq!(
        (members.join(1, 3, 1, 2), members.join(2, 3, 2, 1)),
        (Joined::Expected, Joined::Expected)
    );
}

#[test]
fn where_all_have_left_new_lives_of_all_begin_another_training_whatever_its_number() {
    let mut members = Membership::default();
    members.join(0, 1, 7, 2);
    members.leave(0, Leaving::Done);
    assert_eq!((members.join(0, 1, 8, 1), members.number()), (Joined::Anew, 1));
}

#[test]
fn a_new_life_whose_program_begins_anew_takes_part_in_the_training_that_goes_on() {
    let mut members = Membership::default();
    members.join(0, 2, 0, 2);
    for number in [1, 2] {
        members.lose(Some(1), &[]);
        assert_eq!(members.join(1, 2, 1, number), Joined::Back);
        members.leave(1, Leaving::Done);
        assert!(!members.is_early(1, 2, 2));
    }
    assert_eq!((members.join(1, 2, 1, 2), members.epoch()), (Joined::Back, Epoch(1)));
}

#[test]
fn a_lost_worker_that_another_task_has_found_is_waited_for_unless_it_has_left_meanwhile() {
    let mut members = Membership::default();
    for worker in [0, 1] {
        members.lose(Some(worker), &[]);
    }
    members.leave(0, Leaving::Done);
    assert!(members.find(1) && !members.find(1) && members.is_expected(1));
    assert!(!members.find(0) && members.is_done(0));
}

#[test]
fn a_worker_is_lost_with_its_master_once_and_is_back_when_it_joins() {
    let mut members = Membership::default();
    assert_eq!(members.join(1, 4, 7, 0), Joined::Expected);
    members.join(3, 4, 7, 0);
    members.join(2, 4, 8, 0);
    assert_eq!(members.training(4).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(members.lose(None, &[7, 9]), [1, 3]);
    assert!(members.lose(None, &[7]).is_empty());
    assert_eq!(members.departed(3).collect::<Vec<_>>(), [1]);
    assert_eq!((members.join(1, 4, 9, 0), members.live(4)), (Joined::Back, 3));
}

#[test]
fn a_worker_that_is_missed_is_waited_for_until_it_is_lost_or_joins_again() {
    let mut members = Membership::default();
    members.join(0, 2, 7, 0);
    members.join(1, 2, 8, 0);
    let (first, hit) = members.miss(Some(0), &[7]);
    let (second, _) = members.miss(Some(1), &[8]);
    assert_eq!((hit, members.miss(None, &[9]).1), (vec![0], vec![]));
    assert_eq!((members.live(2), members.join(0, 2, 7, 0)), (2, Joined::Expected));
    assert!(members.lose_missed(first).is_empty(), "it has joined again");
    assert!(!members.lose_earlier_life(1, 8), "it is the same life");
    assert!(members.lose_earlier_life(1, 9));
    assert_eq!(members.join(1, 2, 9, 0), Joined::Back);
    assert!(members.lose_missed(second).is_empty());
    let (third, _) = members.miss(None, &[9]);
    assert_eq!((members.lose_missed(third), members.live(2)), (vec![1], 1));
}

#[test]
fn a_lost_worker_whose_task_is_back_is_waited_for_again_and_one_that_has_left_is_not() {
    let mut members = Membership::default();
    members.lose(Some(0), &[]);
    members.leave(1, Leaving::Done);
    assert!(members.all_departed(2));
    assert_eq!((members.find_again(1, 8), members.find_again(0, 7)), (false, true));
    assert!(!members.all_departed(2) && !members.find_again(0, 7));
    let (silence, _) = members.miss(Some(0), &[]);
    assert!(!members.find_again(0, 7) && members.lose_missed(silence).is_empty());
}

#[test]
fn its_size_does_not_grow_with_lives_and_trainings() {
    let mut members = Membership::default();
    for life in 0..1000 {
        for worker in 0..3 {
            members.join(worker, 3, 10 * life + u64::from(worker), 0);
            members.leave(worker, Leaving::Done);
        }
    }
    assert_eq!(members.members.known(|_| true).count(), 3);
    assert_eq!(members.members.known(|member| !member.masters.is_empty()).count(), 0);
    assert_eq!(members.epoch(), Epoch(1000), "each of them but the first began anew");
}

#[test]
fn a_training_of_more_workers_can_follow_one_of_fewer_and_the_other_way_round() {
    for (before, after) in [(2, 4), (4, 2)] {
        let mut members = Membership::default();
        for worker in 0..before {
            members.join(worker, before, 1, 0);
        }
        for worker in 0..before - 1 {
            members.leave(worker, Leaving::Done);
        }
        members.finish();
        assert!(members.is_early(0, after, 0), "worker {} has not left", before - 1);
        members.leave(before - 1, Leaving::Done);
        assert!(!members.is_early(0, after, 0));
        assert_eq!(members.join(0, after, 2, 0), Joined::Anew);
        assert_eq!(members.live(after), after);
    }
}
