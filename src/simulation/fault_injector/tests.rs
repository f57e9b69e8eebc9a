//! Each fault's effects, on the connections and by itself, without a world and without a runtime.

mod overlaps;
mod stops;

use super::effects::SilenceCause;
use super::*;
use crate::simulation::faults::Fault;
use crate::transport::Loss;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const SECOND: Duration = Duration::from_secs(1);

fn name(task: usize) -> TaskName {
    TaskName::new("worker", task as u32)
}

fn at(seconds: u64) -> Time {
    Time::ZERO.after(SECOND * seconds as u32)
}

/// The faults of three connected tasks that count each other as lost after a second of silence.
fn injector(faults: &[Fault]) -> (FaultInjector, Connections) {
    let faults = Faults { silence: SECOND, list: faults.to_vec() };
    let mut connections = Connections::new(3);
    for (one, other) in [(A, B), (A, C), (C, B)] {
        connections.note_dialer(one, other);
    }
    let mut faults = FaultInjector::new(&[A, B, C].map(name), &faults, 1);
    faults.are_expected = true;
    (faults, connections)
}

/// The beginning of a fault, with the number of the first in the scenario.
fn begin(kind: FaultKind) -> FaultEvent {
    FaultEvent::Begin { number: 0, kind }
}

fn crash(task: usize, restart_after: Option<Duration>) -> FaultEvent {
    begin(FaultKind::Crash { task: name(task), restart_after })
}

fn freeze(task: usize, seconds: u32) -> FaultEvent {
    begin(FaultKind::Freeze { task: name(task), lasts: SECOND * seconds })
}

fn silence(observer: usize, peer: usize, cause: SilenceCause) -> FaultEvent {
    FaultEvent::SilenceLimit { observer, peer, cause }
}

fn scheduled(seconds: u64, event: FaultEvent) -> FaultEffect {
    FaultEffect::Schedule { at: at(seconds), event }
}

/// The effect by which the observer of a limit of silence waits for it.
fn watched(seconds: u64, event: FaultEvent) -> FaultEffect {
    let FaultEvent::SilenceLimit { observer, .. } = event else { panic!("no limit: {event:?}") };
    FaultEffect::Watch { observer, at: at(seconds), event }
}

fn lost(observer: usize, peer: usize) -> FaultEffect {
    FaultEffect::TellLost { observer, peer, loss: Loss::Silent }
}

fn unheard(observer: usize, peer: usize) -> FaultEffect {
    FaultEffect::TellLost { observer, peer, loss: Loss::Unheard }
}

#[test]
fn a_crash_kills_the_task_and_the_others_lose_it_at_the_limit_of_silence() {
    let (mut faults, mut connections) = injector(&[]);
    let effects = faults.apply(at(5), crash(B, Some(SECOND * 2)), &mut connections);
    let expected = [
        watched(6, silence(A, B, SilenceCause::Crash)),
        watched(6, silence(C, B, SilenceCause::Crash)),
        scheduled(7, FaultEvent::Restart { task: B }),
        FaultEffect::Kill { task: B, restarts: true },
    ];
    assert_eq!(effects, expected);
    assert!(!connections.is_up(B));
    let limit = silence(A, B, SilenceCause::Crash);
    assert_eq!(faults.apply(at(6), limit.clone(), &mut connections), [lost(A, B)]);
    assert_eq!(faults.apply(at(6), limit, &mut connections), [], "it has been told");
    let restart = FaultEvent::Restart { task: B };
    assert_eq!(faults.apply(at(7), restart, &mut connections), [FaultEffect::Start { task: B }]);
}

#[test]
fn a_task_hears_of_a_restart_once_whether_from_another_task_or_by_a_reset() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(5), crash(B, Some(SECOND)), &mut connections);
    connections.begin_incarnation(B);
    connections.listen(B);
    let heard = FaultEvent::PeerRestarted { observer: A, peer: B };
    let told = |observer| FaultEffect::TellLost { observer, peer: B, loss: Loss::Restarted };
    assert_eq!(faults.apply(at(6), heard.clone(), &mut connections), [told(A)]);
    let reset = FaultEvent::PeerRestarted { observer: A, peer: B };
    assert_eq!(faults.apply(at(6), reset, &mut connections), []);
    assert_eq!(faults.apply(at(6), heard, &mut connections), []);
    let reset = FaultEvent::PeerRestarted { observer: C, peer: B };
    assert_eq!(faults.apply(at(6), reset, &mut connections), [told(C)]);
}

