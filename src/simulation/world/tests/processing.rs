//! Message threads in a world: what they cost, in closed form.

use smallvec::smallvec;

use super::*;
use crate::partition::CrossingId;
use crate::runtime::{Packed, StepId, WorkerMessage, leaves_message_thread};
use crate::simulation::hosts::{Hosts, MessageCost, MessageThread};
use crate::simulation::processor::Activity;
use crate::tensor::Tensor;
use crate::units::SecondsPerByte;

const SEND: Duration = Duration::from_micros(10);
const RECEIVE: Duration = Duration::from_micros(15);
const WAKE: Duration = Duration::from_micros(40);
const HAND_OVER: Duration = Duration::from_micros(20);
/// Kernels of so many operations, a nanosecond each, leave the message thread.
const LARGE: u64 = 1 << 24;

fn thread() -> MessageThread {
    MessageThread {
        send: MessageCost { fixed: SEND, ..MessageCost::default() },
        receive: MessageCost { fixed: RECEIVE, ..MessageCost::default() },
        ..MessageThread::sending_costs(Duration::ZERO)
    }
}

/// Two workers with the costs of `thread`; on one host if it has so many `cores`.
fn calibrated(thread: MessageThread, cores: Option<u32>) -> World {
    world_of(&[], |cluster| {
        cluster.hardware.message_thread = Some(thread);
        cluster.hardware.hosts = cores.map(|cores| Hosts {
            tasks: vec![vec![task(A), task(B)]],
            cores: NonZeroU32::new(cores).unwrap(),
        });
        cluster.hardware.network.loopback.latency = LATENCY;
        cluster.hardware.network.loopback.bandwidth = cluster.hardware.network.bandwidth;
    })
}

#[test]
fn envelopes_cost_their_sender_and_their_receiver_one_after_another() {
    let mut world = calibrated(thread(), None);
    for _ in 0..3 {
        send(&mut world, A, B);
    }
    let first = SEND + LATENCY + RECEIVE;
    for count in 0..3 {
        assert_next(&mut world, first + RECEIVE * count, &["1 from 0 to 1"]);
    }
    assert_eq!(world.usage(A).of(Activity::Sending), SEND * 3);
    assert_eq!(world.usage(B).of(Activity::Receiving), RECEIVE * 3);
}

#[test]
fn each_byte_of_an_envelope_costs_both_of_its_ends_at_the_same_time() {
    let per_byte = SecondsPerByte(1e-3);
    let cost = MessageCost { fixed: Duration::ZERO, per_byte };
    let costs = MessageThread { send: cost, receive: cost, ..thread() };
    let mut world = calibrated(costs, None);
    send(&mut world, A, B);
    let bytes = world.traffic[A].total as u32;
    let sent = ms(bytes);
    assert_next(&mut world, LATENCY + sent, &["1 from 0 to 1"]);
    assert_eq!(world.usage(A).of(Activity::Sending), sent);
    assert_eq!(world.usage(B).of(Activity::Receiving), sent);
}

#[test]
fn a_value_that_is_sent_in_fewer_bits_costs_each_end_its_memory_traffic_at_its_own_rate() {
    let mut world = world_of(&[], |cluster| {
        cluster.hardware.message_thread = Some(thread());
        cluster.encoding = Encoding::Bf16;
        let slow = ComputeSpec { memory: BytesPerSecond(2e8), ..cluster.hardware.compute.clone() };
        cluster.hardware.own_compute.insert(task(B), slow);
    });
    let value = Packed::Bf16(Tensor::full([1_000], half::bf16::ONE));
    let (step, devices) =
        (StepId { master: 1, number: 1, trains: true }, smallvec![LocalDevice::cpu(0)]);
    let arrivals = smallvec![(CrossingId(1), Some(value.into()))];
    let message = WorkerMessage::Tensors { step, devices, arrivals };
    world.send(A, 0, B, vec![message.into()]);
    let coding = Duration::from_micros(4 + 2);
    let expected = SEND + coding + LATENCY + RECEIVE + coding * 5;
    assert_next(&mut world, expected, &["1 from 0 to 1"]);
}

#[test]
fn a_thread_that_sleeps_wakes_up_first_and_one_that_has_just_been_busy_does_not() {
    let patience = Duration::from_micros(5);
    let mut world = calibrated(MessageThread { wake: WAKE, patience, ..thread() }, None);
    send(&mut world, A, B);
    send(&mut world, A, B);
    let first = SEND + LATENCY + WAKE + RECEIVE;
    assert_next(&mut world, first, &["1 from 0 to 1"]);
    assert_next(&mut world, first + RECEIVE, &["1 from 0 to 1"]);
    assert_eq!(world.usage(B).of(Activity::Waking), WAKE);
}

