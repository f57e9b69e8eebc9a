//! The delivery, holding and dropping of envelopes under each fault.

use super::*;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Two tasks, of which the first has dialed the second.
fn connected() -> Connections {
    let mut connections = Connections::new(2);
    connections.note_dialer(A, B);
    connections
}

#[test]
fn an_envelope_is_delivered_while_there_is_no_fault() {
    let mut connections = Connections::new(2);
    let stamp = connections.stamp(A, B);
    assert_eq!(connections.arrive(A, B, stamp), Arrival::Deliver);
}

#[test]
fn envelopes_under_way_to_and_from_a_task_that_dies_are_dropped() {
    let mut connections = connected();
    let (to, from) = (connections.stamp(A, B), connections.stamp(B, A));
    assert_eq!(connections.crash(B), [A]);
    assert_eq!(connections.arrive(B, A, from), Arrival::Drop);
    assert_eq!(connections.arrive(A, B, to), Arrival::Drop);
    connections.begin_incarnation(B);
    connections.listen(B);
    assert_eq!(connections.arrive(A, B, to), Arrival::Reset, "it was for the incarnation before");
    assert_eq!(connections.arrive(B, A, from), Arrival::Drop);
}

#[test]
fn a_peer_that_has_not_noticed_a_death_learns_of_the_restart_before_the_first_message() {
    let mut connections = connected();
    connections.crash(B);
    connections.begin_incarnation(B);
    connections.listen(B);
    let (unaware, first) = (connections.stamp(A, B), connections.stamp(B, A));
    assert_eq!(connections.arrive(A, B, unaware), Arrival::Reset);
    assert_eq!(connections.arrive(B, A, first), Arrival::DeliverAfterLoss(Loss::Restarted));
    assert!(!connections.can_notice_death(A, B));
    let (to, from) = (connections.stamp(A, B), connections.stamp(B, A));
    assert_eq!(
        (connections.arrive(A, B, to), connections.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn a_task_that_was_never_connected_to_one_that_has_restarted_has_lost_nothing() {
    let mut connections = Connections::new(2);
    assert_eq!(connections.crash(B), [0; 0]);
    connections.begin_incarnation(B);
    connections.listen(B);
    let (to, from) = (connections.stamp(A, B), connections.stamp(B, A));
    assert_eq!(
        (connections.arrive(A, B, to), connections.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn who_dialed_a_task_that_has_restarted_learns_of_it_by_the_next_envelope_and_others_do_not() {
    let mut connections = Connections::new(3);
    let (dials, answers) = ((A, B), (B, C));
    for (from, to) in [dials, (B, A), answers, (C, B)] {
        connections.note_dialer(from, to);
    }
    connections.crash(B);
    connections.begin_incarnation(B);
    connections.listen(B);
    assert_eq!(connections.unaware_dialers(B), [A]);
    let (of_a, of_c) = (connections.stamp(A, B), connections.stamp(C, B));
    assert_eq!(
        (connections.arrive(A, B, of_a), connections.arrive(C, B, of_c)),
        (Arrival::Reset, Arrival::Drop)
    );
    assert_eq!(
        (connections.met(A, B), connections.met(C, B)),
        (Some(0), Some(0)),
        "its life before"
    );
    connections.give_up(A, B);
    assert_eq!((connections.met(A, B), connections.met(C, B)), (Some(1), Some(0)));
}

#[test]
fn an_envelope_to_a_task_known_to_be_dead_waits_for_its_next_incarnation() {
    let mut connections = connected();
    connections.crash(B);
    assert!(connections.can_notice_death(A, B));
    connections.give_up(A, B);
    let stamp = connections.stamp(A, B);
    assert_eq!(connections.arrive(A, B, stamp), Arrival::Hold);
    connections.begin_incarnation(B);
    connections.listen(B);
    assert_eq!(connections.arrive(A, B, stamp), Arrival::Deliver);
    let back = connections.stamp(B, A);
    assert_eq!(connections.arrive(B, A, back), Arrival::Deliver);
}

#[test]
fn a_task_that_thaws_learns_who_has_given_it_up_and_receives_nothing_older() {
    let mut connections = connected();
    let (before, own) = (connections.stamp(A, B), connections.stamp(B, A));
    connections.freeze(B);
    assert_eq!(connections.arrive(A, B, before), Arrival::Hold);
    assert_eq!(connections.watchers(B), [A]);
    connections.give_up(A, B);
    let after = connections.stamp(A, B);
    assert_eq!(connections.thaw(B), [(A, Loss::Unheard)]);
    assert_eq!(connections.arrive(A, B, before), Arrival::Drop);
    assert_eq!(connections.arrive(B, A, own), Arrival::Drop);
    assert_eq!(connections.arrive(A, B, after), Arrival::Deliver);
}

#[test]
fn a_task_that_thaws_learns_once_of_a_peer_that_has_restarted_and_keeps_its_new_connection() {
    let mut connections = connected();
    connections.crash(A);
    connections.freeze(B);
    connections.begin_incarnation(A);
    connections.listen(A);
    let first = connections.stamp(A, B);
    assert_eq!(connections.thaw(B), [(A, Loss::Restarted)]);
    assert!(!connections.can_notice_death(B, A));
    assert_eq!(connections.arrive(A, B, first), Arrival::Deliver);
}

#[test]
fn both_sides_of_a_partition_end_at_one_connection() {
    let mut connections = connected();
    let before = connections.stamp(A, B);
    connections.cut(A, B);
    connections.cut(B, A);
    assert!(connections.can_notice_cut(A, B) && connections.can_notice_cut(B, A));
    assert_eq!(connections.arrive(A, B, before), Arrival::Hold);
    connections.give_up(A, B);
    connections.give_up(B, A);
    connections.heal(A, B);
    connections.heal(B, A);
    let (to, from) = (connections.stamp(A, B), connections.stamp(B, A));
    assert_eq!(connections.arrive(A, B, before), Arrival::Drop);
    assert_eq!(
        (connections.arrive(A, B, to), connections.arrive(B, A, from)),
        (Arrival::Deliver, Arrival::Deliver)
    );
}

#[test]
fn a_partition_that_heals_in_time_only_delays() {
    let mut connections = Connections::new(2);
    let before = connections.stamp(A, B);
    connections.cut(A, B);
    assert_eq!(connections.arrive(A, B, before), Arrival::Hold);
    connections.heal(A, B);
    assert_eq!(connections.arrive(A, B, before), Arrival::Deliver);
}

#[test]
fn one_way_is_cut_and_the_receiver_gives_up_first() {
    let mut connections = connected();
    let (to, from) = (connections.stamp(A, B), connections.stamp(B, A));
    connections.cut(A, B);
    assert_eq!(connections.arrive(A, B, to), Arrival::Hold);
    assert_eq!(connections.arrive(B, A, from), Arrival::Deliver);
    assert!(connections.can_notice_cut(B, A) && !connections.can_notice_cut(A, B));
    connections.give_up(B, A);
    assert!(connections.can_notice_cut(A, B), "it hears nothing more");
    let next = connections.stamp(B, A);
    assert_eq!(connections.arrive(B, A, next), Arrival::Hold, "nobody can connect");
    connections.heal(A, B);
    assert_eq!(connections.arrive(B, A, next), Arrival::DeliverAfterLoss(Loss::Silent));
}

#[test]
fn what_comes_over_a_connection_that_its_receiver_has_given_up_is_answered_with_its_end() {
    let mut connections = Connections::new(2);
    let before = connections.stamp(A, B);
    connections.cut(A, B);
    connections.give_up(B, A);
    connections.heal(A, B);
    assert_eq!(connections.arrive(A, B, before), Arrival::Closed);
    assert!(connections.can_notice_close(A, B) && !connections.can_notice_close(B, A));
    connections.give_up(A, B);
    assert!(!connections.can_notice_close(A, B));
    assert_eq!(connections.arrive(A, B, before), Arrival::Drop, "it knows");
    let after = connections.stamp(A, B);
    assert_eq!(connections.arrive(A, B, after), Arrival::Deliver);
}

#[test]
fn tasks_that_have_never_talked_have_no_connection_to_lose() {
    let mut connections = Connections::new(3);
    connections.note_dialer(A, B);
    connections.freeze(B);
    assert_eq!(connections.watchers(B), [A]);
    connections.cut(A, C);
    connections.cut(C, A);
    assert!(!connections.can_notice_cut(A, C) && !connections.can_notice_cut(C, A));
}

#[test]
fn a_connection_that_is_not_established_can_not_be_lost() {
    let mut connections = connected();
    connections.cut(A, B);
    connections.cut(B, A);
    assert!(connections.can_notice_cut(B, A));
    connections.give_up(B, A);
    assert!(!connections.can_notice_cut(B, A), "it has no other yet");
    connections.give_up(A, B);
    connections.heal(A, B);
    connections.note_dialer(A, B);
    let next = connections.stamp(A, B);
    assert_eq!(connections.arrive(A, B, next), Arrival::Hold, "a handshake needs both ways");
    connections.heal(B, A);
    assert_eq!(connections.arrive(A, B, next), Arrival::Deliver);
    connections.cut(A, B);
    assert!(connections.can_notice_cut(B, A));
}
