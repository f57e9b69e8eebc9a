//! The options of a run: its time limit, and how much of it is recorded.

use std::time::Duration;

/// How much of a run is recorded (TensorFlow: `RunOptions.TraceLevel`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceLevel {
    /// Nothing.
    #[default]
    None,
    /// When each of its operations ran, on which device.
    Full,
}

/// The options of a run (TensorFlow: `RunOptions`). The options of several hooks are merged: the
/// longest time, the fullest trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The run's time limit, if it has one of its own; otherwise the session's applies.
    pub timeout: Option<Duration>,
    /// How much of the run is recorded.
    pub trace: TraceLevel,
}

impl RunOptions {
    /// The longer time and the fuller trace of the two.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self { timeout: self.timeout.max(other.timeout), trace: self.trace.max(other.trace) }
    }
}
