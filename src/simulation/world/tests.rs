//! Ticks of a world without actors and without a runtime.

mod books;
mod gathering;
mod lanes;
mod processing;
mod stops;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::task::Waker;
use std::time::Duration;

use super::*;
use crate::cluster::ClusterSpec;
use crate::kernels::{Cost, Costs, KernelKind, Numerics};
use crate::runtime::{Asker, Calculation, Encoding, ParameterServerMessage};
use crate::simulation::background::Pending;
use crate::simulation::chore::Kernels;
use crate::simulation::device::ComputeSpec;
use crate::simulation::faults::{Fault, FaultKind, Faults, Trigger};
use crate::simulation::hardware::Hardware;
use crate::simulation::network::NetworkSpec;
use crate::simulation::processor::Activity;
use crate::units::{BytesPerSecond, FlopsPerSecond};

const A: usize = 0;
const B: usize = 1;
const MILLISECOND: Duration = Duration::from_millis(1);
/// The latency from one task to another.
const LATENCY: Duration = Duration::from_micros(50);

fn ms(count: u32) -> Duration {
    MILLISECOND * count
}

fn at(after: Duration) -> Time {
    Time::ZERO.after(after)
}

/// Two workers; their faults begin at the given milliseconds. A byte takes no time, a floating
/// point operation takes a nanosecond.
fn world(faults: &[(u32, FaultKind)]) -> World {
    world_of(faults, |_| {})
}

/// The same with something changed.
fn world_of(faults: &[(u32, FaultKind)], change: impl FnOnce(&mut Cluster)) -> World {
    let fault = |(millis, kind): &(u32, FaultKind)| Fault {
        at: Trigger::Time(at(ms(*millis))),
        kind: kind.clone(),
    };
    let mut cluster = Cluster {
        spec: ClusterSpec::simulated([("worker", 2)]).unwrap(),
        hardware: Hardware {
            network: NetworkSpec {
                latency: LATENCY,
                bandwidth: BytesPerSecond(1e15),
                message_cost: Duration::ZERO,
                ..NetworkSpec::default()
            },
            compute: ComputeSpec {
                rate: FlopsPerSecond(1e9),
                memory: BytesPerSecond(1e9),
                efficiency: BTreeMap::new(),
                straggler: None,
                step_time: None,
                stop_cost: Duration::ZERO,
            },
            own_compute: BTreeMap::new(),
            devices: NonZeroU32::MIN,
            gpus: BTreeMap::new(),
            slow: BTreeMap::new(),
            hosts: None,
            message_thread: None,
            noise: Vec::new(),
        },
        encoding: Encoding::Exact,
        numerics: Numerics::Real,
        seed: 7,
        faults: Faults { silence: ms(100), list: faults.iter().map(fault).collect() },
        timeline: None,
        gauges: None,
        replay: None,
        dates_ahead: None,
    };
    change(&mut cluster);
    World::new(&cluster)
}

fn task(index: usize) -> TaskName {
    TaskName::new("worker", index as u32)
}

fn send(world: &mut World, from: usize, to: usize) {
    world.send(from, 0, to, vec![ParameterServerMessage::TrainingOver { training: 1 }.into()]);
}

/// Begins a sleep that has a waiter.
fn sleep(world: &mut World, task: usize, until: Duration) -> Rc<Alarm> {
    let alarm = world.sleep_until(task, at(until));
    alarm.waker.set(Some(Waker::noop().clone()));
    alarm
}

/// Gives the first device of a task kernels of so many operations, which write nothing.
fn compute(world: &mut World, task: usize, flops: u64) {
    let pending = Pending::Small(Box::new(Nothing));
    let kernels = Box::new(Kernels {
        step: None,
        straggling: Duration::ZERO,
        pending,
        asker: Asker::nobody(),
    });
    let cost = Cost { flops, ..Cost::default() };
    let costs = &Costs::of(KernelKind::Matmul, cost);
    let at_once = world.compute(DeviceOf { task, device: 0 }, None, costs, kernels);
    assert!(at_once.is_none());
}