#[test]
fn a_thread_that_sleeps_wakes_up_once_for_an_envelope_whose_bytes_cost_something() {
    let (patience, per_byte) = (ms(1), SecondsPerByte(1e-9));
    let receive = MessageCost { fixed: RECEIVE, per_byte };
    let costs = MessageThread { wake: WAKE, patience, receive, ..thread() };
    let mut world = calibrated(costs, None);
    sleep(&mut world, A, ms(5));
    assert_next(&mut world, ms(5), &["wake"]);
    send(&mut world, A, B);
    let bytes = Duration::from_nanos(world.traffic[A].total);
    let expected = ms(5) + SEND + LATENCY + WAKE + bytes + RECEIVE;
    assert_next(&mut world, expected, &["1 from 0 to 1"]);
    assert_eq!(world.usage(B).of(Activity::Waking), WAKE);
}

#[test]
fn an_envelope_that_comes_late_costs_its_receiver_as_much_as_any_other() {
    let tasks = vec![task(A), task(B)];
    let slow = FaultKind::SlowLink { tasks: tasks.clone(), factor: 3.0, lasts: ms(10) };
    let cut = FaultKind::Partition { tasks, lasts: ms(10) };
    let comes = [(slow, SEND + LATENCY * 3), (cut, ms(10))];
    for (fault, at) in comes {
        let costs = MessageThread { wake: WAKE, ..thread() };
        let mut world =
            world_of(&[(0, fault)], |cluster| cluster.hardware.message_thread = Some(costs));
        world.tick(&mut Vec::new());
        send(&mut world, A, B);
        assert_next(&mut world, at + WAKE + RECEIVE, &["1 from 0 to 1"]);
    }
}

#[test]
fn large_kernels_leave_the_thread_free_to_send_and_small_ones_do_not() {
    let large = Duration::from_nanos(LARGE);
    let small = Duration::from_nanos(1_000);
    assert!(leaves_message_thread(Cost { flops: LARGE, ..Cost::default() }));
    let costs = MessageThread { hand_over: HAND_OVER, ..thread() };
    let mut world = calibrated(costs, None);
    compute(&mut world, A, LARGE);
    send(&mut world, A, B);
    let sent = HAND_OVER / 2 + SEND;
    assert_next(&mut world, sent + LATENCY + RECEIVE, &["1 from 0 to 1"]);
    let end = HAND_OVER / 2 + large + HAND_OVER / 2;
    assert_next(&mut world, end, &["finish"]);
    compute(&mut world, A, 1_000);
    send(&mut world, A, B);
    assert_next(&mut world, end + small, &["finish"]);
    assert_next(&mut world, end + small + SEND + LATENCY + RECEIVE, &["1 from 0 to 1"]);
    let usage = world.usage(A);
    assert_eq!(usage.of(Activity::HandingOver), HAND_OVER);
    assert_eq!(usage.of(Activity::Kernels), large);
    assert_eq!(usage.of(Activity::SmallKernels), small);
}

#[test]
fn operations_are_paid_with_what_the_thread_does_next() {
    let operation = Duration::from_micros(3);
    let mut world = calibrated(MessageThread { operation, ..thread() }, None);
    world.operate(A, 4);
    send(&mut world, A, B);
    assert_next(&mut world, operation * 4 + SEND + LATENCY + RECEIVE, &["1 from 0 to 1"]);
    assert_eq!(world.usage(A).of(Activity::Operations), operation * 4);
}

#[test]
fn two_tasks_on_one_core_take_twice_as_long_for_the_same_and_on_two_cores_as_long_as_alone() {
    for (cores, factor) in [(1, 2), (2, 1)] {
        let mut world = calibrated(thread(), Some(cores));
        compute(&mut world, A, 1_000_000);
        compute(&mut world, B, 1_000_000);
        assert_next(&mut world, ms(factor), &["finish"]);
        assert_next(&mut world, ms(factor), &["finish"]);
        let queueing = world.usage(A).of(Activity::Queueing);
        assert_eq!(queueing, ms(factor - 1));
    }
}

#[test]
fn a_frozen_task_receives_once_it_goes_on_and_a_dead_one_never() {
    let freeze = FaultKind::Freeze { task: task(B), lasts: ms(3) };
    let receive = MessageCost { fixed: ms(2), ..MessageCost::default() };
    let costs = MessageThread { receive, ..MessageThread::sending_costs(Duration::ZERO) };
    let with_costs = |cluster: &mut Cluster| cluster.hardware.message_thread = Some(costs);
    let mut frozen = world_of(&[(1, freeze)], with_costs.clone());
    send(&mut frozen, A, B);
    assert_next(&mut frozen, LATENCY + ms(2 + 3), &["1 from 0 to 1"]);
    let crash = FaultKind::Crash { task: task(B), restart_after: None };
    let mut dead = world_of(&[(1, crash)], with_costs);
    send(&mut dead, A, B);
    assert_next(&mut dead, ms(1), &["kill 1, which missed 0"]);
    assert_next(&mut dead, ms(101), &["0 loses 1: it has fallen silent"]);
    assert_next(&mut dead, ms(101), &["stall"]);
}
