//! The faults that a simulation is given, each with its time. `fault_injector` decides their
//! effects.

use std::time::Duration;

use crate::cluster::TaskName;
use crate::units::Time;

pub use crate::faults::{Damage, SkipReason};

/// The faults of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The time that a peer may be silent before it counts as lost.
    pub silence: Duration,
    /// The faults.
    pub list: Vec<Fault>,
}

impl Faults {
    /// The default of [`Faults::silence`].
    pub const SILENCE: Duration = Duration::from_secs(1);

    /// No faults.
    pub const fn none() -> Self {
        Self { silence: Self::SILENCE, list: Vec::new() }
    }
}

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
    /// Just before this envelope of the run is handed over; envelopes are counted from 0 in the
    /// order of their arrivals.
    Delivery(u64),
    /// After this many events of the run, before the next one.
    Event(u64),
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A task dies, with its program, its actors and their state; messages under way to it and
    /// from it are lost. Skipped if the task's program has returned.
    Crash {
        /// The task.
        task: TaskName,
        /// The time after which it starts again, without any state; `None` for never.
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
        /// What is wrong with it.
        damage: Damage,
    },
}

impl FaultKind {
    /// The first task that it happens to; none of a fault of the disk.
    pub(super) fn task(&self) -> Option<&TaskName> {
        match self {
            Self::Crash { task, .. } | Self::Freeze { task, .. } | Self::SlowTask { task, .. } => {
                Some(task)
            }
            Self::Partition { tasks, .. }
            | Self::Loss { tasks, .. }
            | Self::SlowLink { tasks, .. } => tasks.first(),
            Self::OneWay { from, .. } => Some(from),
            Self::FullDisk { .. } | Self::TornCheckpoint { .. } => None,
        }
    }
}
