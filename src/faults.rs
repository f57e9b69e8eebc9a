//! The faults of a run, each with its time: a simulation has its own effects of them, a launch
//! inflicts them on processes.

use std::time::Duration;

use crate::cluster::TaskName;
use crate::units::Time;

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The moment at which the fault begins.
    pub at: Trigger,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// A fault of a run that did not happen.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedFault {
    /// The fault.
    pub fault: Fault,
    /// Why it did not happen.
    pub why: SkipReason,
}

/// The moment at which a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At this time.
    Time(Time),
    /// At this time, which the law of a fault that comes again and again has drawn.
    Drawn(Time),
    /// Just before this envelope of the run is handed over; envelopes are counted from 0 in the
    /// order of their arrivals.
    Delivery(u64),
    /// After this many events of the run, before the next one.
    Event(u64),
}

impl Trigger {
    /// The time at which the fault begins, if that is given.
    pub(crate) fn time(self) -> Option<Time> {
        match self {
            Self::Time(at) | Self::Drawn(at) => Some(at),
            Self::Delivery(_) | Self::Event(_) => None,
        }
    }

    fn is_drawn(self) -> bool {
        matches!(self, Self::Drawn(_))
    }
}

impl SkippedFault {
    /// Whether a law has drawn it for a time at which there was nothing that it could happen to:
    /// a law draws on whatever the run does, so nobody misses it.
    pub(crate) fn is_by_chance(&self) -> bool {
        use SkipReason::{NoCheckpoint, NotRunning, RunEnded};
        self.fault.at.is_drawn() && matches!(self.why, RunEnded | NotRunning | NoCheckpoint)
    }

    /// Whether a law has drawn both it and the `other`, of the same kind, skipped for the same
    /// reason.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        let are_drawn = self.fault.at.is_drawn() && other.fault.at.is_drawn();
        are_drawn && self.fault.kind == other.fault.kind && self.why == other.why
    }
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A task dies, with its program, its actors and their state; messages under way to it and
    /// from it are lost. Skipped if the task's program has returned.
    Crash {
        /// The task.
        task: TaskName,
        /// The time after which it starts again, without any state; `None` for never.
        restart_after: Option<Duration>,
    },
    /// A task is asked to stop, as by SIGTERM: it ends after the step that is under way, and the
    /// chief saves a checkpoint; it is killed if it has not ended after ten seconds. A parameter
    /// server ends the training, and with it the other tasks. A second request ends the task at
    /// once, as a crash does. Skipped if the task's program has returned.
    Stop {
        /// The task.
        task: TaskName,
        /// The time from the end of the task until it starts again, and with it the tasks that it
        /// has ended; `None` for never.
        restart_after: Option<Duration>,
    },
    /// A task stops, as a machine does that is paused: its processor, its network card and its
    /// timers stand still. What was under way goes on where it stopped when the fault ends.
    Freeze {
        /// The task.
        task: TaskName,
        /// The duration of the freeze.
        lasts: Duration,
    },
    /// No messages get through between any two of these tasks. They are resent until they do, or
    /// until the two tasks count each other as lost.
    Partition {
        /// The tasks.
        tasks: Vec<TaskName>,
        /// The duration of the partition.
        lasts: Duration,
    },
    /// No messages get through from one task to another, while those of the other do. They are
    /// resent until they do, or until the receiver counts the sender as lost; it then can't
    /// connect to the sender either.
    OneWay {
        /// The task whose messages do not get through.
        from: TaskName,
        /// The task that does not get them.
        to: TaskName,
        /// The duration of the partition.
        lasts: Duration,
    },
    /// Packets between any two of these tasks are lost by chance, and sent again: messages are
    /// late. Small ones of a pair stay in order; a large one, which has a stream of its own, comes
    /// when it comes.
    Loss {
        /// The tasks.
        tasks: Vec<TaskName>,
        /// The chance that a message is late, and that sending it again is in vain; below 1.
        rate: f64,
        /// The duration of the losses.
        lasts: Duration,
    },
    /// The latency between any two of these tasks is `factor` times as long, and their network
    /// cards are as much slower.
    SlowLink {
        /// The tasks.
        tasks: Vec<TaskName>,
        /// The factor, at least 1.
        factor: f64,
        /// The duration of the slowness.
        lasts: Duration,
    },
    /// The message thread and the devices of a task take `factor` times as long for what they do
    /// during the fault; what they are doing at its beginning or end is slow for the rest, or no
    /// longer.
    SlowTask {
        /// The task.
        task: TaskName,
        /// The factor.
        factor: f64,
        /// The duration of the slowness.
        lasts: Duration,
    },
    /// The disk that the run's checkpoints are written to is full: they can be read and deleted,
    /// not written.
    FullDisk {
        /// The duration until there is room again.
        lasts: Duration,
    },
    /// The shard file that was written last, of the run's checkpoints, is damaged.
    TornCheckpoint {
        /// The kind of damage.
        damage: Damage,
    },
}

