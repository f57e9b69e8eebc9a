//! The steps of a run, each in some 28 bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::transport::wire;
use crate::units::Time;

use super::record::StepStats;

/// The size at which a block of rows is full \[bytes\].
const BLOCK: usize = 1 << 20;

/// Steps in the order in which they were told. Each is kept as its difference from the steps before
/// it, in a fourth of the memory: a training may take thousands a second for hours.
#[derive(Default)]
pub(crate) struct StepLog {
    blocks: Vec<Vec<u8>>,
    len: usize,
    has_local: bool,
    workers: Vec<TaskName>,
    numbers: BTreeMap<TaskName, u32>,
    last: Before,
}

/// A step beside those before it. Times are in ns.
#[derive(Serialize, Deserialize)]
struct Row {
    /// By the number in the log.
    worker: u32,
    /// Since the worker's step before.
    local_steps: i64,
    /// Since the log's step before.
    global_steps: i64,
    /// From the end of the worker's step before to the beginning.
    paused: i64,
    took: i64,
    /// From the beginning to that of the kernels, and the time that these took.
    computed: Option<(i64, i64)>,
    loss: Option<f32>,
    staleness: u64,
    applied: bool,
    is_stopped: bool,
    is_local: bool,
}

/// The steps before one, as far as it is told from them.
#[derive(Clone, Default)]
struct Before {
    global_step: u64,
    /// By the worker's number: the local step and the end of its last step.
    of_worker: Vec<(u64, Time)>,
}

impl StepLog {
    /// Appends a step.
    pub(crate) fn push(&mut self, step: &StepStats) {
        let worker = match self.numbers.get(&step.worker) {
            Some(number) => *number,
            None => self.meet(&step.worker),
        };
        let row = self.last.row(worker, step);
        if self.blocks.last().is_none_or(|block| block.len() >= BLOCK) {
            self.blocks.push(Vec::new());
        }
        let block = self.blocks.last_mut().expect("there is one with room");
        wire::encode(&row, block).expect("memory can be written to");
        self.len += 1;
        self.has_local |= step.is_local;
    }

    /// The number of a worker that has taken no step so far.
    fn meet(&mut self, worker: &TaskName) -> u32 {
        let number = self.workers.len() as u32;
        self.workers.push(worker.clone());
        self.numbers.insert(worker.clone(), number);
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is a step that changed only its worker's own copy.
    pub(crate) fn has_local(&self) -> bool {
        self.has_local
    }

    /// The steps, as they were told.
    pub(crate) fn iter(&self) -> impl Iterator<Item = StepStats> + Clone {
        let mut before = Before::default();
        let rows = self.blocks.iter().flat_map(|block| Rows(block));
        rows.map(move |row| before.step(row, &self.workers))
    }

    /// The steps of `logs`, each of which has its own in the order in which they ended, in that
    /// order; of steps that ended at one time, those of earlier logs come first.
    pub(crate) fn merged<L: Iterator<Item = StepStats>>(logs: impl Iterator<Item = L>) -> Self {
        let mut logs: Vec<_> = logs.map(Iterator::peekable).collect();
        let mut merged = Self::default();
        loop {
            let ends = logs.iter_mut().map(|log| log.peek().map(|step| step.ended));
            let next = ends.enumerate().filter_map(|(at, end)| Some((end?, at))).min();
            let Some((_, at)) = next else { return merged };
            merged.push(&logs[at].next().expect("it was just there"));
        }
    }
}

/// The rows of a block from here on.
#[derive(Clone)]
struct Rows<'a>(&'a [u8]);

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.0.is_empty() {
            return None;
        }
        Some(wire::decode_next(&mut self.0).expect("a row was written there"))
    }
}

impl Before {
    /// The row of `step`, which comes next.
    fn row(&mut self, worker: u32, step: &StepStats) -> Row {
        let own = (step.local_step, step.ended);
        let (local_step, ended) = std::mem::replace(self.of(worker), own);
        let global_step = std::mem::replace(&mut self.global_step, step.global_step);
        let computed = |(from, until): (Time, Time)| {
            (between(step.started.0, from.0), between(from.0, until.0))
        };
        Row {
            worker,
            local_steps: between(local_step, step.local_step),
            global_steps: between(global_step, step.global_step),
            paused: between(ended.0, step.started.0),
            took: between(step.started.0, step.ended.0),
            computed: step.computed.map(computed),
            loss: step.loss,
            staleness: step.staleness,
            applied: step.applied,
            is_stopped: step.is_stopped,
            is_local: step.is_local,
        }
    }

