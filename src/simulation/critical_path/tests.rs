//! Paths of a few records, added up by hand.

use std::collections::BTreeMap;

use super::*;
use crate::simulation::network::HeldBack;

const MINE: usize = 0;
const OTHERS: usize = 1;

fn history() -> (History, [TaskName; 2]) {
    let tasks = [TaskName::new("worker", 0), TaskName::new("ps", 0)];
    (History::new(&tasks, TaskName::is_of_workers), tasks)
}

fn times(paid: u64, began: u64, left: u64) -> MessageTimes {
    let (paid, began, left) = (Time(paid), Time(began), Time(left));
    let held = HeldBack::by(Limit::SendingCard, left.0 - began.0);
    MessageTimes { paid, began, left, held }
}

/// The shares of parts, of all tasks together, are `expected`, and no others.
#[track_caller]
fn assert_shares(history: &mut History, tasks: &[TaskName], expected: &[(SpanKind, f64)]) {
    let paths = history.paths(tasks, true);
    let mut shares: BTreeMap<SpanKind, f64> = BTreeMap::new();
    for ((_, part), share) in &paths.shares {
        *shares.entry(*part).or_default() += share;
    }
    assert_eq!(shares.len(), expected.len(), "{paths:?}");
    for (part, expected) in expected {
        assert!((shares[part] - expected).abs() < 1e-9, "{paths:?}");
    }
}

#[test]
fn a_path_leads_over_what_ended_last_and_its_spans_add_up_to_the_lap() {
    let (mut history, tasks) = history();
    history.interfere(Time(100), MINE);
    let start = history.current();
    history.end(start, Time(150), OTHERS, SpanKind::MessageThread);
    history.end_kernels(start, Time(200), MINE, 60);
    history.arrive(history.current(), Time(300), MINE, OTHERS, &times(210, 210, 250), true);
    history.end_step(MINE, Time(100), Time(300), StepEnd::Applied);
    let expected = [
        ((tasks[OTHERS].clone(), SpanKind::Latency), 0.25),
        ((tasks[MINE].clone(), SpanKind::Kernels), 0.2),
        ((tasks[MINE].clone(), SpanKind::Straggling), 0.3),
        ((tasks[MINE].clone(), SpanKind::MessageThread), 0.05),
        ((tasks[MINE].clone(), SpanKind::CardOut), 0.2),
    ];
    let paths = history.paths(&tasks, true);
    assert_eq!((paths.laps, paths.shares), (1, expected.into()));
}

#[test]
fn a_fast_worker_counts_by_its_many_laps_where_none_waits_for_the_other() {
    let tasks = ["worker", "ps", "worker"].map(|job| TaskName::new(job, 0));
    let mut history = History::new(&tasks, TaskName::is_of_workers);
    let mut step = |task: usize, from: u64, span: u64, part| {
        history.interfere(Time(from), task);
        history.end(history.current(), Time(from + span), task, part);
        history.end_step(task, Time(from), Time(from + span), StepEnd::Applied);
    };
    (0..9).for_each(|number| step(0, 10 * number, 10, SpanKind::Latency));
    step(2, 0, 910, SpanKind::Kernels);
    assert_shares(&mut history, &tasks, &[(SpanKind::Kernels, 0.1), (SpanKind::Latency, 0.9)]);
}

#[test]
fn cards_at_both_ends_are_of_one_kind_if_their_tasks_are() {
    let tasks = [("worker", 0), ("ps", 0), ("worker", 1)];
    let tasks = tasks.map(|(job, index)| TaskName::new(job, index));
    let of = |to: usize| {
        let mut history = History::new(&tasks, TaskName::is_of_workers);
        let held = HeldBack::by(Limit::BothCards, 100);
        let times = MessageTimes { held, ..times(0, 0, 100) };
        history.arrive(NOTHING, Time(100), MINE, to, &times, true);
        history.end_step(MINE, Time(0), Time(100), StepEnd::Applied);
        history.paths(&tasks, true).shares
    };
    let both = (tasks[OTHERS].clone(), SpanKind::CardsAndLinks);
    assert_eq!(of(OTHERS), BTreeMap::from([(both, 1.0)]));
    assert_eq!(of(2), BTreeMap::from([((tasks[MINE].clone(), SpanKind::CardOut), 1.0)]));
}

