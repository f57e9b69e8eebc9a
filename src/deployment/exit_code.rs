//! The exit codes, by which a launcher, scripts and schedulers know how a process ended. Codes from
//! 128 on mean: try again.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Done.
    Done = 0,
    /// A bug of this program, or of the machine it runs on.
    Internal = 1,
    /// The arguments or the scenario are wrong. Also clap's.
    Usage = 2,
    /// A run ended before it reached its target.
    TargetNotReached = 3,
    /// The scenario has no run.
    NothingToRun = 4,
    /// A repeat with the same seed gave another result.
    RepeatDiffered = 5,
    /// Nothing could happen any more, but the program had not finished.
    Stalled = 6,
    /// A run diverged: its loss is not finite.
    Diverged = 7,
    /// Stopped by Ctrl-C, in good order.
    Interrupted = 130,
    /// Peers are lost; restart this task.
    PeersLost = 138,
    /// Stopped by SIGTERM, in good order.
    Terminated = 143,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