struct Nothing;

impl Calculation for Nothing {
    fn run(&mut self) {}

    fn done(self: Box<Self>, _: &Asker) {}
}

/// Ticks until there are actions; returns the time and the actions.
fn next(world: &mut World) -> (Duration, Vec<String>) {
    let mut actions = Vec::new();
    for _ in 0..100 {
        world.tick(&mut actions);
        if !actions.is_empty() {
            break;
        }
    }
    let told = actions.into_iter().map(|action| match action {
        Action::Wake(_) => "wake".to_owned(),
        Action::Finish(_) => "finish".to_owned(),
        Action::Deliver { from, to, messages } => format!("{} from {from} to {to}", messages.len()),
        Action::TellLost { observer, peer, loss } => format!("{observer} loses {peer}: {loss}"),
        Action::Kill { task, missed, .. } => format!("kill {task}, which missed {}", missed.len()),
        Action::Command(RunCommand::Start { task }) => format!("start {task}"),
        Action::Command(RunCommand::EndStalled) => "stall".to_owned(),
        Action::Command(command) => format!("{command:?}"),
    });
    (world.now().since(Time::ZERO), told.collect())
}

#[track_caller]
fn assert_next(world: &mut World, at: Duration, actions: &[&str]) {
    assert_eq!(next(world), (at, actions.iter().map(|action| (*action).to_owned()).collect()));
}

#[test]
fn a_tick_moves_the_clock_to_the_next_event_and_without_one_reports_a_stall() {
    let mut world = world(&[]);
    sleep(&mut world, A, ms(2));
    send(&mut world, A, B);
    assert_next(&mut world, LATENCY, &["1 from 0 to 1"]);
    assert_next(&mut world, ms(2), &["wake"]);
    assert_next(&mut world, ms(2), &["stall"]);
    assert_eq!((world.audit.events(), world.deliveries), (2, 1));
}

#[test]
fn a_message_sent_at_the_time_that_a_sleep_ends_is_delivered_after_it() {
    let mut world = world(&[]);
    send(&mut world, A, B);
    sleep(&mut world, B, LATENCY);
    assert_next(&mut world, LATENCY, &["wake"]);
    assert_next(&mut world, LATENCY, &["1 from 0 to 1"]);
}

#[test]
fn a_frozen_task_misses_its_events_and_messages_until_it_thaws() {
    let mut world = world(&[(1, FaultKind::Freeze { task: task(B), lasts: ms(3) })]);
    let alarm = sleep(&mut world, B, ms(2));
    sleep(&mut world, A, ms(2));
    assert_next(&mut world, ms(2), &["wake"]);
    assert!(!alarm.has_rung.get());
    send(&mut world, A, B);
    assert_next(&mut world, ms(4) + LATENCY, &["1 from 0 to 1"]);
    assert_next(&mut world, ms(5), &["wake"]);
    assert!(alarm.has_rung.get());
}

#[test]
fn a_freeze_moves_all_that_its_task_has_under_way_by_its_length() {
    let freeze = |at: u32, lasts| (at, FaultKind::Freeze { task: task(B), lasts: ms(lasts) });
    let mut world = world(&[freeze(1, 3), freeze(6, 10)]);
    sleep(&mut world, B, ms(10));
    compute(&mut world, B, 5_000_000);
    compute(&mut world, B, 1_000_000);
    assert_next(&mut world, ms(5 + 3 + 10), &["finish"]);
    assert_next(&mut world, ms(6 + 3 + 10), &["finish"]);
    assert_next(&mut world, ms(10 + 3 + 10), &["wake"]);
}

#[test]
fn nothing_gets_out_of_a_task_that_has_died_and_nothing_that_it_missed_happens() {
    let crash = FaultKind::Crash { task: task(B), restart_after: None };
    let freeze = FaultKind::Freeze { task: task(B), lasts: ms(50) };
    let mut world = world(&[(1, freeze), (5, crash)]);
    world.connections.note_dialer(A, B);
    let alarm = sleep(&mut world, B, ms(2));
    assert_next(&mut world, ms(5), &["kill 1, which missed 1"]);
    send(&mut world, B, A);
    send(&mut world, A, B);
    assert_next(&mut world, ms(105), &["0 loses 1: it has fallen silent"]);
    assert_next(&mut world, ms(105), &["stall"]);
    assert!(!alarm.has_rung.get());
    assert_eq!(world.traffic[B].total, 0);
}

