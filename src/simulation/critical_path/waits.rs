//! What laps of workers waited for, by task and part: the sums over their critical paths.

use std::collections::BTreeMap;

use crate::cluster::TaskName;
use crate::units::Time;

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
        /// What faults delay: messages that they hold back, the news of a lost peer, and the time
        /// in which it stands still.
        Fault as "fault",
        /// Its sleeps.
        Sleep as "sleep",
        /// Whatever was done for a worker between two of its steps: evaluations, checkpoints.
        Pause as "between its steps",
    }
    const ALL;
    /// What it is called on a timeline.
    pub(in crate::simulation) fn name;
}

/// The number of parts of a task.
const PARTS: usize = SpanKind::ALL.len();

/// A span of a critical path: it was spent on `part` of `task`.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct Waited {
    pub(in crate::simulation) from: Time,
    pub(in crate::simulation) until: Time,
    pub(in crate::simulation) task: usize,
    pub(in crate::simulation) part: SpanKind,
}

impl Waited {
    /// Hands on its pieces, the last first, each with whether it is within one of `spans`, which
    /// are in order.
    pub(super) fn divide(self, spans: &[(Time, Time)], mut take: impl FnMut(Self, bool)) {
        let mut until = self.until;
        let before = spans.partition_point(|(from, _)| *from < until);
        for (from, to) in spans[..before].iter().rev() {
            let (from, to) = (self.from.max(*from), until.min(*to));
            if from >= to {
                break;
            }
            if to < until {
                take(Self { from: to, until, ..self }, false);
            }
            take(Self { from, until: to, ..self }, true);
            until = from;
        }
        if self.from < until {
            take(Self { until, ..self }, false);
        }
    }
}

/// The critical paths of a simulation's laps. A worker's lap leads from the end of a step whose
/// result the others have to the end of its next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPathShares {
    /// The number of laps whose results were applied.
    pub laps: u64,
    /// By task and part: its share of the workers' time, where each worker counts by the number of
    /// its laps. The shares add up to 1. Where workers wait for each other, each one's path is the
    /// run's; where they don't, a slow worker has much of the time, and little of what gets done.
    pub shares: BTreeMap<(TaskName, SpanKind), f64>,
}

/// The sums over the critical paths of the laps so far.
pub(super) struct Waits {
    /// By task: whether it is a parameter server.
    pub(super) is_server: Vec<bool>,
    /// By task and part: the time that laps waited for it \[ns\].
    waits: Vec<[f64; PARTS]>,
    /// By task: its laps.
    laps: Vec<LapsOfTask>,
}

/// The laps of a task.
#[derive(Clone, Default)]
struct LapsOfTask {
    number: u64,
    /// Their length together \[ns\].
    length: f64,
    /// The time that they waited by part, for workers and for parameter servers \[ns\].
    waits: [[f64; PARTS]; 2],
}

impl Waits {
    /// No laps yet of any of `tasks`.
    pub(super) fn new(tasks: &[TaskName]) -> Self {
        Self {
            is_server: tasks.iter().map(TaskName::is_parameter_server).collect(),
            waits: vec![[0.0; PARTS]; tasks.len()],
            laps: vec![LapsOfTask::default(); tasks.len()],
        }
    }

    /// Adds the `path` of a lap of `task`.
    pub(super) fn add(&mut self, task: usize, path: &[Waited]) {
        let laps = &mut self.laps[task];
        laps.number += 1;
        for Waited { from, until, task, part } in path {
            let (part, span) = (*part as usize, until.since(*from).as_nanos() as f64);
            self.waits[*task][part] += span;
            laps.waits[usize::from(self.is_server[*task])][part] += span;
            laps.length += span;
        }
    }

    /// The shares of these sums; `tasks` are the cluster's.
    pub(super) fn shares(&self, tasks: &[TaskName]) -> CriticalPathShares {
        let weights = self.weights();
        let mut shares = BTreeMap::new();
        for (task, waits) in self.waits.iter().enumerate() {
            let weights = weights[usize::from(self.is_server[task])];
            for ((part, wait), weight) in SpanKind::ALL.iter().zip(waits).zip(weights) {
                if *wait > 0.0 {
                    shares.insert((tasks[task].clone(), *part), wait * weight);
                }
            }
        }
        CriticalPathShares { laps: self.laps.iter().map(|laps| laps.number).sum(), shares }
    }

    /// By part, for workers and for parameter servers: what a nanosecond that laps waited weighs
    /// on average, where each worker counts by the number of its laps.
    fn weights(&self) -> [[f64; PARTS]; 2] {
        let has_time = |laps: &&LapsOfTask| laps.length > 0.0;
        let number: u64 = self.laps.iter().filter(has_time).map(|laps| laps.number).sum();
        let (mut shares, mut waits) = ([[0.0; PARTS]; 2], [[0.0; PARTS]; 2]);
        for laps in self.laps.iter().filter(has_time) {
            let weight = laps.number as f64 / number as f64 / laps.length;
            for (of, wait) in laps.waits.iter().flatten().enumerate() {
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
