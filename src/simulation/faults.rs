//! Faults: what goes wrong in a simulation, and when. What comes of it is in `misfortune`.

use std::time::Duration;

use crate::cluster::TaskName;
use crate::units::Time;

/// What goes wrong in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// How long a peer may not be heard of before it counts as lost.
    pub silence: Duration,
    /// The faults.
    pub list: Vec<Fault>,
}

impl Faults {
    /// How long a peer may be silent where nobody says.
    pub const SILENCE: Duration = Duration::from_secs(1);

    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self { silence: Self::SILENCE, list: Vec::new() }
    }
}

/// Something goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Moment,
    /// What.
    pub what: Misfortune,
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At this time.
    Time(Time),
    /// When this envelope of the run, counted from 0 in the order of their arrivals, is about to be
    /// handed over.
    Delivery(u64),
    /// When so many events of the run have happened, before the next one.
    Event(u64),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfortune {
    /// A task dies: its program, its actors and all that they hold are gone, and what is under way
    /// to it and from it is lost. A task whose program has returned is spared.
    Crash {
        /// Which.
        task: TaskName,
        /// It is started anew after this time, knowing nothing; never, where there is none.
        restart_after: Option<Duration>,
    },
    /// A task stands still, as a process does that is stopped by SIGSTOP: nothing of it runs, it
    /// takes nothing.
    Freeze {
        /// Which.
        task: TaskName,
        /// For how long.
        lasts: Duration,
    },
    /// Nothing gets through between any two of these tasks; it is sent again until it does, or they
    /// lose each other.
    Partition {
        /// Which.
        tasks: Vec<TaskName>,
        /// For how long.
        lasts: Duration,
    },
    /// What goes between any two of these tasks takes so many times as long.
    SlowLink {
        /// Which.
        tasks: Vec<TaskName>,
        /// How many times: at least 1.
        factor: f64,
        /// For how long.
        lasts: Duration,
    },
    /// The devices of a task take so many times as long for what they are given.
    SlowTask {
        /// Which.
        task: TaskName,
        /// How many times.
        factor: f64,
        /// For how long.
        lasts: Duration,
    },
}
