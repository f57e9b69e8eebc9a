//! The delivery, holding and dropping of envelopes under each fault.

use super::*;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Two tasks, of which the first has dialed the second.
fn connected() -> Links {
    let mut links = Links::new(2);
    links.note_dialer(A, B);
    links
}

#[test]
fn an_envelope_is_delivered_while_there_is_no_fault() {
    let mut links = Links::new(2);
    let stamp = links.stamp(A, B);
    assert_eq!(links.arrive(A, B, stamp), Arrival::Deliver);
}

#[test]
fn envelopes_under_way_to_and_from_a_task_that_dies_are_dropped() {
    let mut links = connected();
    let (to, from) = (links.stamp(A, B), links.stamp(B, A));
    assert_eq!(links.crash(B), [A]);
    assert_eq!(links.arrive(B, A, from), Arrival::Drop);
    assert_eq!(links.arrive(A, B, to), Arrival::Drop);
    links.begin_incarnation(B);
    links.listen(B);
    assert_eq!(links.arrive(A, B, to), Arrival::Reset, "it was for the incarnation before");
    assert_eq!(links.arrive(B, A, from), Arrival::Drop);
}

#[test]
fn a_peer_that_has_not_noticed_a_death_learns_of_the_restart_before_the_first_message() {
    let mut links = connected();
    links.crash(B);
    links.begin_incarnation(B);
    links.listen(B);
    let (unaware, first) = (links.stamp(A, B), links.stamp(B, A));
    assert_eq!(links.arrive(A, B, unaware), Arrival::Reset);
    assert_eq!(links.arrive(B, A, first), Arrival::DeliverAfterLoss(Loss::Restarted));
    assert!(!links.can_notice_death(A, B));
    let (to, from) = (links.stamp(A, B), links.stamp(B, A));
    assert_eq!(
        (links.arrive(A, B, to), links.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn a_task_that_was_never_connected_to_one_that_has_restarted_has_lost_nothing() {
    let mut links = Links::new(2);
    assert_eq!(links.crash(B), [0; 0]);
    links.begin_incarnation(B);
    links.listen(B);
    let (to, from) = (links.stamp(A, B), links.stamp(B, A));
    assert_eq!(
        (links.arrive(A, B, to), links.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn who_dialed_a_task_that_has_restarted_learns_of_it_by_the_next_envelope_and_others_do_not() {
    let mut links = Links::new(3);
    let (dials, answers) = ((A, B), (B, C));
    for (from, to) in [dials, (B, A), answers, (C, B)] {
        links.note_dialer(from, to);
    }
    links.crash(B);
    links.begin_incarnation(B);
    links.listen(B);
    assert_eq!(links.unaware_dialers(B), [A]);
    let (of_a, of_c) = (links.stamp(A, B), links.stamp(C, B));
    assert_eq!(
        (links.arrive(A, B, of_a), links.arrive(C, B, of_c)),
        (Arrival::Reset, Arrival::Drop)
    );
    assert_eq!((links.met(A, B), links.met(C, B)), (Some(0), Some(0)), "its life before");
    links.give_up(A, B);
    assert_eq!((links.met(A, B), links.met(C, B)), (Some(1), Some(0)));
}

#[test]
fn an_envelope_to_a_task_known_to_be_dead_waits_for_its_next_incarnation() {
    let mut links = connected();
    links.crash(B);
    assert!(links.can_notice_death(A, B));
    links.give_up(A, B);
    let stamp = links.stamp(A, B);
    assert_eq!(links.arrive(A, B, stamp), Arrival::Hold);
    links.begin_incarnation(B);
    links.listen(B);
    assert_eq!(links.arrive(A, B, stamp), Arrival::Deliver);
    let back = links.stamp(B, A);
    assert_eq!(links.arrive(B, A, back), Arrival::Deliver);
}

#[test]
fn a_task_that_thaws_learns_who_has_given_it_up_and_receives_nothing_older() {
    let mut links = connected();
    let (before, own) = (links.stamp(A, B), links.stamp(B, A));
    links.freeze(B);
    assert_eq!(links.arrive(A, B, before), Arrival::Hold);
    assert_eq!(links.watchers(B), [A]);
    links.give_up(A, B);
    let after = links.stamp(A, B);
    assert_eq!(links.thaw(B), [(A, Loss::Silent)]);
    assert_eq!(links.arrive(A, B, before), Arrival::Drop);
    assert_eq!(links.arrive(B, A, own), Arrival::Drop);
    assert_eq!(links.arrive(A, B, after), Arrival::Deliver);
}

#[test]
fn a_task_that_thaws_learns_once_of_a_peer_that_has_restarted_and_keeps_its_new_connection() {
    let mut links = connected();
    links.crash(A);
    links.freeze(B);
    links.begin_incarnation(A);
    links.listen(A);
    let first = links.stamp(A, B);
    assert_eq!(links.thaw(B), [(A, Loss::Restarted)]);
    assert!(!links.can_notice_death(B, A));
    assert_eq!(links.arrive(A, B, first), Arrival::Deliver);
}

#[test]
fn both_sides_of_a_partition_end_at_one_connection() {
    let mut links = connected();
    let before = links.stamp(A, B);
    links.cut(A, B);
    links.cut(B, A);
    assert!(links.can_notice_cut(A, B) && links.can_notice_cut(B, A));
    assert_eq!(links.arrive(A, B, before), Arrival::Hold);
    links.give_up(A, B);
    links.give_up(B, A);
    links.heal(A, B);
    links.heal(B, A);
    let (to, from) = (links.stamp(A, B), links.stamp(B, A));
    assert_eq!(links.arrive(A, B, before), Arrival::Drop);
    assert_eq!(
        (links.arrive(A, B, to), links.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn a_partition_that_heals_in_time_only_delays() {
    let mut links = Links::new(2);
    let before = links.stamp(A, B);
    links.cut(A, B);
    assert_eq!(links.arrive(A, B, before), Arrival::Hold);
    links.heal(A, B);
    assert_eq!(links.arrive(A, B, before), Arrival::Deliver);
}

#[test]
fn one_way_is_cut_and_the_receiver_gives_up_first() {
    let mut links = connected();
    let (to, from) = (links.stamp(A, B), links.stamp(B, A));
    links.cut(A, B);
    assert_eq!(links.arrive(A, B, to), Arrival::Hold);
    assert_eq!(links.arrive(B, A, from), Arrival::Deliver);
    assert!(links.can_notice_cut(B, A) && !links.can_notice_cut(A, B));
    links.give_up(B, A);
    assert!(links.can_notice_cut(A, B), "it hears nothing more");
    let next = links.stamp(B, A);
    assert_eq!(links.arrive(B, A, next), Arrival::Hold, "nobody can connect");
    links.heal(A, B);
    assert_eq!(links.arrive(B, A, next), Arrival::DeliverAfterLoss(Loss::Silent));
}

#[test]
fn what_comes_over_a_connection_that_its_receiver_has_given_up_is_answered_with_its_end() {
    let mut links = Links::new(2);
    let before = links.stamp(A, B);
    links.cut(A, B);
    links.give_up(B, A);
    links.heal(A, B);
    assert_eq!(links.arrive(A, B, before), Arrival::Closed);
    assert!(links.can_notice_close(A, B) && !links.can_notice_close(B, A));
    links.give_up(A, B);
    assert!(!links.can_notice_close(A, B));
    assert_eq!(links.arrive(A, B, before), Arrival::Drop, "it knows");
    let after = links.stamp(A, B);
    assert_eq!(links.arrive(A, B, after), Arrival::Deliver);
}

#[test]
fn tasks_that_have_never_talked_have_no_connection_to_lose() {
    let mut links = Links::new(3);
    links.note_dialer(A, B);
    links.freeze(B);
    assert_eq!(links.watchers(B), [A]);
    links.cut(A, C);
    links.cut(C, A);
    assert!(!links.can_notice_cut(A, C) && !links.can_notice_cut(C, A));
}

#[test]
fn a_connection_that_is_not_established_can_not_be_lost() {
    let mut links = connected();
    links.cut(A, B);
    links.cut(B, A);
    assert!(links.can_notice_cut(B, A));
    links.give_up(B, A);
    assert!(!links.can_notice_cut(B, A), "it has no other yet");
    links.give_up(A, B);
    links.heal(A, B);
    links.note_dialer(A, B);
    let next = links.stamp(A, B);
    assert_eq!(links.arrive(A, B, next), Arrival::Hold, "a handshake needs both ways");
    links.heal(B, A);
    assert_eq!(links.arrive(A, B, next), Arrival::Deliver);
    links.cut(A, B);
    assert!(links.can_notice_cut(B, A));
}
