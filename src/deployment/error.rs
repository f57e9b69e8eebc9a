//! Errors of a process that can't take part in a cluster, and of a cluster of processes.

use std::io;

use super::ExitCode;
use crate::cluster::TaskName;
use crate::process::{lacks_files, more_files};
use crate::runtime::Error;
use crate::transport::{CertificateError, QuicError, Refused};

/// The error of a process that can't take part in a cluster, or of a cluster of processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// The description of the cluster is wrong.
    #[error("{origin}:\n{mistakes}")]
    Cluster {
        /// The place of the description.
        origin: String,
        /// All mistakes in it, a line each.
        mistakes: String,
    },
    /// A certificate can't be made or used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// The task can't reach others or be reached.
    #[error("{0}")]
    Network(#[from] QuicError),
    /// The operating system refuses.
    #[error("can't {what}: {error}{}", more_files(.error))]
    System {
        /// The action that was refused.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// A file can't be written.
    #[error("cannot write {what}: {error}{}", more_files(.error))]
    Write {
        /// The file.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// A task that was launched failed.
    #[error("run `{run}`: {task} failed first: {why}\n  its log: {log}")]
    Task {
        /// The name of the run.
        run: String,
        /// The task that failed first.
        task: TaskName,
        /// The task's last error.
        why: String,
        /// The path of the task's log.
        log: String,
        /// The exit code of the whole.
        code: ExitCode,
        /// The error that the task's program ended with. None if its process did not get so far.
        error: Option<Box<Error>>,
    },
    /// The launched tasks were asked to stop, and did.
    #[error("run `{run}` was stopped")]
    Stopped {
        /// The name of the run.
        run: String,
        /// The exit code of the request to stop.
        code: ExitCode,
    },
    /// A task does not answer a question about its status.
    #[error("{task} at {address} tells nothing: {why}")]
    Unanswered {
        /// The task that was asked.
        task: TaskName,
        /// The address at which it should be.
        address: String,
        /// The reason, as far as it is known.
        why: String,
        /// Why asking again does not help, if it does not.
        refused: Option<Refused>,
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

    /// The exit code of a process that ends with this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Network(QuicError::Identity { .. }) => ExitCode::CertificateRefused,
            Self::Cluster { .. } | Self::Network(_) => ExitCode::Usage,
            Self::Certificate(error) => of_certificate(error),
            Self::System { error, .. } | Self::Write { error, .. } if lacks_files(error) => {
                ExitCode::Usage
            }
            Self::System { .. } => ExitCode::Internal,
            Self::Write { .. } => ExitCode::Unwritable,
            Self::Task { code, .. } | Self::Stopped { code, .. } => *code,
            Self::Unanswered { refused, .. } => of_unanswered(*refused),
        }
    }
}

/// The exit code of a command that a task does not answer, or that one of the two refuses.
pub(crate) fn of_unanswered(refused: Option<Refused>) -> ExitCode {
    match refused {
        Some(Refused::Certificate) => ExitCode::CertificateRefused,
        Some(Refused::Run | Refused::Outlived) => ExitCode::Usage,
        None => ExitCode::Unanswered,
    }
}

/// The exit code of a command whose certificate can't be made or used.
pub(crate) fn of_certificate(error: &CertificateError) -> ExitCode {
    match error {
        CertificateError::Read { source, .. } | CertificateError::Write { source, .. }
            if lacks_files(source) =>
        {
            ExitCode::Usage
        }
        CertificateError::Read { .. }
        | CertificateError::Malformed { .. }
        | CertificateError::NotValid { .. }
        | CertificateError::OtherAuthority(_)
        | CertificateError::Exposed(_) => ExitCode::CertificateRefused,
        CertificateError::Write { .. } => ExitCode::Unwritable,
        CertificateError::Crypto(_) => ExitCode::Internal,
        _ => ExitCode::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_open_files_are_an_error_of_usage_that_names_the_limit() {
        for number in [23, 24] {
            let error = || io::Error::from_raw_os_error(number);
            let listening = DeploymentError::system("listen for signals")(error());
            let writing = DeploymentError::writing("the log")(error());
            for error in [listening, writing] {
                assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
                assert!(error.to_string().ends_with("`ulimit -n`"), "{error}");
            }
        }
        let other = DeploymentError::system("listen for signals")(io::ErrorKind::Other.into());
        assert_eq!(other.exit_code(), ExitCode::Internal);
    }
}
