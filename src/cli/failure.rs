//! What can end a command early, and the exit code that says so.

use std::io;

use super::exit_code::ExitCode;
use crate::checkpoint::CheckpointError;
use crate::cluster::TaskName;
use crate::data::DataError;
use crate::experiment::scenario::ScenarioError;
use crate::runtime::{Code, Error};
use crate::transport::{CertificateError, QuicError};

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The scenario can't be run.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// The scenario asks for what does not exist yet.
    #[error("{0}")]
    NotSupported(String),
    /// The data set can't be read.
    #[error("program.dataset: {0}")]
    Data(DataError),
    /// What describes the cluster is wrong.
    #[error("{origin}:\n{mistakes}")]
    Cluster {
        /// Where it is described.
        origin: String,
        /// All that is wrong, a line each.
        mistakes: String,
    },
    /// A checkpoint can't be read or written.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// A certificate can't be made or used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// The task can't reach others or be reached.
    #[error("{0}")]
    Network(#[from] QuicError),
    /// The operating system refuses.
    #[error("can't {what}: {error}")]
    System {
        /// What it was asked for.
        what: String,
        /// What it says.
        error: io::Error,
    },
    /// A task that was launched failed.
    #[error("run `{run}`: {task} failed first: {why}\n  its log: {log}")]
    Task {
        /// The run.
        run: String,
        /// Which task.
        task: TaskName,
        /// The last that it said.
        why: String,
        /// The path of all that it said.
        log: String,
        /// What this means for the whole.
        code: ExitCode,
    },
    /// A task does not tell how it is.
    #[error("{task} at {address} tells nothing: {why}")]
    Unanswered {
        /// Which task.
        task: TaskName,
        /// Where it should be.
        address: String,
        /// Why not, as far as is known.
        why: String,
    },
    /// A graph can't be read or shown.
    #[error("{path}: {problem}")]
    Graph {
        /// The file.
        path: String,
        /// Why not.
        problem: String,
    },
    /// A run failed.
    #[error("run `{run}`: {error}")]
    Run {
        /// Which.
        run: String,
        /// Why.
        error: Error,
    },
    /// A repeat of a run gave another result.
    #[error("run `{run}` differed when it was repeated with the same seed: {was} became {is}")]
    RepeatDiffered {
        /// Which.
        run: String,
        /// The first digests.
        was: String,
        /// The digests of the repeat.
        is: String,
    },
    /// A result could not be written.
    #[error("cannot write {what}: {error}")]
    Write {
        /// What was to be written.
        what: String,
        /// Why it could not.
        error: io::Error,
    },
}

impl Failure {
    pub(super) fn writing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Self::Write { what, error }
    }

    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Self::System { what, error }
    }

    /// Says what went wrong, and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        eprintln!("error: {self}");
        self.exit_code()
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Scenario(_)
            | Self::NotSupported(_)
            | Self::Data(_)
            | Self::Cluster { .. }
            | Self::Graph { .. } => ExitCode::Usage,
            Self::RepeatDiffered { .. } => ExitCode::RepeatDiffered,
            Self::Certificate(CertificateError::Crypto(_)) => ExitCode::Internal,
            Self::Checkpoint(error) if error.is_mistaken() => ExitCode::Usage,
            Self::Checkpoint(_) => ExitCode::Internal,
            Self::Certificate(_) | Self::Network(_) => ExitCode::Usage,
            Self::Write { .. } | Self::System { .. } => ExitCode::Internal,
            Self::Task { code, .. } => *code,
            Self::Unanswered { .. } => ExitCode::PeersLost,
            Self::Run { error, .. } => match error.code {
                Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => {
                    ExitCode::Usage
                }
                Code::NanLoss => ExitCode::TargetNotReached,
                Code::Stalled => ExitCode::Stalled,
                Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => ExitCode::PeersLost,
                Code::Cancelled | Code::OutOfRange | Code::DataLoss | Code::Internal => {
                    ExitCode::Internal
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whether_to_mend_the_program_or_to_try_again() {
        let code = |code| Failure::Run { run: "r".into(), error: Error::new(code, "") }.exit_code();
        assert_eq!(code(Code::InvalidArgument), ExitCode::Usage);
        assert_eq!(code(Code::NanLoss), ExitCode::TargetNotReached);
        assert_eq!(code(Code::Stalled), ExitCode::Stalled);
        assert_eq!(code(Code::Unavailable), ExitCode::PeersLost);
        assert_eq!(code(Code::Internal), ExitCode::Internal);
    }
}