#[test]
fn a_task_counts_the_silence_of_a_peer_only_while_it_runs_itself() {
    let freeze = |at, who, lasts| (at, FaultKind::Freeze { task: task(who), lasts: ms(lasts) });
    let crash = |at| (at, FaultKind::Crash { task: task(B), restart_after: None });
    let cut = FaultKind::OneWay { from: task(B), to: task(A), lasts: ms(500) };
    for (faults, loses_at) in [
        (vec![crash(5), freeze(6, A, 30)], 5 + 100 + 30),
        (vec![crash(5), freeze(6, A, 300)], 5 + 100 + 300),
        (vec![freeze(1, A, 10), crash(5)], 11 + 100),
        (vec![freeze(5, B, 500), freeze(6, A, 30)], 5 + 100 + 30),
        (vec![freeze(1, A, 10), freeze(5, B, 500)], 11 + 100),
        (vec![freeze(1, A, 10), freeze(5, B, 90), freeze(80, B, 500)], 11 + 100),
        (vec![freeze(1, A, 10), (5, cut)], 11 + 100),
    ] {
        let mut world = world(&faults);
        world.connections.note_dialer(A, B);
        let (at, actions) = std::iter::repeat_with(|| next(&mut world))
            .find(|(_, actions)| actions.iter().any(|one| one.contains(" loses ")))
            .expect("it loses it");
        assert_eq!((at, &*actions[0]), (ms(loses_at), "0 loses 1: it has fallen silent"));
    }
}

#[test]
fn a_message_to_a_task_known_to_be_dead_waits_for_its_next_incarnation() {
    let crash = FaultKind::Crash { task: task(B), restart_after: Some(ms(200)) };
    let mut world = world(&[(5, crash)]);
    world.connections.note_dialer(A, B);
    assert_next(&mut world, ms(5), &["kill 1, which missed 0"]);
    assert_next(&mut world, ms(105), &["0 loses 1: it has fallen silent"]);
    send(&mut world, A, B);
    assert_next(&mut world, ms(205), &["start 1"]);
    assert_eq!(world.begin_incarnation(B), 1);
    world.listens(B);
    assert_next(&mut world, ms(205), &["1 from 0 to 1"]);
}

#[test]
fn a_slow_link_multiplies_the_time_of_a_message() {
    let tasks = vec![task(A), task(B)];
    let mut world = world(&[(0, FaultKind::SlowLink { tasks, factor: 3.0, lasts: ms(10) })]);
    world.tick(&mut Vec::new());
    send(&mut world, A, B);
    assert_next(&mut world, LATENCY * 3, &["1 from 0 to 1"]);
}

#[test]
fn a_slow_link_slows_the_bytes_between_its_tasks_and_not_for_longer_than_it_lasts() {
    let tasks = vec![task(A), task(B)];
    let fault = FaultKind::SlowLink { tasks, factor: 2.0, lasts: ms(10) };
    let mut world = world_of(&[(0, fault)], |cluster| {
        cluster.hardware.network.bandwidth = BytesPerSecond(1e3);
    });
    let size = |world: &World| Duration::from_millis(world.traffic[A].total);
    world.tick(&mut Vec::new());
    send(&mut world, A, B);
    let whole = size(&world);
    // Half of its bytes for as long as the link is slow, then all that it can.
    let expected = ms(10) + (whole - ms(5)) + LATENCY;
    assert_next(&mut world, expected, &["1 from 0 to 1"]);
}

