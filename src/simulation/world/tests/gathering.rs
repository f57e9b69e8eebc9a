//! Threads that gather: what leaves as one envelope, and in which order.

use smallvec::smallvec;

use super::*;
use crate::partition::CrossingId;
use crate::runtime::{Packed, StepId, WorkerMessage};
use crate::simulation::hosts::MessageThread;
use crate::simulation::processor::Activity;
use crate::tensor::Tensor;
use crate::transport::LARGE_ENVELOPE;

const SEND: Duration = Duration::from_micros(10);
/// The time of small kernels.
const SMALL: Duration = Duration::from_micros(1);

/// Two workers whose threads gather, and which only sending costs something: `fixed`.
fn gathering(fixed: Duration, faults: &[(u32, FaultKind)]) -> World {
    world_of(faults, |cluster| {
        let thread = MessageThread::sending_costs(fixed);
        cluster.hardware.message_thread = Some(MessageThread { gathers: true, ..thread });
    })
}

/// Posts a message of A to B, of `size` and a few bytes more.
pub(super) fn post(world: &mut World, size: usize) {
    let value = Packed::Bf16(Tensor::full([size / 2], half::bf16::ONE));
    let (step, devices) =
        (StepId { master: 1, number: 1, trains: true }, smallvec![LocalDevice::cpu(0)]);
    let arrivals = smallvec![(CrossingId(1), Some(value.into()))];
    let message = WorkerMessage::Tensors { step, devices, arrivals };
    world.send(A, 0, B, vec![message.into()]);
}

#[test]
fn what_waits_for_a_task_leaves_as_one_after_the_kernels_that_came_up_meanwhile() {
    let mut world = gathering(SEND, &[]);
    send(&mut world, A, B);
    compute(&mut world, A, 1_000);
    send(&mut world, A, B);
    assert_next(&mut world, SMALL, &["finish"]);
    send(&mut world, A, B);
    assert_next(&mut world, SMALL + SEND + LATENCY, &["3 from 0 to 1"]);
    assert_eq!(world.usage(A).of(Activity::Sending), SEND);
}

#[test]
fn an_envelope_that_is_being_sent_is_not_joined() {
    let mut world = gathering(SEND, &[]);
    send(&mut world, A, B);
    sleep(&mut world, A, SMALL);
    assert_next(&mut world, SMALL, &["wake"]);
    compute(&mut world, A, 1_000);
    send(&mut world, A, B);
    assert_next(&mut world, SEND + SMALL, &["finish"]);
    assert_next(&mut world, SEND + LATENCY, &["1 from 0 to 1"]);
    assert_next(&mut world, SEND + SMALL + SEND + LATENCY, &["1 from 0 to 1"]);
}

#[test]
fn an_envelope_joins_the_last_one_that_waits_so_that_none_overtakes_another() {
    let mut world = gathering(SEND, &[]);
    post(&mut world, LARGE_ENVELOPE - 5_000);
    post(&mut world, 10_000);
    send(&mut world, A, B);
    assert_next(&mut world, SEND + LATENCY, &["1 from 0 to 1"]);
    assert_next(&mut world, SEND * 2 + LATENCY, &["2 from 0 to 1"]);
}

#[test]
fn a_large_envelope_is_sent_by_itself() {
    let mut world = gathering(SEND, &[]);
    send(&mut world, A, B);
    post(&mut world, LARGE_ENVELOPE + 1);
    send(&mut world, A, B);
    assert_next(&mut world, SEND + LATENCY, &["2 from 0 to 1"]);
    assert_next(&mut world, SEND * 2 + LATENCY, &["1 from 0 to 1"]);
}

#[test]
fn operations_of_a_message_are_paid_before_the_envelope_that_it_joins() {
    let operation = Duration::from_micros(3);
    let mut world = world_of(&[], |cluster| {
        let thread = MessageThread { operation, ..MessageThread::sending_costs(SEND) };
        cluster.hardware.message_thread = Some(MessageThread { gathers: true, ..thread });
    });
    send(&mut world, A, B);
    world.operate(A, 4);
    send(&mut world, A, B);
    assert_next(&mut world, operation * 4 + SEND + LATENCY, &["2 from 0 to 1"]);
    assert_eq!(world.usage(A).of(Activity::Operations), operation * 4);
}

#[test]
fn a_message_for_a_task_that_starts_again_joins_none_for_the_one_before() {
    let crash = FaultKind::Crash { task: task(B), restart_after: Some(ms(200)) };
    let mut world = gathering(ms(200), &[(5, crash)]);
    world.connections.note_dialer(A, B);
    post(&mut world, LARGE_ENVELOPE + 1);
    send(&mut world, A, B);
    assert_next(&mut world, ms(5), &["kill 1, which missed 0"]);
    assert_next(&mut world, ms(105), &["0 loses 1: it has fallen silent"]);
    send(&mut world, A, B);
    assert_next(&mut world, ms(205), &["start 1"]);
    assert_eq!(world.begin_incarnation(B), 1);
    world.listens(B);
    assert_next(&mut world, ms(600) + LATENCY, &["1 from 0 to 1"]);
}
