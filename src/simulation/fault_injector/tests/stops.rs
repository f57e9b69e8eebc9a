//! Requests to stop: the ends that follow from them, and the lives after them.

use super::super::stops::say_bye;
use super::*;

fn stop(task: usize, seconds: Option<u32>) -> FaultEvent {
    begin(FaultKind::Stop { task: name(task), restart_after: seconds.map(|after| SECOND * after) })
}

fn end_of_grace(task: usize) -> FaultEvent {
    FaultEvent::EndOfGrace { task, incarnation: 0 }
}

/// `task`, whose program has returned: by itself, or because the task `asked` was asked to stop.
fn leaver(task: usize, asked: Option<usize>) -> Leaver {
    Leaver { task, asked, limit: SECOND * 3 }
}

/// What follows when B's process ends in the given second and tells its peers.
fn end_of_b(second: u64) -> Vec<FaultEffect> {
    vec![
        watched(second + 1, silence(A, B, SilenceCause::Crash)),
        watched(second + 1, silence(C, B, SilenceCause::Crash)),
        say_bye(A, B),
        say_bye(C, B),
    ]
}

#[test]
fn a_task_that_was_asked_to_stop_is_ended_after_the_time_of_grace_and_starts_again() {
    let (mut faults, mut connections) = injector(&[]);
    let asked = faults.apply(at(5), stop(B, Some(2)), &mut connections);
    let ask = FaultEffect::AskToStop { task: B };
    assert_eq!(asked, [ask, scheduled(15, end_of_grace(B))]);
    assert!(connections.is_up(B));
    let mut expected = end_of_b(15);
    expected.push(scheduled(17, FaultEvent::Restart { task: B }));
    expected.push(FaultEffect::Kill { task: B, restarts: true });
    assert_eq!(faults.apply(at(15), end_of_grace(B), &mut connections), expected);
    let heard = FaultEvent::PeerLeft { observer: A, peer: B };
    let told = FaultEffect::TellLost { observer: A, peer: B, loss: Loss::Stopped };
    assert_eq!(faults.apply(at(15), heard.clone(), &mut connections), [told]);
    assert_eq!(faults.apply(at(15), heard, &mut connections), [], "it has been told");
    let limit = silence(A, B, SilenceCause::Crash);
    assert_eq!(faults.apply(at(16), limit, &mut connections), [], "nor does it lose it by silence");
}

#[test]
fn a_second_request_ends_the_task_as_a_crash_and_says_whether_it_comes_back() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(5), stop(B, Some(2)), &mut connections);
    let unnoticed = |observer| watched(7, silence(observer, B, SilenceCause::Crash));
    let killed = FaultEffect::Kill { task: B, restarts: false };
    let second = faults.apply(at(6), stop(B, None), &mut connections);
    assert_eq!(second, [unnoticed(A), unnoticed(C), killed]);
    assert_eq!(faults.apply(at(15), end_of_grace(B), &mut connections), [], "it is gone");
}

#[test]
fn a_frozen_task_is_asked_once_it_thaws_unless_that_life_is_over() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(1), freeze(B, 3), &mut connections);
    let postponed = faults.apply(at(2), stop(B, None), &mut connections);
    let [FaultEffect::Postpone { task: B, event }] = &postponed[..] else {
        panic!("{postponed:?}");
    };
    connections.thaw(B);
    let ask = FaultEffect::AskToStop { task: B };
    let asked = faults.apply(at(4), event.clone(), &mut connections);
    assert_eq!(asked, [ask, scheduled(14, end_of_grace(B))]);
    faults.apply(at(5), crash(B, None), &mut connections);
    assert_eq!(faults.apply(at(6), event.clone(), &mut connections), []);
}

#[test]
fn what_a_task_that_has_stopped_says_at_last_is_lost_where_the_way_is_cut() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(5), stop(B, None), &mut connections);
    faults.apply(at(15), end_of_grace(B), &mut connections);
    connections.cut(B, A);
    let heard = FaultEvent::PeerLeft { observer: A, peer: B };
    assert_eq!(faults.apply(at(15), heard, &mut connections), []);
    let limit = silence(A, B, SilenceCause::Crash);
    assert_eq!(faults.apply(at(16), limit, &mut connections), [lost(A, B)]);
}

#[test]
fn a_task_that_another_ends_is_not_back_before_that_one_is_gone_even_if_that_is_killed() {
    let restart = |second, task| scheduled(second, FaultEvent::Restart { task });
    for is_killed in [false, true] {
        let (mut faults, mut connections) = injector(&[]);
        faults.apply(at(5), stop(B, Some(2)), &mut connections);
        assert_eq!(faults.ended_by(C, Some(B)), Some(B));
        assert_eq!((faults.ended_by(C, None), faults.ended_by(C, Some(A))), (None, None));
        let grace = faults.leave(at(6), leaver(C, Some(B)), &connections);
        assert_eq!(grace, scheduled(9, end_of_grace(C)));
        assert_eq!(faults.next_to_end(|_| false), None);
        assert_eq!(faults.next_to_end(|_| true), Some(C));
        let ended = faults.end_in_good_order(at(7), C, &mut connections);
        assert_eq!(ended.last(), Some(&FaultEffect::Kill { task: C, restarts: true }));
        assert!(ended.iter().all(|effect| !matches!(effect, FaultEffect::Schedule { .. })));
        assert_eq!(faults.next_to_end(|_| true), None);
        let end = if is_killed { crash(B, None) } else { stop(B, Some(2)) };
        let effects = faults.apply(at(8), end, &mut connections);
        assert!(effects.contains(&restart(10, C)), "{effects:?}");
        assert!(effects.contains(&restart(10, B)), "as its `stop` says: {effects:?}");
    }
}

#[test]
fn a_task_that_ends_after_the_one_that_has_ended_it_starts_again_by_itself() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(5), stop(B, Some(2)), &mut connections);
    faults.apply(at(6), stop(B, Some(2)), &mut connections);
    faults.leave(at(7), leaver(C, Some(B)), &connections);
    let effects = faults.end_in_good_order(at(9), C, &mut connections);
    assert!(effects.contains(&scheduled(11, FaultEvent::Restart { task: C })), "{effects:?}");
}

#[test]
fn a_task_whose_program_has_come_to_its_end_ends_and_does_not_start_again() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(5), stop(B, Some(1)), &mut connections);
    faults.program_returned(B);
    faults.leave(at(6), leaver(B, None), &connections);
    assert_eq!(faults.apply(at(7), stop(B, Some(1)), &mut connections), []);
    let mut expected = end_of_b(8);
    expected.push(FaultEffect::Kill { task: B, restarts: false });
    assert_eq!(faults.end_in_good_order(at(8), B, &mut connections), expected);
    assert_eq!(faults.apply(at(15), end_of_grace(B), &mut connections), []);
    assert_eq!(faults.apply(at(16), stop(B, None), &mut connections), []);
    faults.program_begins(B);
    connections.begin_incarnation(B);
    connections.listen(B);
    assert!(!faults.apply(at(17), crash(B, None), &mut connections).is_empty(), "its next life");
}