#[test]
fn a_crash_for_good_schedules_no_restart() {
    let (mut faults, mut connections) = injector(&[]);
    let effects = faults.apply(at(0), crash(B, None), &mut connections);
    assert_eq!(effects.last(), Some(&FaultEffect::Kill { task: B, restarts: false }));
    assert_eq!(effects.len(), 3, "two observers and the kill: {effects:?}");
}

#[test]
fn a_fault_of_a_task_that_does_not_run_is_skipped() {
    let (mut faults, mut connections) = injector(&[]);
    faults.program_returned(A);
    assert_eq!(
        faults.apply(at(0), crash(A, None), &mut connections),
        [],
        "its program has returned"
    );
    faults.apply(at(0), crash(B, None), &mut connections);
    assert_eq!(faults.apply(at(1), crash(B, None), &mut connections), [], "it is dead already");
    assert_eq!(faults.apply(at(1), freeze(B, 9), &mut connections), [], "it is dead");
}

#[test]
fn the_faults_that_did_not_happen_are_known_at_the_end_and_why() {
    let fault = |seconds, kind| Fault { at: Trigger::Time(at(seconds)), kind };
    let crash = |task| FaultKind::Crash { task: name(task), restart_after: None };
    let torn = FaultKind::TornCheckpoint { damage: Damage::Cut };
    let list = [(0, crash(B)), (1, crash(B)), (2, torn.clone()), (3, torn), (9, crash(A))]
        .map(|(seconds, kind)| fault(seconds, kind));
    let (mut faults, mut connections) = injector(&list);
    let mut scheduled = faults.schedule().into_iter();
    let mut begin = |faults: &mut FaultInjector, count| {
        for effect in scheduled.by_ref().take(count) {
            let FaultEffect::Schedule { at, event } = effect else { unreachable!() };
            faults.apply(at, event, &mut connections);
        }
    };
    begin(&mut faults, 3);
    assert_eq!(faults.take_damage(false), [], "there is no checkpoint");
    begin(&mut faults, 1);
    assert_eq!(faults.take_damage(true), [Damage::Cut]);
    let skipped = |number: usize, why| SkippedFault { fault: list[number].clone(), why };
    let expected = [
        skipped(1, SkipReason::NotRunning),
        skipped(2, SkipReason::NoCheckpoint),
        skipped(4, SkipReason::RunEnded),
    ];
    assert_eq!(faults.skipped(), expected);
}

#[test]
fn of_faults_of_one_kind_the_one_that_did_not_happen_is_known_by_its_number() {
    let kind = FaultKind::Crash { task: name(B), restart_after: None };
    let triggers = [
        Trigger::Delivery(1000),
        Trigger::Event(1000),
        Trigger::Time(at(9)),
        Trigger::Time(at(1)),
        Trigger::Event(7),
        Trigger::Delivery(5),
    ];
    let list = triggers.map(|at| Fault { at, kind: kind.clone() });
    let (mut faults, mut connections) = injector(&list);
    let timed = faults.schedule().into_iter().filter_map(|effect| match effect {
        FaultEffect::Schedule { event, at: time } if time == at(1) => Some(event),
        _ => None,
    });
    let timed: Vec<FaultEvent> = timed.collect();
    for due in [timed, faults.due_after_events(7), faults.due_at_delivery(5)] {
        let [event] = &due[..] else { panic!("one fault begins: {due:?}") };
        faults.apply(at(1), event.clone(), &mut connections);
    }
    let skipped = |number: usize, why| SkippedFault { fault: list[number].clone(), why };
    let expected = [
        skipped(4, SkipReason::NotRunning),
        skipped(5, SkipReason::NotRunning),
        skipped(0, SkipReason::RunEnded),
        skipped(1, SkipReason::RunEnded),
        skipped(2, SkipReason::RunEnded),
    ];
    assert_eq!(faults.skipped(), expected);
}

