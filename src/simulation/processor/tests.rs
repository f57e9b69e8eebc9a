//! Processors by themselves: what runs when, on whose cores, and in which order.

use super::*;
use crate::random::stream;
use crate::simulation::noise::Noise;
use ProcessorUnit::{Device, MessageThread};

fn ns(count: u64) -> Duration {
    Duration::from_nanos(count)
}

/// A piece that is counted as kernels.
fn piece(name: &'static str, span: u64) -> Piece<&'static str> {
    let (span, activity, operations) = (ns(span), Some(Activity::Kernels), Duration::ZERO);
    Piece { span, activity, operations, threads: 1, then: name }
}

/// Advances to the end of all pieces; returns each with its end.
fn rest(processors: &mut Processors<&'static str>) -> Vec<(u64, &'static str)> {
    std::iter::from_fn(|| {
        let now = processors.next_event()?;
        Some((now.0, processors.advance(now).then))
    })
    .collect()
}

/// Two tasks on one host of so many cores.
fn together(cores: u32) -> Processors<&'static str> {
    Processors::new(vec![Layout { host: 0, cpus: 1, gpus: 0, has_lanes: false }; 2], &[cores])
}

#[test]
fn a_part_of_a_processor_does_one_piece_after_another_and_the_parts_go_on_side_by_side() {
    let mut processors = together(4);
    for (unit, name, span) in
        [(MessageThread, "a", 10), (MessageThread, "b", 20), (Device(0), "c", 25)]
    {
        processors.give(Time(100), 0, unit, piece(name, span));
    }
    assert_eq!(rest(&mut processors), [(110, "a"), (125, "c"), (130, "b")]);
    assert_eq!(processors.usage(0).of(Activity::Queueing), Duration::ZERO);
}

#[test]
fn two_tasks_on_one_core_take_twice_as_long_and_on_hosts_of_their_own_as_long_as_alone() {
    let mut shared = together(1);
    let mut apart = Processors::new(
        [0, 1].map(|host| Layout { host, cpus: 1, gpus: 0, has_lanes: false }).into(),
        &[1, 1],
    );
    for processors in [&mut shared, &mut apart] {
        processors.give(Time(0), 0, Device(0), piece("a", 1_000));
        processors.give(Time(0), 1, Device(0), piece("b", 1_000));
    }
    assert_eq!(rest(&mut shared), [(2_000, "a"), (2_000, "b")]);
    assert_eq!(shared.usage(1).of(Activity::Queueing), ns(1_000));
    assert_eq!(rest(&mut apart), [(1_000, "a"), (1_000, "b")]);
}

#[test]
fn a_frozen_task_goes_on_where_it_stopped_and_leaves_its_core_to_others_meanwhile() {
    let mut processors = together(1);
    processors.give(Time(0), 0, MessageThread, piece("a", 100));
    processors.give(Time(0), 0, MessageThread, piece("after a", 10));
    processors.give(Time(0), 1, MessageThread, piece("b", 100));
    processors.freeze(Time(50), 0);
    processors.give(Time(60), 0, Device(0), piece("c", 5));
    assert_eq!(processors.next_event(), Some(Time(125)), "25 shared, 75 alone");
    assert_eq!(processors.advance(Time(125)).then, "b");
    assert_eq!(processors.next_event(), None);
    processors.thaw(Time(1_000), 0, ns(950));
    assert_eq!(rest(&mut processors), [(1_010, "c"), (1_080, "a"), (1_090, "after a")]);
    assert_eq!(processors.usage(0).of(Activity::Queueing), ns(25 + 5 + 5));
}

#[test]
fn what_is_given_ahead_goes_before_all_that_can_wait_and_has_not_begun() {
    let can_wait = |name: &&str| name.starts_with("send");
    let mut processors = together(4);
    processors.give(Time(0), 0, MessageThread, piece("send 1", 100));
    processors.give(Time(0), 0, MessageThread, piece("send 2", 100));
    processors.give_ahead(Time(0), 0, piece("first", 10), can_wait);
    processors.give_ahead(Time(5), 0, piece("second", 10), can_wait);
    assert_eq!(processors.advance(Time(10)).then, "first");
    assert_eq!(processors.advance(Time(20)).then, "second");
    processors.give_ahead(Time(30), 0, piece("third", 10), can_wait);
    processors.give(Time(30), 0, MessageThread, piece("receive", 10));
    processors.give_ahead(Time(30), 0, piece("last", 10), can_wait);
    let open: Vec<&str> = processors.open(Time(30), 0).map(|name| *name).collect();
    assert_eq!(open, ["last", "receive", "send 2", "third"]);
    let ends = [(120, "send 1"), (130, "third"), (230, "send 2"), (240, "receive"), (250, "last")];
    assert_eq!(rest(&mut processors), ends);
    assert_eq!(processors.usage(0).of(Activity::Queueing), Duration::ZERO);
}

