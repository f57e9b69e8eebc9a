//! Faults of the same tasks that overlap.

use super::*;

/// [ms]
const LATENCY: u64 = 10;

fn millis(count: u64) -> Time {
    Time::ZERO.after(Duration::from_millis(count))
}

fn freeze(lasts: u64) -> FaultKind {
    FaultKind::Freeze { task: name(B), lasts: Duration::from_millis(lasts) }
}

fn partition(lasts: u64) -> FaultKind {
    FaultKind::Partition { tasks: [A, B].map(name).to_vec(), lasts: Duration::from_millis(lasts) }
}

fn one_way(lasts: u64) -> FaultKind {
    FaultKind::OneWay { from: name(A), to: name(B), lasts: Duration::from_millis(lasts) }
}

/// The effects of faults that begin at the given milliseconds, each with its time. Envelopes are
/// held in none of these tests, so their release is left out.
fn course(faults: &[(u64, FaultKind)]) -> Vec<(Time, FaultEffect)> {
    let (mut injector, mut connections) = injector(&[]);
    let begin = |(at, kind): &(u64, FaultKind)| (millis(*at), begin(kind.clone()));
    let mut events: Vec<(Time, FaultEvent)> = faults.iter().map(begin).collect();
    let mut course = Vec::new();
    while let Some(next) = (0..events.len()).min_by_key(|event| events[*event].0) {
        let (now, event) = events.remove(next);
        for effect in injector.apply(now, event, &mut connections) {
            match effect {
                FaultEffect::Schedule { at, event } | FaultEffect::Watch { at, event, .. } => {
                    events.push((at, event));
                }
                FaultEffect::Tell { event, .. } => {
                    events.push((now.after(Duration::from_millis(LATENCY)), event));
                }
                FaultEffect::ReleaseHeld => {}
                other => course.push((now, other)),
            }
        }
    }
    course
}

fn slow_link(tasks: &[usize], factor: f64) -> FaultKind {
    let tasks = tasks.iter().map(|task| name(*task)).collect();
    FaultKind::SlowLink { tasks, factor, lasts: SECOND }
}

/// The speed of the link of two tasks, both ways.
fn link_speed(one: usize, other: usize, speed: f64) -> [FaultEffect; 2] {
    [(other, one), (one, other)].map(|(from, to)| FaultEffect::SetLinkSpeed { from, to, speed })
}

#[test]
fn a_second_freeze_during_the_first_extends_it_and_silence_counts_from_the_first() {
    let whole = course(&[(0, freeze(1_500))]);
    let expected = [
        (millis(0), FaultEffect::Freeze { task: B }),
        (millis(1_000), lost(A, B)),
        (millis(1_000), lost(C, B)),
        (millis(1_500), unheard(B, A)),
        (millis(1_500), unheard(B, C)),
        (millis(1_500), FaultEffect::Resume { task: B }),
    ];
    assert_eq!(whole, expected);
    assert_eq!(course(&[(0, freeze(800)), (700, freeze(800))]), whole);
    assert_eq!(course(&[(0, freeze(1_200)), (1_100, freeze(400))]), whole);
    assert_eq!(course(&[(0, freeze(600)), (300, freeze(600)), (800, freeze(700))]), whole);
}

#[test]
fn a_second_freeze_that_ends_before_the_first_changes_nothing() {
    let whole = course(&[(0, freeze(1_500))]);
    assert_eq!(course(&[(0, freeze(1_500)), (200, freeze(100))]), whole);
    assert_eq!(course(&[(0, freeze(1_500)), (200, freeze(1_300))]), whole);
}

#[test]
fn overlapping_partitions_are_noticed_like_one_of_the_same_length() {
    let whole = course(&[(2_000, partition(1_500))]);
    assert_eq!(whole, [(millis(3_000), lost(A, B)), (millis(3_000), lost(B, A))]);
    assert_eq!(course(&[(2_000, partition(800)), (2_700, partition(800))]), whole);
    assert_eq!(course(&[(2_000, partition(1_400)), (2_100, partition(1_400))]), whole);
}

#[test]
fn partitions_with_a_time_between_them_in_which_messages_get_through_go_unnoticed() {
    assert_eq!(course(&[(2_000, partition(800)), (2_900, partition(800))]), []);
}

#[test]
fn a_receiver_that_is_cut_off_tells_its_sender_and_overlapping_cuts_count_as_one() {
    let whole = course(&[(0, one_way(1_800))]);
    assert_eq!(whole, [(millis(1_000), lost(B, A)), (millis(1_000 + LATENCY), unheard(A, B))]);
    assert_eq!(course(&[(0, one_way(800)), (700, one_way(1_100))]), whole);
    assert_eq!(course(&[(0, one_way(1_500)), (1_400, one_way(400))]), whole);
    assert_eq!(course(&[(0, one_way(5_000))]), whole);
}

#[test]
fn a_sender_that_its_receiver_can_not_tell_notices_by_itself() {
    let healed = course(&[(0, one_way(800)), (700, partition(700))]);
    assert_eq!(healed, [(millis(1_000), lost(B, A)), (millis(1_400), unheard(A, B))]);
    let silent = course(&[(0, one_way(5_000)), (700, partition(700))]);
    assert_eq!(silent, [(millis(1_000), lost(B, A)), (millis(2_000), unheard(A, B))]);
}

#[test]
fn a_slow_link_slows_the_pairs_of_its_tasks_alone_by_all_faults_that_have_both() {
    let (mut faults, mut connections) = injector(&[]);
    let effects = faults.apply(at(0), begin(slow_link(&[A, C], 8.0)), &mut connections);
    assert_eq!(effects[..2], link_speed(A, C, 1.0 / 8.0));
    let effects = faults.apply(at(0), begin(slow_link(&[A, B, C], 2.0)), &mut connections);
    let all = [link_speed(A, B, 0.5), link_speed(A, C, 1.0 / 16.0), link_speed(B, C, 0.5)];
    assert_eq!(effects[..6], all.concat());
    let end = FaultEvent::End { kind: slow_link(&[A, B, C], 2.0) };
    let effects = faults.apply(at(1), end, &mut connections);
    let all = [link_speed(A, B, 1.0), link_speed(A, C, 1.0 / 8.0), link_speed(B, C, 1.0)];
    assert_eq!(effects, all.concat());
}

#[test]
fn the_pairs_of_slow_links_are_known_before_the_run_begins() {
    let kind = slow_link(&[A, C], 2.0);
    let (faults, _) = injector(&[Fault { at: Trigger::Delivery(3), kind }]);
    assert_eq!(faults.slow_pairs(), [(A, C), (C, A)].into());
}