#[test]
fn a_freeze_shorter_than_the_limit_of_silence_goes_unnoticed() {
    let (mut faults, mut connections) = injector(&[]);
    let thaw = FaultEvent::Thaw { task: B, incarnation: 0 };
    let effects = faults.apply(at(3), freeze(B, 1), &mut connections);
    let limit = |observer| silence(observer, B, SilenceCause::Freeze(1));
    let watched = [A, C].map(|observer| watched(4, limit(observer)));
    assert_eq!(effects[1..], [&watched[..], &[scheduled(4, thaw.clone())]].concat());
    assert!(connections.is_frozen(B));
    assert_eq!(faults.apply(at(4), limit(A), &mut connections), [], "it goes on right now");
    let effects = faults.apply(at(4), thaw, &mut connections);
    assert_eq!(effects, [FaultEffect::Resume { task: B }, FaultEffect::ReleaseHeld]);
    assert!(!connections.is_frozen(B));
}

#[test]
fn a_long_freeze_loses_the_task_which_learns_that_before_it_runs_on() {
    let (mut faults, mut connections) = injector(&[]);
    let effects = faults.apply(at(0), freeze(B, 3), &mut connections);
    let (limit, thaw) = (
        |observer| silence(observer, B, SilenceCause::Freeze(1)),
        FaultEvent::Thaw { task: B, incarnation: 0 },
    );
    let expected = [
        FaultEffect::Freeze { task: B },
        watched(1, limit(A)),
        watched(1, limit(C)),
        scheduled(3, thaw.clone()),
    ];
    assert_eq!(effects, expected);
    assert_eq!(faults.apply(at(1), limit(A), &mut connections), [lost(A, B)]);
    let effects = faults.apply(at(3), thaw, &mut connections);
    assert_eq!(effects, [unheard(B, A), FaultEffect::Resume { task: B }, FaultEffect::ReleaseHeld]);
    faults.apply(at(4), freeze(B, 3), &mut connections);
    assert_eq!(
        faults.apply(at(4), limit(C), &mut connections),
        [],
        "that was of the freeze before"
    );
}

#[test]
fn a_frozen_task_hears_that_its_peer_has_given_it_up_once_it_runs_again() {
    let (mut faults, mut connections) = injector(&[]);
    connections.give_up(B, A);
    faults.apply(at(0), freeze(A, 1), &mut connections);
    let event = FaultEvent::closed(A, B);
    let effects = faults.apply(at(1), event.clone(), &mut connections);
    assert_eq!(effects, [FaultEffect::Postpone { task: A, event: event.clone() }]);
    let thaw = FaultEvent::Thaw { task: A, incarnation: 0 };
    assert_eq!(faults.apply(at(1), thaw, &mut connections)[0], unheard(A, B));
    assert_eq!(faults.apply(at(1), event, &mut connections), [], "it has just learnt that");
}

#[test]
fn the_thaw_of_a_task_that_died_while_it_was_frozen_does_nothing() {
    let (mut faults, mut connections) = injector(&[]);
    faults.apply(at(0), freeze(B, 5), &mut connections);
    faults.apply(at(1), crash(B, Some(SECOND)), &mut connections);
    let incarnation = connections.begin_incarnation(B);
    connections.listen(B);
    faults.apply(at(3), freeze(B, 9), &mut connections);
    let old = FaultEvent::Thaw { task: B, incarnation: incarnation - 1 };
    assert_eq!(faults.apply(at(5), old, &mut connections), []);
    assert!(connections.is_frozen(B), "the second freeze is still in force");
}

#[test]
fn a_partition_cuts_every_pair_until_it_heals_or_they_lose_each_other() {
    let (mut faults, mut connections) = injector(&[]);
    let tasks = [A, C].map(name).to_vec();
    let begin = begin(FaultKind::Partition { tasks, lasts: SECOND * 2 });
    let (a_of_c, c_of_a) =
        (silence(A, C, SilenceCause::Partition), silence(C, A, SilenceCause::Partition));
    let heal = FaultEvent::Heal { pairs: vec![(C, A), (A, C)] };
    let effects = faults.apply(at(1), begin, &mut connections);
    let expected =
        [watched(2, a_of_c.clone()), watched(2, c_of_a.clone()), scheduled(3, heal.clone())];
    assert_eq!(effects, expected);
    assert!(connections.can_notice_cut(A, C) && !connections.can_notice_cut(A, B));
    assert_eq!(faults.apply(at(2), a_of_c, &mut connections), [lost(A, C)]);
    assert_eq!(faults.apply(at(3), heal, &mut connections), [FaultEffect::ReleaseHeld]);
    assert_eq!(faults.apply(at(3), c_of_a, &mut connections), [], "it has healed");
}

