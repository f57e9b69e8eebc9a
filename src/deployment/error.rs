//! Why a process can't take part in a cluster, or a cluster of processes failed.

use std::io;

use super::ExitCode;
use crate::cluster::TaskName;
use crate::transport::{CertificateError, QuicError};

/// Why a process can't take part in a cluster, or a cluster of processes failed.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// What describes the cluster is wrong.
    #[error("{origin}:\n{mistakes}")]
    Cluster {
        /// Where it is described.
        origin: String,
        /// All that is wrong, a line each.
        mistakes: String,
    },
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
    /// A file can't be written.
    #[error("cannot write {what}: {error}")]
    Write {
        /// Which.
        what: String,
        /// Why not.
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
    /// The launched tasks were asked to stop, and did.
    #[error("run `{run}` was stopped")]
    Stopped {
        /// The run.
        run: String,
        /// By what.
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
}

impl DeploymentError {
    pub(crate) fn writing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Self::Write { what, error }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Self::System { what, error }
    }

    /// What it means for whoever started the process.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Cluster { .. } | Self::Network(_) => ExitCode::Usage,
            Self::Certificate(CertificateError::Crypto(_)) => ExitCode::Internal,
            Self::Certificate(_) => ExitCode::Usage,
            Self::System { .. } | Self::Write { .. } => ExitCode::Internal,
            Self::Task { code, .. } | Self::Stopped { code, .. } => *code,
            Self::Unanswered { .. } => ExitCode::PeersLost,
        }
    }
}
