//! Critical paths: of each training step, the chain of causes that ended last.
//!
//! An event of a simulation begins all that begins before the next event: actors run because of it
//! and take no time. So each piece of work, each envelope's way and each sleep has one cause, the
//! end of another. Followed backwards from the end of a step, the causes leave no gap: their spans
//! add up to the step's time, and each tells who the step waited for then.

use std::collections::{BTreeMap, VecDeque};

use crate::cluster::TaskName;
use crate::units::Time;

use super::network::{Limit, MessageTimes};

/// The number of something that has ended, which is the cause of what began then.
pub(super) type CauseId = u64;

/// The cause of what nothing in the simulation has begun: the start of a program, a fault.
const NOTHING: CauseId = CauseId::MAX;

/// The most records that are kept; a path that goes back further ends with the oldest.
const MOST: usize = 1 << 20;

listed! {
    /// What a span of a critical path was spent on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpanKind {
        /// The task's kernels, as long as they take without straggling.
        Kernels as "kernels",
        /// The time by which its kernels took longer than on average, by the law of straggling, the
        /// scenario's `slow` or a fault.
        Straggling as "straggling",
        /// Its message thread: sending, receiving, operations, and waiting in its line.
        MessageThread as "message thread",
        /// The network card of its host, as it sends, and waiting for it.
        CardOut as "card, sending",
        /// The network card of its host, as it receives, and waiting for it.
        CardIn as "card, receiving",
        /// A link that is no card's: the uplink of a rack, a loopback, the own link of two tasks,
        /// one between the memories of a task's devices.
        Link as "link",
        /// Several cards or links on the way of a message to it, each of which would be the limit
        /// without the others.
        CardsAndLinks as "cards and links together",
        /// The latency of envelopes to it that carry parameters, gradients or other numbers.
        Latency as "latency",
        /// The latency of the other envelopes to it: orders, votes, acknowledgements.
        Coordination as "latency of coordination",
        /// Its sleeps, and what faults delay.
        Other as "sleep or fault",
    }
    const ALL;
    /// What it is called on a timeline.
    pub(super) fn name;
}

/// The number of parts of a task.
const PARTS: usize = SpanKind::ALL.len();

/// The critical paths of the training steps whose gradients were applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPathShares {
    /// The number of these steps.
    pub steps: u64,
    /// By task and part: its share of the time of all steps together. The shares add up
    /// to 1.
    pub shares: BTreeMap<(TaskName, SpanKind), f64>,
    /// The same of a run whose workers don't wait for each other: the shares of each worker's time,
    /// each worker counted by the number of its steps. A slow worker has much of the time of all
    /// steps, and little of what they get done.
    pub shares_of_free_workers: BTreeMap<(TaskName, SpanKind), f64>,
}

/// Something that has ended.
#[derive(Clone, Copy)]
struct Record {
    ended: Time,
    cause: CauseId,
    task: u32,
    part: SpanKind,
}

/// A span of a critical path: it was spent on `part` of `task`.
#[derive(Clone, Copy)]
pub(super) struct Waited {
    pub(super) from: Time,
    pub(super) until: Time,
    pub(super) task: usize,
    pub(super) part: SpanKind,
}

/// The records of what ended lately, and the sum of the critical paths so far.
pub(super) struct History {
    records: VecDeque<Record>,
    /// The number of the first record that is kept.
    first: CauseId,
    /// The one whose effects happen now.
    current: CauseId,
    /// By task: the time since when a step of it can be under way; none if it takes no steps.
    since: Vec<Option<Time>>,
    /// The number of records at which old ones are dropped.
    full: usize,
    /// By task: whether it is a parameter server.
    is_server: Vec<bool>,
    /// By task and then part: the time that steps waited for it \[ns\].
    waits: Vec<f64>,
    /// By task: its steps.
    steps: Vec<StepsOfTask>,
    /// By task: when faults had it stand still, from when until when, in order.
    frozen: Vec<Vec<(Time, Time)>>,
    /// The path of the step that ended last, from its end to its beginning.
    path: Vec<Waited>,
}

/// The training steps of a task.
#[derive(Clone, Default)]
struct StepsOfTask {
    number: u64,
    /// Their length together \[ns\].
    length: f64,
    /// The time that they waited for each part of workers, and for each of parameter servers
    /// \[ns\].
    waits: [[f64; PARTS]; 2],
}

