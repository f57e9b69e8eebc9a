//! The exit codes, by which a launcher, scripts and schedulers know how a process ended. The table
//! for users is in `docs/deploying.md`.

use crate::runtime::Code;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// A data set or a checkpoint is corrupt.
    CorruptData = 8,
    /// A result, a log or a checkpoint can't be written, such as to a full disk.
    Unwritable = 9,
    /// A task that was asked for its status does not answer, or no other task of a training does.
    Unanswered = 10,
    /// A certificate is missing, damaged, expired or refused.
    CertificateRefused = 11,
    /// A simulated training was lost to its faults. Started again it is lost again.
    TrainingLost = 12,
    /// A replay does not do what its tapes have.
    ReplayDeparted = 13,
    /// A run is not as `check` was told to expect.
    NotAsExpected = 14,
    /// Stopped by Ctrl-C, in good order.
    Interrupted = 130,
    /// Peers are lost; restart this task.
    PeersLost = 138,
    /// Stopped by SIGTERM or SIGHUP, in good order.
    Terminated = 143,
}

impl ExitCode {
    /// All of them, in order, each with its meaning.
    pub(crate) const ALL: [(Self, &'static str); 18] = [
        (Self::Done, "done"),
        (Self::Internal, "internal error"),
        (Self::Usage, "usage or configuration"),
        (Self::TargetNotReached, "target not reached"),
        (Self::NothingToRun, "nothing to run"),
        (Self::RepeatDiffered, "a repeat differed"),
        (Self::Stalled, "stalled"),
        (Self::Diverged, "a run diverged: its loss is not finite"),
        (Self::CorruptData, "a data set or a checkpoint is corrupt"),
        (Self::Unwritable, "a result or a checkpoint can't be written"),
        (Self::Unanswered, "a task does not answer, or no other does"),
        (Self::CertificateRefused, "a certificate is missing, damaged, expired or refused"),
        (Self::TrainingLost, "a simulated training was lost to its faults"),
        (Self::ReplayDeparted, "a replay departed from its tapes"),
        (Self::NotAsExpected, "a run is not as expected"),
        (Self::Interrupted, "stopped by Ctrl-C, in good order"),
        (Self::PeersLost, "peers lost, restart me"),
        (Self::Terminated, "stopped by SIGTERM or SIGHUP, in good order"),
    ];

    /// The first of the codes that ask for a restart.
    pub(crate) const FIRST_FOR_A_RESTART: i32 = 128;

    /// Whether a process that ended with `code` is to be started again.
    pub(crate) fn asks_for_restart(code: i32) -> bool {
        code >= Self::FIRST_FOR_A_RESTART
    }

    /// Whether a launched task may end with it. The others are of commands, and of a task only if
    /// its program ends by an exit code of its own.
    pub(crate) fn is_of_tasks(self) -> bool {
        !matches!(
            self,
            Self::TargetNotReached
                | Self::NothingToRun
                | Self::RepeatDiffered
                | Self::TrainingLost
                | Self::ReplayDeparted
                | Self::NotAsExpected
        )
    }

    /// The exit code of this number, if there is one.
    pub(crate) fn of(number: i32) -> Option<Self> {
        Self::ALL.iter().map(|(code, _)| *code).find(|code| *code as i32 == number)
    }

    /// The exit code of a deployed task whose program failed with `code`. Only a task that lost
    /// others is to be started again.
    pub(crate) fn of_task(code: Code) -> Self {
        match Self::of_simulation(code) {
            Self::TrainingLost => Self::PeersLost,
            other => other,
        }
    }

    /// The exit code of a simulation that failed with `code`.
    pub(crate) fn of_simulation(code: Code) -> Self {
        match code {
            Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::ResourceExhausted => Self::Usage,
            Code::NanLoss => Self::Diverged,
            Code::Stalled => Self::Stalled,
            Code::Departed => Self::ReplayDeparted,
            Code::Unavailable
            | Code::Aborted
            | Code::DeadlineExceeded
            | Code::VariablesLost
            | Code::WorkersLeft => Self::TrainingLost,
            Code::Unanswered => Self::Unanswered,
            Code::DataLoss => Self::CorruptData,
            Code::Unwritable => Self::Unwritable,
            Code::Unauthenticated => Self::CertificateRefused,
            Code::Cancelled | Code::Late | Code::OutOfRange | Code::Internal => Self::Internal,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_and_a_simulation_agree_on_who_has_missed_the_end() {
        use Code::{
            Aborted, DeadlineExceeded, Unanswered, Unavailable, VariablesLost, WorkersLeft,
        };
        let of_others =
            [Unavailable, Aborted, DeadlineExceeded, VariablesLost, WorkersLeft, Unanswered];
        let own = [Code::Internal, Code::NotFound, Code::NanLoss, Code::DataLoss, Code::Stalled];
        for code in of_others.into_iter().chain(own) {
            let exit = ExitCode::of_task(code);
            let has_missed_it = matches!(exit, ExitCode::PeersLost | ExitCode::Unanswered);
            assert_eq!(code.is_of_lost_tasks(), has_missed_it, "{code:?}");
        }
    }
}