/// What a fault says beside its kind: the tasks, times and numbers that its kind has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FaultDetails {
    /// All tasks that it names.
    pub(crate) tasks: Vec<TaskName>,
    pub(crate) restart_after: Option<Duration>,
    pub(crate) lasts: Option<Duration>,
    pub(crate) rate: Option<f64>,
    pub(crate) factor: Option<f64>,
    pub(crate) damage: Option<Damage>,
}

impl FaultKind {
    /// What it says beside its kind.
    pub(crate) fn details(&self) -> FaultDetails {
        let none = FaultDetails::default();
        match self.clone() {
            Self::Crash { task, restart_after } | Self::Stop { task, restart_after } => {
                FaultDetails { tasks: vec![task], restart_after, ..none }
            }
            Self::Freeze { task, lasts } => {
                FaultDetails { tasks: vec![task], lasts: Some(lasts), ..none }
            }
            Self::Partition { tasks, lasts } => FaultDetails { tasks, lasts: Some(lasts), ..none },
            Self::OneWay { from, to, lasts } => {
                FaultDetails { tasks: vec![from, to], lasts: Some(lasts), ..none }
            }
            Self::Loss { tasks, rate, lasts } => {
                FaultDetails { tasks, rate: Some(rate), lasts: Some(lasts), ..none }
            }
            Self::SlowLink { tasks, factor, lasts } => {
                FaultDetails { tasks, factor: Some(factor), lasts: Some(lasts), ..none }
            }
            Self::SlowTask { task, factor, lasts } => {
                let (tasks, factor) = (vec![task], Some(factor));
                FaultDetails { tasks, factor, lasts: Some(lasts), ..none }
            }
            Self::FullDisk { lasts } => FaultDetails { lasts: Some(lasts), ..none },
            Self::TornCheckpoint { damage } => FaultDetails { damage: Some(damage), ..none },
        }
    }

    /// The tasks that it names; none of a fault of the disk.
    pub(crate) fn tasks(&self) -> Vec<TaskName> {
        self.details().tasks
    }

    /// The directed links that it disturbs, as sender and receiver; empty unless it is a fault of
    /// the network.
    pub(crate) fn ways(&self) -> Vec<(TaskName, TaskName)> {
        if let Self::OneWay { from, to, .. } = self {
            return vec![(from.clone(), to.clone())];
        }
        let (tasks, mut ways) = (self.tasks(), Vec::new());
        for (position, one) in tasks.iter().enumerate() {
            for other in &tasks[position + 1..] {
                ways.extend([(other.clone(), one.clone()), (one.clone(), other.clone())]);
            }
        }
        ways
    }

    /// The time from its beginning until the same can befall the same again; none if a task does
    /// not come back.
    pub(crate) fn span(&self) -> Option<Duration> {
        let FaultDetails { lasts, restart_after, damage, .. } = self.details();
        lasts.or(restart_after).or(damage.map(|_| Duration::ZERO))
    }
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its second half is missing.
    Cut,
    /// The byte in its middle is another.
    Changed,
}

impl Damage {
    /// Damages a file's `bytes`.
    pub(crate) fn apply(self, bytes: &mut Vec<u8>) {
        let middle = bytes.len() / 2;
        match self {
            Self::Cut => bytes.truncate(middle),
            Self::Changed => {
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 1;
                }
            }
        }
    }
}

/// Why a fault did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// The run had ended before.
    #[error("the run had ended before")]
    RunEnded,
    /// The task was down, or its program had returned.
    #[error("the task was not running")]
    NotRunning,
    /// There was no checkpoint to damage.
    #[error("there was no checkpoint yet")]
    NoCheckpoint,
    /// The checkpoints of a launch are in an object store.
    #[error("the checkpoints are in no folder")]
    NoFolder,
    /// Only a simulation has this fault.
    #[error("a launch can't inflict it on processes")]
    OnlySimulated,
    /// The tasks of the run were started one by one.
    #[error("only `sim` and `launch` inflict faults")]
    NobodyInflicts,
    /// The system of a launch refused to read or write the checkpoint.
    #[error("the checkpoint could not be damaged")]
    DamageFailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_half_a_file_or_another_byte_even_of_an_empty_one() {
        let after = |damage: Damage, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            damage.apply(&mut bytes);
            bytes
        };
        assert_eq!(after(Damage::Cut, &[1, 2, 3, 4]), [1, 2]);
        assert_eq!(after(Damage::Changed, &[1, 2, 3, 4]), [1, 2, 2, 4]);
        assert!(after(Damage::Changed, &[]).is_empty() && after(Damage::Cut, &[]).is_empty());
    }
}