#[test]
fn a_frozen_task_can_be_given_work_ahead_of_what_it_has() {
    let mut processors = together(1);
    processors.freeze(Time(0), 0);
    processors.give(Time(0), 0, MessageThread, piece("send", 100));
    processors.give_ahead(Time(0), 0, piece("first", 10), |_| true);
    processors.thaw(Time(50), 0, ns(50));
    assert_eq!(rest(&mut processors), [(60, "first"), (160, "send")]);
}

#[test]
fn what_a_dead_task_was_doing_never_ends() {
    let mut processors = together(1);
    processors.give(Time(0), 0, MessageThread, piece("a", 100));
    processors.give(Time(0), 0, MessageThread, piece("after a", 100));
    processors.give(Time(0), 1, Device(0), piece("b", 100));
    assert_eq!(processors.clear(Time(100), 0), ["a", "after a"]);
    assert_eq!(rest(&mut processors), [(150, "b")]);
    processors.give(Time(200), 0, MessageThread, piece("of its next life", 10));
    assert_eq!(rest(&mut processors), [(210, "of its next life")]);
}

#[test]
fn a_crash_ends_the_time_that_kernels_took() {
    for freezes_first in [false, true] {
        let mut processors = together(4);
        processors.give(Time(0), 0, Device(0), piece("a", 100));
        processors.give(Time(0), 0, Device(0), piece("b", 100));
        processors.give(Time(0), 0, Device(0), piece("never begun", 100));
        assert_eq!(processors.advance(Time(100)).then, "a");
        if freezes_first {
            processors.freeze(Time(140), 0);
        }
        processors.clear(Time(if freezes_first { 170 } else { 140 }), 0);
        assert_eq!(processors.usage(0).of(Activity::Kernels), ns(140), "{freezes_first}");
    }
}

#[test]
fn what_a_crash_cuts_off_on_a_shared_core_has_taken_its_share_of_the_time() {
    let mut processors = together(1);
    for task in [0, 1] {
        processors.give(Time(0), task, Device(0), piece("a", 100));
    }
    processors.clear(Time(60), 0);
    assert_eq!(processors.usage(0).of(Activity::Kernels), ns(30));
    assert_eq!(rest(&mut processors), [(130, "a")]);
}

#[test]
fn a_slow_task_is_slow_only_while_its_fault_lasts() {
    let mut processors = together(4);
    processors.give(Time(0), 0, Device(0), piece("a", 1_000));
    processors.give(Time(0), 0, Device(0), piece("b", 100));
    processors.set_slowdown(Time(200), 0, 100.0);
    processors.set_slowdown(Time(700), 0, 1.0);
    assert_eq!(processors.next_event(), Some(Time(1_000 + 495)), "5 of its 1000 took 500");
    let ended = processors.advance(Time(1_495));
    assert_eq!(ended.slowed, ns(495));
    processors.set_slowdown(Time(1_495), 0, 3.0);
    assert_eq!(rest(&mut processors), [(1_795, "b")], "all of it is slow");
    let usage = processors.usage(0);
    assert_eq!(usage.of(Activity::Kernels), ns(1_795));
    assert_eq!(usage.of(Activity::Queueing), Duration::ZERO);
}

#[test]
fn noise_interrupts_what_runs_on_the_cores_of_a_host_and_no_accelerator() {
    let noise = Noise { every: ns(1_000_000), span: ns(1_000) };
    let noise = Interruptions::new(&[noise], stream(1, &["noise"]));
    let layout = Layout { host: 0, cpus: 1, gpus: 1, has_lanes: false };
    let mut processors = Processors::new(vec![layout], &[4]).with_noise(vec![noise]);
    let mut took = |unit, now| {
        processors.give(Time(now), 0, unit, piece("a", 1_000_000_000));
        rest(&mut processors)[0].0 - now
    };
    assert_eq!(took(Device(1), 0), 1_000_000_000);
    let interrupted = took(Device(0), 2_000_000_000) - 1_000_000_000;
    assert!((900_000..1_100_000).contains(&interrupted), "{interrupted} of some 1000 times 1000");
}

