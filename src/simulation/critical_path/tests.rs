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

#[test]
fn a_path_leads_over_what_ended_last_and_its_spans_add_up_to_the_step() {
    let (mut history, tasks) = history();
    history.interfere(Time(100), MINE);
    let start = history.current();
    history.end(start, Time(150), OTHERS, SpanKind::MessageThread);
    history.end_kernels(start, Time(200), MINE, 60);
    history.arrive(history.current(), Time(300), MINE, OTHERS, &times(210, 210, 250), true);
    history.end_step(MINE, Time(100), Time(300), true);
    let expected = [
        ((tasks[OTHERS].clone(), SpanKind::Latency), 0.25),
        ((tasks[MINE].clone(), SpanKind::Kernels), 0.2),
        ((tasks[MINE].clone(), SpanKind::Straggling), 0.3),
        ((tasks[MINE].clone(), SpanKind::MessageThread), 0.05),
        ((tasks[MINE].clone(), SpanKind::CardOut), 0.2),
    ];
    let paths = history.paths(&tasks);
    assert_eq!((paths.steps, paths.shares), (1, expected.into()));
}

#[test]
fn a_fast_worker_counts_by_its_many_steps_where_none_waits_for_the_other() {
    let tasks = ["worker", "ps", "worker"].map(|job| TaskName::new(job, 0));
    let mut history = History::new(&tasks, TaskName::is_of_workers);
    let mut step = |task: usize, from: u64, span: u64, part| {
        history.interfere(Time(from), task);
        history.end(history.current(), Time(from + span), task, part);
        history.end_step(task, Time(from), Time(from + span), true);
    };
    (0..9).for_each(|number| step(0, 10 * number, 10, SpanKind::Latency));
    step(2, 0, 910, SpanKind::Kernels);
    let paths = history.paths(&tasks);
    let share = |shares: &BTreeMap<(TaskName, SpanKind), f64>, part| -> f64 {
        shares.iter().filter(|((_, of), _)| *of == part).map(|(_, share)| share).sum()
    };
    let kernels = |shares| share(shares, SpanKind::Kernels);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(kernels(&paths.shares), 0.91), "{paths:?}");
    assert!(close(kernels(&paths.shares_of_free_workers), 0.1), "{paths:?}");
    let latency = share(&paths.shares_of_free_workers, SpanKind::Latency);
    assert!(close(latency, 0.9), "{paths:?}");
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
        history.end_step(MINE, Time(0), Time(100), true);
        history.paths(&tasks).shares
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
    history.end_step(MINE, Time(0), Time(200), true);
    let expected = [
        ((tasks[OTHERS].clone(), SpanKind::CardIn), 0.25),
        ((tasks[OTHERS].clone(), SpanKind::Kernels), 0.4),
        ((tasks[OTHERS].clone(), SpanKind::Fault), 0.35),
    ];
    assert_eq!(history.paths(&tasks).shares, BTreeMap::from(expected));
}

#[test]
fn what_a_step_waited_for_from_its_beginning_counts_only_from_then() {
    let (mut history, tasks) = history();
    history.end(NOTHING, Time(1_000), OTHERS, SpanKind::Kernels);
    history.end_step(MINE, Time(900), Time(1_000), true);
    let expected = BTreeMap::from([((tasks[OTHERS].clone(), SpanKind::Kernels), 1.0)]);
    assert_eq!(history.paths(&tasks).shares, expected);
}

#[test]
fn what_is_older_than_all_steps_under_way_is_forgotten() {
    let (mut history, tasks) = history();
    for time in 1..100_000 {
        history.end(history.current(), Time(time), MINE, SpanKind::Kernels);
        if time % 100 == 0 {
            history.end_step(MINE, Time(time - 100), Time(time), true);
        }
    }
    assert!(history.records.len() <= 1 << 12, "{}", history.records.len());
    let whole = history.paths(&tasks).shares[&(tasks[MINE].clone(), SpanKind::Kernels)];
    assert!((whole - 1.0).abs() < 1e-9, "{whole}");
}
