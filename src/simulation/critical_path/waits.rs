//! What training steps waited for, by task and part: the sums over their critical paths.

use std::collections::BTreeMap;
use std::time::Duration;

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

/// The sums over the critical paths of the steps so far.
pub(super) struct Waits {
    /// By task: whether it is a parameter server.
    pub(super) is_server: Vec<bool>,
    /// By task and part: the time that steps waited for it \[ns\].
    waits: Vec<[f64; PARTS]>,
    /// By task: its steps.
    steps: Vec<StepsOfTask>,
}

/// The training steps of a task.
#[derive(Clone, Default)]
struct StepsOfTask {
    number: u64,
    /// Their length together \[ns\].
    length: f64,
    /// The time that they waited by part, for workers and for parameter servers \[ns\].
    waits: [[f64; PARTS]; 2],
}

impl Waits {
    /// No steps yet of any of `tasks`.
    pub(super) fn new(tasks: &[TaskName]) -> Self {
        Self {
            is_server: tasks.iter().map(TaskName::is_parameter_server).collect(),
            waits: vec![[0.0; PARTS]; tasks.len()],
            steps: vec![StepsOfTask::default(); tasks.len()],
        }
    }

    /// Adds the `path` of a step of `task`, which took `length`.
    pub(super) fn add(&mut self, task: usize, length: Duration, path: &[Waited]) {
        let steps = &mut self.steps[task];
        steps.number += 1;
        steps.length += length.as_nanos() as f64;
        for Waited { from, until, task, part } in path {
            let (part, span) = (*part as usize, until.since(*from).as_nanos() as f64);
            self.waits[*task][part] += span;
            steps.waits[usize::from(self.is_server[*task])][part] += span;
        }
    }

    /// The shares of these sums; `tasks` are the cluster's.
    pub(super) fn shares(&self, tasks: &[TaskName]) -> CriticalPathShares {
        let steps = self.steps.iter().map(|steps| steps.number).sum();
        let length: f64 = self.steps.iter().map(|steps| steps.length).sum();
        let free = self.weights_of_free_workers();
        let (mut shares, mut shares_of_free_workers) = (BTreeMap::new(), BTreeMap::new());
        for (task, waits) in self.waits.iter().enumerate() {
            let weights = free[usize::from(self.is_server[task])];
            let waits = SpanKind::ALL.iter().zip(waits).zip(weights);
            for ((part, wait), weight) in waits.filter(|((_, wait), _)| **wait > 0.0) {
                let whose = (tasks[task].clone(), *part);
                shares_of_free_workers.insert(whose.clone(), wait * weight);
                shares.insert(whose, wait / length);
            }
        }
        CriticalPathShares { steps, shares, shares_of_free_workers }
    }

    /// By part, for workers and for parameter servers: what a nanosecond that steps waited weighs
    /// on average, where each worker counts by the number of its steps.
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
