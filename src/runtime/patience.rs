//! The limits of a task's waits for others, and of the waits that it logs.

use std::time::Duration;

/// The length of a wait that is worth a line in the log, and the interval of such lines.
pub(crate) const NOTICE: Duration = Duration::from_secs(10);
/// The time that a task which was asked to stop has for an end in good order.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);
/// The time limit for sending the last messages of a task whose program has returned.
pub(crate) const FLUSH: Duration = Duration::from_secs(5);
/// The same after the task has failed, or was interrupted, or where no other was ever there.
pub(crate) const FLUSH_FAILED: Duration = Duration::from_millis(500);

/// How long a task waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For those that have never come.
    pub first: Duration,
    /// For those that were lost, to come back.
    pub recovery: Duration,
    /// For the end of an operation of a training's session, such as a step.
    pub operation: Duration,
}

impl Patience {
    /// The limit for a task that has never come, as a multiple of that for a lost one: it may still
    /// have to be started.
    const FIRST: u32 = 5;
    /// The least limit of an operation: far longer than most steps.
    const OPERATION: Duration = Duration::from_secs(300);

    /// The patience of a training in which a lost task has `recovery` to come back.
    pub fn new(recovery: Duration) -> Self {
        let first = recovery.saturating_mul(Self::FIRST);
        // A step may wait for a task that has yet to come.
        Self { first, recovery, operation: first.max(Self::OPERATION) }
    }
}

impl Default for Patience {
    /// A minute to come back, five to come.
    fn default() -> Self {
        Self::new(Duration::from_secs(60))
    }
}