    /// The step of `row`, which comes next.
    fn step(&mut self, row: Row, workers: &[TaskName]) -> StepStats {
        let after = |time: Time, ns: i64| Time(time.0.wrapping_add_signed(ns));
        let last = self.of(row.worker);
        let local_step = last.0.wrapping_add_signed(row.local_steps);
        let started = after(last.1, row.paused);
        let ended = after(started, row.took);
        *last = (local_step, ended);
        self.global_step = self.global_step.wrapping_add_signed(row.global_steps);
        let computed = |(wait, took)| {
            let from = after(started, wait);
            (from, after(from, took))
        };
        StepStats {
            worker: workers[row.worker as usize].clone(),
            local_step,
            global_step: self.global_step,
            started,
            ended,
            computed: row.computed.map(computed),
            loss: row.loss,
            staleness: row.staleness,
            applied: row.applied,
            is_stopped: row.is_stopped,
            is_local: row.is_local,
        }
    }

    /// The last local step of `worker`, and the time of its end.
    fn of(&mut self, worker: u32) -> &mut (u64, Time) {
        let index = worker as usize;
        if self.of_worker.len() <= index {
            self.of_worker.resize(index + 1, (0, Time::ZERO));
        }
        &mut self.of_worker[index]
    }
}

/// The difference that leads from `from` to `to`, wrapping around.
fn between(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_step() -> impl Strategy<Value = StepStats> {
        let times = (any::<u64>(), any::<u64>(), any::<Option<(u64, u64)>>());
        let numbers = (0..3_u32, any::<u64>(), any::<u64>(), any::<u64>());
        let loss = proptest::option::of(prop_oneof![
            any::<f32>().prop_filter("equal to itself", |loss| !loss.is_nan()),
            Just(f32::INFINITY)
        ]);
        (times, numbers, loss, any::<(bool, bool, bool)>()).prop_map(
            |((started, ended, computed), numbers, loss, (applied, is_stopped, is_local))| {
                StepStats {
                    worker: TaskName::new("worker", numbers.0),
                    local_step: numbers.1,
                    global_step: numbers.2,
                    started: Time(started),
                    ended: Time(ended),
                    computed: computed.map(|(from, until)| (Time(from), Time(until))),
                    loss,
                    staleness: numbers.3,
                    applied,
                    is_stopped,
                    is_local,
                }
            },
        )
    }

    fn log(steps: &[StepStats]) -> StepLog {
        let mut log = StepLog::default();
        steps.iter().for_each(|step| log.push(step));
        log
    }

    /// The steps of one of some workers, each `ms` long, one after the other.
    fn steps(worker: u32, ms: u64, number: u64) -> Vec<StepStats> {
        let ns = ms * 1_000_000;
        let step = |n: u64| StepStats {
            computed: Some((Time(n * ns + ns / 3), Time(n * ns + ns / 2))),
            loss: Some(1.0 / n as f32),
            staleness: n % 3,
            ..StepStats::applied(worker, (n, 2 * n), (Time(n * ns), Time((n + 1) * ns)))
        };
        (0..number).map(step).collect()
    }

    proptest! {
        #[test]
        fn a_log_gives_back_any_steps(steps in proptest::collection::vec(any_step(), 0..20)) {
            let log = log(&steps);
            prop_assert_eq!(log.len(), steps.len());
            prop_assert_eq!(log.iter().collect::<Vec<_>>(), steps);
        }
    }

    #[test]
    fn a_log_of_several_blocks_takes_at_most_30_bytes_a_step() {
        let steps = steps(0, 1, 100_000);
        let log = log(&steps);
        assert!(log.blocks.len() > 1);
        let bytes: usize = log.blocks.iter().map(Vec::len).sum();
        assert!(bytes <= 30 * steps.len(), "{} bytes a step", bytes as f64 / steps.len() as f64);
        assert!(log.iter().eq(steps), "blocks follow each other");
    }

    #[test]
    fn merged_logs_are_in_order_of_the_ends_and_then_of_the_logs() {
        let (short, long) = (steps(0, 2, 6), steps(1, 3, 4));
        let mut expected = [&*short, &*long].concat();
        expected.sort_by_key(|step| step.ended);
        let merged = StepLog::merged([short, long].into_iter().map(Vec::into_iter));
        assert_eq!(merged.iter().collect::<Vec<_>>(), expected);
    }
}
