//! Hosts and message threads: the machines that tasks share, and what messages cost a task.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::cluster::TaskName;
use crate::transport::lanes_of;
use crate::units::{Bytes, SecondsPerByte};

/// The machines that tasks share. Tasks on one host share its cores; those that are not listed have
/// a host each.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    /// The tasks of each host; no task is on two.
    pub tasks: Vec<Vec<TaskName>>,
    /// The number of cores of each host.
    pub cores: NonZeroU32,
}

/// What a task's message thread costs: one thread that runs the actors, sends and receives.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageThread {
    /// The cost of sending an envelope; its first byte leaves after that.
    pub send: MessageCost,
    /// The cost of receiving an envelope, between its arrival and the actors.
    pub receive: MessageCost,
    /// The time that the thread takes to wake up, if it slept when something arrives or kernels
    /// end.
    pub wake: Duration,
    /// The time without anything to do after which the thread sleeps.
    pub patience: Duration,
    /// The share that a thread without anything to do takes of the cores, before it sleeps, of what
    /// a thread that works takes: it polls for messages.
    pub polling: f64,
    /// The share of their speed that cores have while more threads run on them than there are
    /// cores: these take turns, and find their caches cold.
    pub crowded: f64,
    /// The cost of an operation of a graph, beside its kernel.
    pub operation: Duration,
    /// The cost of giving kernels to the cores and hearing of their end, half of it each.
    pub hand_over: Duration,
    /// Whether the thread handles all that has arrived before it sends, and then sends waiting
    /// small envelopes to one task as one.
    pub gathers: bool,
    /// The threads that carry large envelopes in its place.
    pub lanes: Option<Lanes>,
}

/// The threads that carry the bytes of large envelopes. A deployed task has as many as
/// [`QuicConfig::lanes`](crate::transport::QuicConfig::lanes) says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lanes {
    /// Their number, where a task has the cores for them.
    pub threads: NonZeroU32,
    /// How many times as fast as the message thread they are together.
    pub speed_up: f64,
}

/// The cost of an envelope to one of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageCost {
    /// The cost of any envelope.
    pub fixed: Duration,
    /// The cost of each of its bytes.
    pub per_byte: SecondsPerByte,
}

impl MessageThread {
    /// A thread to which only sending costs something, the same for each envelope.
    pub fn sending_costs(fixed: Duration) -> Self {
        Self {
            send: MessageCost { fixed, ..MessageCost::default() },
            receive: MessageCost::default(),
            wake: Duration::ZERO,
            patience: Duration::ZERO,
            polling: 0.0,
            crowded: 1.0,
            operation: Duration::ZERO,
            hand_over: Duration::ZERO,
            gathers: false,
            lanes: None,
        }
    }
}

impl Lanes {
    /// The lanes of a task whose kernels have so many threads; none if these are few.
    pub(super) fn of_threads(self, threads: u32) -> Option<Self> {
        self.at_most(lanes_of(threads as usize) as u32)
    }

    /// At most `count` of them; none if that is 0.
    pub(crate) fn at_most(self, count: u32) -> Option<Self> {
        let count = NonZeroU32::new(count.min(self.threads.get()))?;
        // Each adds the same to the message thread's speed.
        let share = f64::from(count.get()) / f64::from(self.threads.get());
        Some(Self { threads: count, speed_up: 1.0 + (self.speed_up - 1.0) * share })
    }
}

impl MessageCost {
    /// The cost of the bytes of an envelope of `size`, beside the fixed one.
    pub(super) fn of_bytes(self, size: Bytes) -> Duration {
        Duration::from_nanos((size.0 as f64 * self.per_byte.0 * 1e9).round() as u64)
    }
}

impl Hosts {
    /// The cores that a task's kernels run on: tasks that share a host share them out, as those of
    /// a launch do.
    pub(super) fn share_of(&self, task: &TaskName) -> u32 {
        let sharing = self.tasks.iter().find(|host| host.contains(task)).map_or(1, Vec::len);
        (self.cores.get() / sharing as u32).max(1)
    }

    /// By task of `tasks`: the number of its host. Hosts are numbered in the order of their first
    /// tasks.
    pub(super) fn numbered(&self, tasks: &[TaskName]) -> Vec<usize> {
        let mut shared: BTreeMap<&TaskName, usize> = BTreeMap::new();
        for (group, members) in self.tasks.iter().enumerate() {
            shared.extend(members.iter().map(|task| (task, group)));
        }
        let (mut numbers, mut hosts) = (BTreeMap::new(), 0);
        let mut host = |task: &TaskName| {
            let mut next = || {
                hosts += 1;
                hosts - 1
            };
            match shared.get(task) {
                Some(group) => *numbers.entry(*group).or_insert_with(next),
                None => next(),
            }
        };
        tasks.iter().map(&mut host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_are_not_listed_have_a_host_each() {
        let tasks: Vec<TaskName> = (0..5).map(|index| TaskName::new("worker", index)).collect();
        let group = |members: &[usize]| members.iter().map(|at| tasks[*at].clone()).collect();
        let cores = NonZeroU32::MIN;
        let hosts = Hosts { tasks: vec![group(&[4, 1]), group(&[2, 3])], cores };
        assert_eq!(hosts.numbered(&tasks), [0, 1, 2, 2, 1]);
    }

    #[test]
    fn fewer_lanes_are_as_much_slower_as_each_of_them_adds_the_same() {
        let four = Lanes { threads: NonZeroU32::new(4).unwrap(), speed_up: 3.0 };
        let two = Lanes { threads: NonZeroU32::new(2).unwrap(), speed_up: 2.0 };
        let of = [0, 2, 4, 8].map(|count| four.at_most(count));
        assert_eq!(of, [None, Some(two), Some(four), Some(four)]);
    }

    #[test]
    fn the_bytes_of_an_envelope_cost_by_their_number() {
        let cost =
            MessageCost { fixed: Duration::from_micros(8), per_byte: SecondsPerByte(0.7e-9) };
        assert_eq!(cost.of_bytes(Bytes(0)), Duration::ZERO);
        assert_eq!(cost.of_bytes(Bytes(1_000_000)), Duration::from_micros(700));
    }
}