#[test]
fn while_a_task_stands_still_a_fault_is_waited_for() {
    let (mut history, tasks) = history();
    history.interfere(Time(0), MINE);
    for (since, now) in [(Time(20), Time(30)), (Time(60), Time(120))] {
        history.thaw(OTHERS, since, now);
    }
    history.thaw(MINE, Time(130), Time(140)); // another task's
    history.end(history.current(), Time(100), OTHERS, SpanKind::CardIn);
    history.end(history.current(), Time(200), OTHERS, SpanKind::Kernels);
    history.end_step(MINE, Time(0), Time(200), StepEnd::Applied);
    let expected = [(SpanKind::CardIn, 0.25), (SpanKind::Kernels, 0.4), (SpanKind::Fault, 0.35)];
    assert_shares(&mut history, &tasks, &expected);
}

#[test]
fn what_a_lap_waited_for_from_its_beginning_counts_only_from_then() {
    let (mut history, tasks) = history();
    history.end(NOTHING, Time(1_000), OTHERS, SpanKind::Kernels);
    history.end_step(MINE, Time(900), Time(1_000), StepEnd::Applied);
    let expected = BTreeMap::from([((tasks[OTHERS].clone(), SpanKind::Kernels), 1.0)]);
    assert_eq!(history.paths(&tasks, true).shares, expected);
}

#[test]
fn what_is_older_than_all_laps_under_way_is_forgotten() {
    let (mut history, tasks) = history();
    for time in 1..100_000 {
        history.end(history.current(), Time(time), MINE, SpanKind::Kernels);
        if time % 100 == 0 {
            history.end_step(MINE, Time(time - 100), Time(time), StepEnd::Applied);
        }
    }
    assert!(history.records.len() <= 1 << 12, "{}", history.records.len());
    let whole = history.paths(&tasks, true).shares[&(tasks[MINE].clone(), SpanKind::Kernels)];
    assert!((whole - 1.0).abs() < 1e-9, "{whole}");
}

#[test]
fn a_lap_of_a_workers_own_copy_is_all_its_steps_up_to_the_one_that_is_exchanged() {
    let tasks = [TaskName::new("worker", 0), TaskName::new("worker", 1)];
    let mut history = History::new(&tasks, TaskName::is_of_workers);
    history.interfere(Time(0), MINE);
    let start = history.current();
    history.end_kernels(start, Time(10), MINE, 0);
    history.end_step(MINE, Time(0), Time(10), StepEnd::Local);
    history.end_kernels(start, Time(80), OTHERS, 60);
    history.end_step(MINE, Time(10), Time(80), StepEnd::Applied); // it waits for the other's
    assert_shares(&mut history, &tasks, &[(SpanKind::Kernels, 0.25), (SpanKind::Straggling, 0.75)]);
}

#[test]
fn what_a_worker_does_between_two_steps_is_a_pause_also_for_whoever_waits_for_it() {
    let tasks = ["worker", "worker", "ps"].into_iter().zip([0, 1, 0]);
    let tasks: Vec<TaskName> = tasks.map(|(job, index)| TaskName::new(job, index)).collect();
    let mut history = History::new(&tasks, TaskName::is_of_workers);
    history.end(NOTHING, Time(10), MINE, SpanKind::Kernels);
    let start = history.current();
    (0..2).for_each(|task| history.end_step(task, Time(0), Time(10), StepEnd::Applied));
    // The chief evaluates until 30, with a parameter server's help; the other computes until 20.
    history.end(start, Time(20), OTHERS, SpanKind::Kernels);
    history.end(start, Time(25), 2, SpanKind::MessageThread);
    history.end(history.current(), Time(30), MINE, SpanKind::Kernels);
    history.end(history.current(), Time(40), MINE, SpanKind::Kernels);
    history.end_step(OTHERS, Time(10), Time(40), StepEnd::Applied);
    history.end_step(MINE, Time(30), Time(40), StepEnd::Applied);
    assert_shares(&mut history, &tasks, &[(SpanKind::Kernels, 0.5), (SpanKind::Pause, 0.5)]);
}

#[test]
fn a_lap_that_is_longer_than_all_records_counts_as_far_back_as_they_go() {
    let (mut history, tasks) = history();
    history.end(NOTHING, Time(1), OTHERS, SpanKind::CardOut);
    history.end_step(MINE, Time(0), Time(1), StepEnd::Local);
    for time in 0..=MOST as u64 {
        history.end(history.current(), Time(2 + time), MINE, SpanKind::Kernels);
    }
    history.end_step(MINE, Time(1), Time(2 + MOST as u64), StepEnd::Applied);
    assert_shares(&mut history, &tasks, &[(SpanKind::Kernels, 1.0)]);
}