#[test]
fn slow_faults_that_overlap_slow_what_is_left_by_their_product() {
    let mut processors = together(4);
    processors.give(Time(0), 0, MessageThread, piece("a", 100));
    processors.set_slowdown(Time(10), 0, 2.0);
    processors.set_slowdown(Time(30), 0, 6.0);
    processors.set_slowdown(Time(60), 0, 3.0);
    processors.set_slowdown(Time(90), 0, 1.0);
    // 10, then 20 at a half, 30 at a sixth, 30 at a third of its speed, and the rest.
    assert_eq!(rest(&mut processors), [(90 + (100 - 10 - 10 - 5 - 10), "a")]);
}

#[test]
fn tasks_that_share_a_core_with_a_slow_one_are_not_slow_themselves() {
    let mut processors = together(1);
    processors.give(Time(0), 0, Device(0), piece("a", 100));
    processors.give(Time(0), 1, Device(0), piece("b", 100));
    processors.set_slowdown(Time(100), 0, 3.0);
    // Both have had 50; "a" has 150 left of its own, "b" 50.
    assert_eq!(rest(&mut processors), [(200, "b"), (300, "a")]);
    assert_eq!(processors.usage(0).of(Activity::Kernels), ns(200));
    assert_eq!(processors.usage(0).of(Activity::Queueing), ns(100));
}

#[test]
fn a_slow_fault_that_begins_or_ends_during_a_freeze_counts_from_the_thaw_on() {
    let mut processors = together(4);
    processors.give(Time(0), 0, Device(0), piece("a", 100));
    processors.freeze(Time(50), 0);
    processors.set_slowdown(Time(60), 0, 4.0);
    processors.give(Time(70), 0, MessageThread, piece("b", 10));
    processors.set_slowdown(Time(80), 0, 2.0);
    processors.thaw(Time(1_050), 0, ns(1_000));
    assert_eq!(rest(&mut processors), [(1_070, "b"), (1_150, "a")]);
    assert_eq!(processors.usage(0).of(Activity::Queueing), Duration::ZERO);
}

#[test]
fn a_slow_task_copies_between_memories_as_fast_as_others() {
    let mut processors =
        Processors::new(vec![Layout { host: 0, cpus: 1, gpus: 1, has_lanes: false }], &[1]);
    processors.set_slowdown(Time(0), 0, 2.0);
    processors.give(Time(0), 0, Device(1), piece("gpu", 100));
    processors.give(
        Time(0),
        0,
        ProcessorUnit::Link(0),
        Piece { activity: None, ..piece("copy", 100) },
    );
    assert_eq!(rest(&mut processors), [(100, "copy"), (200, "gpu")]);
    assert_eq!(processors.usage(0).of(Activity::Kernels), ns(200));
}

#[test]
fn operations_have_their_share_of_the_time_that_a_piece_takes() {
    let mut processors = together(4);
    let operations = ns(30);
    let piece = || Piece { activity: Some(Activity::Sending), operations, ..piece("a", 100) };
    processors.give(Time(0), 0, MessageThread, piece());
    processors.give(Time(0), 0, MessageThread, piece());
    processors.set_slowdown(Time(0), 0, 2.0);
    processors.advance(Time(200));
    processors.clear(Time(300), 0);
    assert_eq!(processors.usage(0).of(Activity::Operations), ns(60 + 30));
    assert_eq!(processors.usage(0).of(Activity::Sending), ns(140 + 70));
}

#[test]
fn a_message_thread_sleeps_once_it_has_had_nothing_to_do_for_longer_than_its_patience() {
    let mut processors = together(1).that_poll(ns(50), 0.5);
    processors.give(Time(0), 0, MessageThread, piece("a", 100));
    assert!(!processors.wakes(Time(50), 0, WokenBy::Envelope));
    rest(&mut processors);
    assert!(!processors.wakes(Time(150), 0, WokenBy::Envelope));
    processors.give(Time(120), 0, Device(0), piece("b", 100));
    assert!(processors.wakes(Time(130), 0, WokenBy::Envelope), "kernels have its core");
    rest(&mut processors);
    assert!(processors.wakes(Time(151), 0, WokenBy::Envelope));
}

