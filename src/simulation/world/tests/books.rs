//! Each byte that is sent is in the books at the end.

use super::*;

/// Lets time pass until `after`.
fn wait(world: &mut World, after: Duration) {
    let _alarm = sleep(world, A, after);
    assert_next(world, after, &["wake"]);
}

/// A world with an envelope that was handed over, one that is held, one that is late, and one that
/// is on the network.
fn with_envelopes_everywhere() -> World {
    let tasks = vec![task(A), task(B)];
    let slow = FaultKind::SlowLink { tasks: tasks.clone(), factor: 20.0, lasts: ms(20) };
    let partition = FaultKind::Partition { tasks, lasts: ms(50) };
    let mut world = world(&[(0, slow), (5, partition)]);
    world.tick(&mut Vec::new());
    send(&mut world, A, B);
    assert_next(&mut world, LATENCY * 20, &["1 from 0 to 1"]);
    wait(&mut world, ms(6));
    send(&mut world, A, B);
    wait(&mut world, ms(8));
    send(&mut world, A, B);
    wait(&mut world, ms(8) + LATENCY * 2);
    send(&mut world, B, A);
    world
}

#[test]
fn what_is_held_or_late_or_on_the_network_at_the_end_is_under_way() {
    let mut world = with_envelopes_everywhere();
    let size = world.traffic[B].total;
    assert_eq!(world.traffic[A].total, 3 * size);
    assert_eq!((world.held.len(), world.events.late_bytes()), (1, size));
    assert_eq!(world.network.bytes_in_flight().0, size);
    drop(world.take_unfinished());
}

#[test]
#[should_panic(expected = "bytes that tasks have sent")]
fn an_envelope_that_is_lost_without_a_word_is_missed() {
    let mut world = with_envelopes_everywhere();
    world.held.clear();
    drop(world.take_unfinished());
}

#[test]
fn what_a_crashed_task_has_not_sent_is_in_the_books_as_dropped() {
    let crash = FaultKind::Crash { task: task(B), restart_after: None };
    let mut world = world_of(&[(1, crash)], |cluster| {
        cluster.hardware.network.bandwidth = BytesPerSecond(1e3);
    });
    send(&mut world, B, A);
    send(&mut world, B, A);
    assert_next(&mut world, ms(1), &["kill 1, which missed 0"]);
    assert_eq!(world.network.bytes_in_flight(), Bytes(0));
    assert_next(&mut world, ms(101), &["0 loses 1: it has fallen silent"]);
    assert_next(&mut world, ms(101), &["stall"]);
    drop(world.take_unfinished());
    assert_eq!((world.deliveries, world.traffic[B].total > 0), (0, true));
}
