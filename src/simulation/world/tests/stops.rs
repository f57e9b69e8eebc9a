//! The ends of processes whose program has returned, or that were asked to stop.

use super::*;
use crate::runtime::FLUSH;
use crate::simulation::fault_injector::Leaver;

/// The program of the second task returns: by itself, or because the task `asked` was asked to
/// stop.
fn returns(world: &mut World, asked: Option<usize>) {
    world.program_returned(B);
    world.leave(Leaver { task: B, asked, limit: FLUSH });
}

/// A world whose second task is asked to stop after a millisecond.
fn stopping() -> World {
    let stop = FaultKind::Stop { task: task(B), restart_after: None };
    let mut world = world(&[(1, stop)]);
    world.connections.note_dialer(A, B);
    assert_next(&mut world, ms(1), &["AskToStop { task: 1 }"]);
    world
}

#[test]
fn a_process_that_was_asked_to_stop_ends_once_its_last_messages_have_arrived_and_says_so() {
    let mut world = stopping();
    send(&mut world, B, A);
    returns(&mut world, Some(B));
    let arrived = ms(1) + LATENCY;
    assert_next(&mut world, arrived, &["1 from 1 to 0"]);
    assert_next(&mut world, arrived, &["kill 1, which missed 0"]);
    assert_next(&mut world, arrived + LATENCY, &["0 loses 1: it has stopped"]);
}

#[test]
fn a_process_whose_last_messages_do_not_arrive_ends_after_their_time_limit() {
    let mut world = stopping();
    world.connections.cut(B, A);
    send(&mut world, B, A);
    returns(&mut world, Some(B));
    let limit = ms(1) + FLUSH;
    assert_next(&mut world, limit, &["kill 1, which missed 0"]);
    assert_next(&mut world, limit + ms(100), &["0 loses 1: it has fallen silent"]);
}

#[test]
fn what_a_process_has_to_say_to_a_task_that_is_down_does_not_keep_it() {
    let crash = FaultKind::Crash { task: task(A), restart_after: None };
    let stop = FaultKind::Stop { task: task(B), restart_after: None };
    let mut world = world(&[(1, crash), (500, stop)]);
    world.connections.note_dialer(A, B);
    assert_next(&mut world, ms(1), &["kill 0, which missed 0"]);
    assert_next(&mut world, ms(101), &["1 loses 0: it has fallen silent"]);
    send(&mut world, B, A);
    assert_next(&mut world, ms(500), &["AskToStop { task: 1 }"]);
    returns(&mut world, Some(B));
    assert_next(&mut world, ms(500), &["kill 1, which missed 0"]);
}

#[test]
fn a_process_ends_after_its_program_without_any_fault_and_those_who_have_met_it_hear_so() {
    let mut world = world(&[]);
    send(&mut world, B, A);
    returns(&mut world, None);
    assert_next(&mut world, LATENCY, &["1 from 1 to 0"]);
    assert_next(&mut world, LATENCY, &["kill 1, which missed 0"]);
    assert_next(&mut world, LATENCY * 2, &["0 loses 1: it has stopped"]);
    send(&mut world, A, B);
    assert_next(&mut world, FLUSH, &["stall"]);
}