#[test]
fn a_thread_that_gives_work_to_an_accelerator_and_polls_no_more_lets_others_end_earlier() {
    let layout = Layout { host: 0, cpus: 1, gpus: 1, has_lanes: false };
    let mut processors = Processors::new(vec![layout; 2], &[1]).that_poll(ns(1_000), 1.0);
    processors.give(Time(0), 0, MessageThread, piece("a", 0));
    assert_eq!(processors.advance(Time(0)).then, "a");
    processors.give(Time(0), 1, Device(0), piece("b", 100));
    assert_eq!(processors.next_event(), Some(Time(200)), "it shares the core with the poll");
    processors.give(Time(60), 0, Device(1), piece("gpu", 500));
    assert_eq!(rest(&mut processors), [(130, "b"), (560, "gpu")]);
}

#[test]
fn a_piece_that_takes_no_time_ends_at_once_and_in_its_turn() {
    let mut processors = together(1);
    processors.give(Time(7), 0, MessageThread, piece("a", 0));
    processors.give(Time(7), 0, MessageThread, piece("b", 0));
    assert_eq!(rest(&mut processors), [(7, "a"), (7, "b")]);
}

#[test]
fn a_piece_that_is_cut_short_ends_after_the_cost_of_that_and_those_behind_it_take_no_time() {
    let mut processors = together(4);
    for (name, span) in [("given up", 100), ("given up", 100), ("kept", 30)] {
        processors.give(Time(0), 0, Device(0), piece(name, span));
    }
    let piece_of_thread = Piece { activity: Some(Activity::Sending), ..piece("given up", 200) };
    processors.give(Time(0), 0, MessageThread, piece_of_thread);
    processors.cut_short(Time(40), 0, ns(5), |name| *name == "given up", || "nothing");
    let ends = [(45, "nothing"), (45, "nothing"), (75, "kept"), (200, "nothing")];
    assert_eq!(rest(&mut processors), ends);
    assert_eq!(processors.usage(0).of(Activity::Kernels), ns(45 + 30));
    assert_eq!(processors.usage(0).of(Activity::Sending), ns(200));
    processors.give(Time(300), 0, Device(0), piece("given up", 10));
    processors.cut_short(Time(305), 0, ns(50), |_| true, || "nothing");
    assert_eq!(rest(&mut processors), [(310, "nothing")], "it ends no later than it would have");
}

#[test]
fn accelerators_and_their_links_take_nothing_of_the_cores_and_go_on_side_by_side() {
    let layout = Layout { host: 0, cpus: 1, gpus: 2, has_lanes: false };
    let mut processors = Processors::new(vec![layout], &[1]);
    let pieces = [
        (Device(0), "cpu"),
        (Device(1), "gpu 0"),
        (Device(2), "gpu 1"),
        (ProcessorUnit::Link(0), "copy"),
        (ProcessorUnit::Link(LINKS), "copy of gpu 1"),
    ];
    for (unit, name) in pieces {
        processors.give(Time(0), 0, unit, piece(name, 100));
    }
    processors.give(Time(0), 0, ProcessorUnit::Link(0), piece("its second", 50));
    let ends = rest(&mut processors);
    let expected = pieces.map(|(_, name)| (100, name)).into_iter().chain([(150, "its second")]);
    assert_eq!(ends, expected.collect::<Vec<_>>());
}

#[test]
fn a_frozen_task_stops_its_accelerators_and_its_copies() {
    let mut processors =
        Processors::new(vec![Layout { host: 0, cpus: 1, gpus: 1, has_lanes: false }], &[1]);
    processors.give(Time(0), 0, Device(1), piece("gpu", 100));
    processors.give(Time(0), 0, ProcessorUnit::Link(2), piece("copy", 30));
    processors.freeze(Time(20), 0);
    assert_eq!(processors.next_event(), None);
    processors.thaw(Time(1020), 0, ns(1000));
    assert_eq!(rest(&mut processors), [(1030, "copy"), (1100, "gpu")]);
}
