//! The ends of processes that were asked to stop.

use super::*;

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
    world.program_returned(B);
    world.leave(B, B);
    let arrived = ms(1) + LATENCY;
    assert_next(&mut world, arrived, &["1 from 1 to 0"]);
    assert_next(&mut world, arrived, &["kill 1, which missed 0"]);
    assert_next(&mut world, arrived + LATENCY, &["0 loses 1: it has stopped"]);
}

#[test]
fn a_process_whose_last_messages_do_not_arrive_ends_after_the_time_of_grace() {
    let mut world = stopping();
    world.connections.cut(B, A);
    send(&mut world, B, A);
    world.program_returned(B);
    world.leave(B, B);
    let limit = ms(1) + crate::runtime::STOP_GRACE;
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
    world.program_returned(B);
    world.leave(B, B);
    assert_next(&mut world, ms(500), &["kill 1, which missed 0"]);
}