#[test]
fn a_slow_task_takes_its_factor_longer_for_work_that_it_is_given_meanwhile() {
    let mut world = world(&[(1, FaultKind::SlowTask { task: task(A), factor: 4.0, lasts: ms(1) })]);
    compute(&mut world, A, 1_000);
    assert_next(&mut world, Duration::from_nanos(1_000), &["finish"]);
    world.tick(&mut Vec::new());
    compute(&mut world, A, 1_000);
    assert_next(&mut world, ms(1) + Duration::from_nanos(4_000), &["finish"]);
    world.tick(&mut Vec::new());
    compute(&mut world, A, 1_000);
    assert_next(&mut world, ms(2) + Duration::from_nanos(1_000), &["finish"]);
}

#[test]
fn a_slow_task_is_slow_only_while_its_fault_lasts() {
    let slow = |lasts| FaultKind::SlowTask { task: task(A), factor: 100.0, lasts: ms(lasts) };
    let half = Duration::from_micros(500);
    for (begin, lasts, delay) in [(1_000, 50, ms(49) + half), (1_100, 800, ms(792))] {
        let mut world = world(&[(begin, slow(lasts))]);
        for _ in 0..3 {
            compute(&mut world, A, 1_000_000_000);
        }
        assert_next(&mut world, ms(1_000), &["finish"]);
        assert_next(&mut world, ms(2_000) + delay, &["finish"]);
        assert_next(&mut world, ms(3_000) + delay, &["finish"]);
        let took = world.usage(A).of(Activity::Kernels);
        assert_eq!(took, ms(3_000) + delay);
    }
}

#[test]
fn a_task_that_overlapping_faults_have_slowed_is_as_fast_as_before_once_all_have_ended() {
    let slow = |factor, lasts| FaultKind::SlowTask { task: task(A), factor, lasts: ms(lasts) };
    let mut world = world(&[(1, slow(1.1, 4)), (2, slow(1.9, 1)), (2, slow(1e6, 2))]);
    sleep(&mut world, A, ms(6));
    assert_next(&mut world, ms(6), &["wake"]);
    compute(&mut world, A, 1_000_000_000);
    assert_next(&mut world, ms(1_006), &["finish"]);
}

#[test]
fn a_crash_ends_the_time_that_kernels_took() {
    let crash = FaultKind::Crash { task: task(A), restart_after: None };
    let mut world = world(&[(10_000, crash)]);
    for _ in 0..2 {
        compute(&mut world, A, 100_000_000_000);
    }
    assert_next(&mut world, ms(10_000), &["kill 0, which missed 0"]);
    assert_eq!(world.usage(A).of(Activity::Kernels), ms(10_000));
}

#[test]
fn a_slow_task_pays_its_factor_more_for_the_messages_that_it_sends_meanwhile() {
    let slow = FaultKind::SlowTask { task: task(A), factor: 3.0, lasts: ms(5) };
    let mut world = world_of(&[(0, slow)], |cluster| cluster.hardware.network.message_cost = ms(1));
    world.tick(&mut Vec::new());
    send(&mut world, A, B);
    assert_next(&mut world, ms(3) + LATENCY, &["1 from 0 to 1"]);
    world.tick(&mut Vec::new());
    send(&mut world, A, B);
    assert_next(&mut world, ms(6) + LATENCY, &["1 from 0 to 1"]);
}

#[test]
fn a_task_without_a_modelled_message_thread_is_busy_with_the_messages_that_it_has_paid_for() {
    let crash = FaultKind::Crash { task: task(A), restart_after: None };
    let mut world =
        world_of(&[(25, crash)], |cluster| cluster.hardware.network.message_cost = ms(10));
    let sending = |world: &World| world.usage(A).of(Activity::Sending);
    for _ in 0..3 {
        send(&mut world, A, B);
    }
    assert_next(&mut world, ms(10) + LATENCY, &["1 from 0 to 1"]);
    assert_eq!(sending(&world), ms(10) + LATENCY, "it pays for the second");
    assert_next(&mut world, ms(20) + LATENCY, &["1 from 0 to 1"]);
    assert_next(&mut world, ms(25), &["kill 0, which missed 0"]);
    assert_eq!(sending(&world), ms(25), "it died paying for the third");
}
