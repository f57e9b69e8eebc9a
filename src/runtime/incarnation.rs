//! The ids of what lives as long as one incarnation of a task.

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Clock;
use crate::cluster::TaskName;

/// What has an id that another incarnation of its task has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Living {
    /// The task's master.
    Master,
    /// The task's client of a master in another process.
    Client,
}

impl Living {
    /// The id of this of `task`, which begins now.
    ///
    /// No other in the cluster has it: a task has one of each kind at a time, and two incarnations
    /// of a task differ in their start times or, where each has a clock of its own that begins at
    /// 0, in the numbers that their clocks drew ([`Clock::birth`]).
    pub(crate) fn id(self, task: &TaskName, clock: &dyn Clock) -> u64 {
        let kind = match self {
            Self::Master => "",
            Self::Client => " client",
        };
        xxh3_64(format!("{task} {} {}{kind}", clock.now().0, clock.birth()).as_bytes())
    }
}
