//! What can end a command early, and the exit code that says so.

use std::io;

use super::exit_code::ExitCode;
use crate::checkpoint::CheckpointError;
use crate::cluster::TaskName;
use crate::experiment::ExperimentError;
use crate::runtime::Code;
use crate::transport::{CertificateError, QuicError};

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The experiment gives no report.
    #[error("{0}")]
    Experiment(#[from] ExperimentError),
    /// What is asked for does not exist.
    #[error("{0}")]
    NotSupported(String),
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
            Self::NotSupported(_) | Self::Cluster { .. } | Self::Graph { .. } => ExitCode::Usage,
            Self::RepeatDiffered { .. } => ExitCode::RepeatDiffered,
            Self::Certificate(CertificateError::Crypto(_)) => ExitCode::Internal,
            Self::Checkpoint(error) if error.is_mistaken() => ExitCode::Usage,
            Self::Checkpoint(_) => ExitCode::Internal,
            Self::Certificate(_) | Self::Network(_) => ExitCode::Usage,
            Self::Write { .. } | Self::System { .. } => ExitCode::Internal,
            Self::Task { code, .. } => *code,
            Self::Unanswered { .. } => ExitCode::PeersLost,
            Self::Experiment(ExperimentError::Run { error, .. }) => of_run(error.code),
            Self::Experiment(_) => ExitCode::Usage,
        }
    }
}

/// What a run means that failed so.
fn of_run(code: Code) -> ExitCode {
    match code {
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => ExitCode::Usage,
        Code::NanLoss => ExitCode::TargetNotReached,
        Code::Stalled => ExitCode::Stalled,
        Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => ExitCode::PeersLost,
        Code::Cancelled | Code::OutOfRange | Code::DataLoss | Code::Internal => ExitCode::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Error;

    #[test]
    fn the_exit_code_says_whether_to_mend_the_program_or_to_try_again() {
        let code = |code| {
            let (run, error) = ("r".into(), Error::new(code, ""));
            Failure::from(ExperimentError::Run { run, error }).exit_code()
        };
        assert_eq!(code(Code::InvalidArgument), ExitCode::Usage);
        assert_eq!(code(Code::NanLoss), ExitCode::TargetNotReached);
        assert_eq!(code(Code::Stalled), ExitCode::Stalled);
        assert_eq!(code(Code::Unavailable), ExitCode::PeersLost);
        assert_eq!(code(Code::Internal), ExitCode::Internal);
    }
}