#[test]
fn slow_faults_multiply_while_they_overlap_and_end_each_by_itself() {
    let (mut faults, mut connections) = injector(&[]);
    let slowed = |factor| FaultEffect::SetSlowdown { task: B, factor };
    let slow_task = |factor| FaultKind::SlowTask { task: name(B), factor, lasts: SECOND };
    let tasks = [A, B].map(name).to_vec();
    let slow_link = |factor| FaultKind::SlowLink { tasks: tasks.clone(), factor, lasts: SECOND };
    for (factor, all) in [(2.0, 2.0), (3.0, 6.0)] {
        let end = FaultEvent::End { kind: slow_task(factor) };
        let effects = faults.apply(at(0), begin(slow_task(factor)), &mut connections);
        assert_eq!(effects, [slowed(all), scheduled(1, end)]);
        faults.apply(at(0), begin(slow_link(factor)), &mut connections);
    }
    assert_eq!((faults.link_slowness(B, A), faults.link_slowness(A, C)), (6.0, 1.0));
    let end = FaultEvent::End { kind: slow_task(2.0) };
    assert_eq!(faults.apply(at(1), end, &mut connections), [slowed(3.0)]);
    faults.apply(at(1), FaultEvent::End { kind: slow_link(3.0) }, &mut connections);
    assert_eq!(faults.link_slowness(A, B), 2.0, "the other goes on, though it began first");
}

#[test]
fn the_disk_is_full_and_packets_are_lost_until_the_last_of_such_faults_ends() {
    let (mut faults, mut connections) = injector(&[]);
    let tasks = [A, B].map(name).to_vec();
    let loss = FaultKind::Loss { tasks, rate: 0.5, lasts: SECOND };
    let full_disk = FaultKind::FullDisk { lasts: SECOND };
    let delays = |faults: &mut FaultInjector, to| {
        let mut delay = || faults.retransmission(A, to, Duration::from_millis(1));
        (0..100).filter(|_| delay() != Some(Duration::ZERO)).count()
    };
    for kind in [&loss, &full_disk, &loss, &full_disk] {
        faults.apply(at(0), begin(kind.clone()), &mut connections);
    }
    assert!((65..85).contains(&delays(&mut faults, B)), "one in four gets through at once");
    assert_eq!(delays(&mut faults, C), 0);
    for is_last in [false, true] {
        assert!(faults.is_disk_full() && delays(&mut faults, B) > 0);
        for kind in [&loss, &full_disk] {
            let end = FaultEvent::End { kind: kind.clone() };
            assert_eq!(faults.apply(at(1), end, &mut connections), []);
        }
        assert_eq!((!faults.is_disk_full(), delays(&mut faults, B) == 0), (is_last, is_last));
    }
}

#[test]
fn each_fault_is_due_at_its_trigger_and_once() {
    let kind = |task| FaultKind::Crash { task: name(task), restart_after: None };
    let (mut faults, _) = injector(&[
        Fault { at: Trigger::Time(at(4)), kind: kind(A) },
        Fault { at: Trigger::Delivery(2), kind: kind(B) },
        Fault { at: Trigger::Event(10), kind: kind(C) },
    ]);
    let begin = |task| FaultEvent::Begin { number: task, kind: kind(task) }; // by its number, too
    assert_eq!(faults.schedule(), [scheduled(4, begin(A))]);
    assert_eq!(faults.due_at_delivery(1), []);
    assert_eq!(faults.due_at_delivery(2), [begin(B)]);
    assert_eq!(faults.due_after_events(9), []);
    assert_eq!(faults.due_after_events(11), [begin(C)]);
    assert!(faults.due_after_events(11).is_empty() && faults.schedule().is_empty());
}