impl History {
    /// The history of `tasks`, of which some take steps, at the beginning of the clock.
    pub(super) fn new(tasks: &[TaskName], trains: impl Fn(&TaskName) -> bool) -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            current: NOTHING,
            since: tasks.iter().map(|task| trains(task).then_some(Time::ZERO)).collect(),
            full: 1 << 12,
            is_server: tasks.iter().map(TaskName::is_parameter_server).collect(),
            waits: vec![0.0; tasks.len() * PARTS],
            steps: vec![StepsOfTask::default(); tasks.len()],
            frozen: vec![Vec::new(); tasks.len()],
            path: Vec::new(),
        }
    }

    /// The cause of whatever begins now.
    pub(super) fn current(&self) -> CauseId {
        self.current
    }

    /// Something that `cause` began ends at `ended`, and is the cause of what follows.
    pub(super) fn end(&mut self, cause: CauseId, ended: Time, task: usize, part: SpanKind) {
        if self.records.len() == MOST {
            self.drop_old(); // no step has ended for long, or none is recorded
        }
        self.current = self.first + self.records.len() as CauseId;
        self.records.push_back(Record { ended, cause, task: task as u32, part });
    }

    /// Something happens to `task` without a cause in the simulation.
    pub(super) fn interfere(&mut self, now: Time, task: usize) {
        self.end(NOTHING, now, task, SpanKind::Other);
    }

    /// Kernels of `task` end, which straggled for the last `straggling` \[ns\].
    pub(super) fn end_kernels(&mut self, cause: CauseId, now: Time, task: usize, straggling: u64) {
        if straggling == 0 {
            return self.end(cause, now, task, SpanKind::Kernels);
        }
        self.end(cause, Time(now.0.saturating_sub(straggling)), task, SpanKind::Kernels);
        self.end(self.current, now, task, SpanKind::Straggling);
    }

    /// An envelope arrives from another task, or from `to` itself.
    pub(super) fn arrive(
        &mut self,
        cause: CauseId,
        now: Time,
        from: usize,
        to: usize,
        times: &MessageTimes,
        has_numbers: bool,
    ) {
        let latency = if has_numbers { SpanKind::Latency } else { SpanKind::Coordination };
        self.end(cause, times.paid, from, SpanKind::MessageThread);
        if times.began > times.paid {
            self.end(self.current, times.began, to, latency);
        }
        if times.left > times.began {
            self.leave(from, to, times);
        }
        if now > times.left {
            self.end(self.current, now, to, latency);
        }
    }

    /// An envelope leaves. What held it back by turns is put one after the other.
    fn leave(&mut self, from: usize, to: usize, times: &MessageTimes) {
        // Faster cards of workers are both ends' among workers, and so are those of servers.
        let is_of_one_job = self.is_server[from] == self.is_server[to];
        let mut until = times.began;
        for (limit, span) in times.held.spans() {
            let (task, part) = match limit {
                Limit::SendingCard => (from, SpanKind::CardOut),
                Limit::ReceivingCard => (to, SpanKind::CardIn),
                Limit::Between => (to, SpanKind::Link),
                Limit::BothCards if is_of_one_job => (from, SpanKind::CardOut),
                Limit::BothCards | Limit::CardAndLink => (to, SpanKind::CardsAndLinks),
            };
            until = Time(until.0 + span).min(times.left);
            self.end(self.current, until, task, part);
        }
    }

    /// A training step of `task` ends now, which began at `started`. It counts if its gradient was
    /// applied. Returns its path, from its end to its beginning.
    pub(super) fn end_step(
        &mut self,
        task: usize,
        started: Time,
        now: Time,
        counts: bool,
    ) -> &[Waited] {
        self.follow(started, now);
        if counts && now > started {
            self.count(task, now.since(started).as_nanos() as f64);
        }
        self.since[task] = Some(now);
        if self.records.len() >= self.full {
            self.drop_old();
        }
        &self.path
    }

    /// `task` has stood still `since` then, and goes on now.
    pub(super) fn thaw(&mut self, task: usize, since: Time, now: Time) {
        self.frozen[task].push((since, now));
    }

    /// `task` takes no more steps.
    pub(super) fn retire(&mut self, task: usize) {
        self.since[task] = None;
    }

    /// Follows the path from `started` to `now` that has led to what happens now.
    fn follow(&mut self, started: Time, now: Time) {
        self.path.clear();
        let mut until = now;
        let oldest = Record { ended: started, cause: NOTHING, task: 0, part: SpanKind::Other };
        let mut record = self.get(self.current).unwrap_or(oldest);
        while until > started {
            let cause = self.get(record.cause);
            let began = cause.map_or(started, |cause| cause.ended.clamp(started, until));
            if until > began {
                let (task, part) = (record.task as usize, record.part);
                self.wait(Waited { from: began, until, task, part });
            }
            until = began;
            record = cause.unwrap_or(oldest);
        }
    }

    /// Adds a span to the path. While its task stood still, nothing but the fault was waited for.
    fn wait(&mut self, waited: Waited) {
        let mut until = waited.until;
        let frozen = self.frozen[waited.task].iter().rev();
        for (since, thawed) in frozen.filter(|_| waited.part != SpanKind::Other) {
            let (from, to) = ((*since).max(waited.from), (*thawed).min(until));
            if from < to {
                self.path.extend((to < until).then_some(Waited { from: to, until, ..waited }));
                self.path.push(Waited { from, until: to, part: SpanKind::Other, ..waited });
                until = from;
            }
        }
        let rest = (waited.from < until).then_some(Waited { until, ..waited });
        self.path.extend(rest);
    }

    /// Adds the path of a step of `task` and of `length` \[ns\].
    fn count(&mut self, task: usize, length: f64) {
        let steps = &mut self.steps[task];
        steps.number += 1;
        steps.length += length;
        for Waited { from, until, task, part } in &self.path {
            let (part, span) = (*part as usize, until.since(*from).as_nanos() as f64);
            self.waits[task * PARTS + part] += span;
            steps.waits[usize::from(self.is_server[*task])][part] += span;
        }
    }

    fn get(&self, cause: CauseId) -> Option<Record> {
        let index = cause.checked_sub(self.first)?;
        self.records.get(usize::try_from(index).ok()?).copied()
    }

    /// Drops what ended before any step that can be under way began.
    fn drop_old(&mut self) {
        let since = self.since.iter().flatten().min().copied().unwrap_or(Time::ZERO);
        let is_old = |record: &Record| record.ended < since;
        let old = self.records.iter().take_while(|record| is_old(record)).count();
        let surplus = self.records.len().saturating_sub(MOST / 2);
        let drop = old.max(if self.records.len() >= MOST { surplus } else { 0 });
        self.records.drain(..drop);
        self.first += drop as CauseId;
        self.full = (2 * self.records.len()).clamp(1 << 12, MOST);
    }

    /// The critical paths of the steps so far; `tasks` are the cluster's.
    pub(super) fn paths(&self, tasks: &[TaskName]) -> CriticalPathShares {
        let steps = self.steps.iter().map(|steps| steps.number).sum();
        let length: f64 = self.steps.iter().map(|steps| steps.length).sum();
        let free = self.weights_of_free_workers();
        let (mut shares, mut shares_of_free_workers) = (BTreeMap::new(), BTreeMap::new());
        let waits = self.waits.iter().enumerate().filter(|(_, wait)| **wait > 0.0);
        for (index, wait) in waits {
            let (task, part) = (index / PARTS, index % PARTS);
            let whose = (tasks[task].clone(), SpanKind::ALL[part]);
            let weight = free[usize::from(self.is_server[task])][part];
            shares_of_free_workers.insert(whose.clone(), wait * weight);
            shares.insert(whose, wait / length);
        }
        CriticalPathShares { steps, shares, shares_of_free_workers }
    }

    /// By part of workers and of parameter servers: what a nanosecond that steps waited for it
    /// weighs, on average, where each worker counts by the number of its steps.
    fn weights_of_free_workers(&self) -> [[f64; PARTS]; 2] {
        let number: u64 = self.steps.iter().map(|steps| steps.number).sum();
        let (mut shares, mut waits) = ([[0.0; PARTS]; 2], [[0.0; PARTS]; 2]);
        for steps in self.steps.iter().filter(|steps| steps.number > 0) {
            let weight = steps.number as f64 / number as f64 / steps.length;
            for (of, wait) in steps.waits.iter().flatten().enumerate() {
                shares.as_flattened_mut()[of] += weight * wait;
                waits.as_flattened_mut()[of] += wait;
            }
        }
        for (share, wait) in shares.as_flattened_mut().iter_mut().zip(waits.as_flattened()) {
            *share = if *wait > 0.0 { *share / wait } else { 0.0 };
        }
        shares
    }
}

#[cfg(test)]
mod tests {
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
            ((tasks[OTHERS].clone(), SpanKind::Other), 0.35),
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
}
