//! The errors that end a command early, with their exit codes.

use std::io;
use std::net::SocketAddr;

use clap::builder::styling::AnsiColor;

use crate::checkpoint::CheckpointError;
use crate::deployment::{DeploymentError, ExitCode, of_certificate};
use crate::experiment::ExperimentError;
use crate::process::{MORE_FILES, lacks_files, more_files};
use crate::runtime::Error;
use crate::say::labelled;
use crate::tape::TapeError;
use crate::transport::CertificateError;

/// The error of a command that ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The experiment gives no report.
    #[error("{0}")]
    Experiment(#[from] ExperimentError),
    /// Several simulated runs failed alike.
    #[error("runs `{}`: {error}", .runs.join("`, `"))]
    Runs {
        /// The names of the runs.
        runs: Vec<String>,
        /// The root cause.
        error: Error,
    },
    /// The program of this deployed task failed.
    #[error("run `{run}`: {error}")]
    Task {
        /// The run's name.
        run: String,
        /// The root cause.
        error: Error,
    },
    /// The requested feature does not exist.
    #[error("{0}")]
    NotSupported(String),
    /// A checkpoint can't be read or written.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// A certificate can't be made or used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// This process, or those that it has started, can't take part in a cluster.
    #[error("{0}")]
    Deployment(#[from] DeploymentError),
    /// The operating system refuses.
    #[error("can't {what}: {error}{}", more_files(.error))]
    System {
        /// The action that was refused.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// A page can't be shown at the address that is asked for.
    #[error("can't listen on {address}: {error}; {}", listening_elsewhere(.flag, .address, .error))]
    Listen {
        /// The flag that asks for it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// A graph can't be read or shown.
    #[error("{path}: {problem}")]
    Graph {
        /// The file.
        path: String,
        /// The problem with it.
        problem: String,
    },
    /// A file of expectations can't be used.
    #[error("{path}: {problem}")]
    Expectations {
        /// The file.
        path: String,
        /// The problem with it.
        problem: String,
    },
    /// The parts of a plan can't be put together.
    #[error("{0}")]
    Merge(String),
    /// A repeat of a run gave another result.
    #[error("run `{run}` differed when it was repeated with the same seed: {was} became {is}")]
    RepeatDiffered {
        /// The run's name.
        run: String,
        /// The first digests.
        was: String,
        /// The digests of the repeat.
        is: String,
    },
    /// A result could not be written.
    #[error("cannot write {what}: {error}{}", next(.error))]
    Write {
        /// The thing that was to be written.
        what: String,
        /// The system's error.
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

    /// Prints the error, and returns its exit code.
    pub(super) fn report(&self) -> ExitCode {
        let style = AnsiColor::Red.on_default().bold();
        labelled(format_args!("{style}error:{style:#} "), self);
        self.exit_code()
    }

    /// The name and the error of the run whose simulation has failed, if it says nothing of others.
    pub(super) fn of_one_run(&self) -> Option<(&str, &Error)> {
        match self {
            Self::Experiment(ExperimentError::Run { run, error }) => Some((run, error)),
            _ => None,
        }
    }

    /// Whether a task of a launch has failed, which says nothing of other launches: their settings
    /// are right.
    pub(super) fn is_of_one_launch(&self) -> bool {
        let Self::Experiment(ExperimentError::Deployment(error)) = self else { return false };
        matches!(error, DeploymentError::Task { code, .. } if *code != ExitCode::Usage)
    }

    /// `failures` with those as one that differ in nothing but the run, in the order of the first.
    pub(super) fn together(failures: Vec<Self>) -> Vec<Self> {
        let mut together: Vec<Self> = Vec::new();
        for failure in failures {
            let Self::Experiment(ExperimentError::Run { run, error }) = failure else {
                together.push(failure);
                continue;
            };
            let alike = together.iter_mut().find_map(|known| match known {
                Self::Runs { runs, error: its } if *its == error => Some(runs),
                _ => None,
            });
            match alike {
                Some(runs) => runs.push(run),
                None => together.push(Self::Runs { runs: vec![run], error }),
            }
        }
        let alone = |failure| match failure {
            Self::Runs { mut runs, error } if runs.len() == 1 => {
                ExperimentError::Run { run: runs.remove(0), error }.into()
            }
            failure => failure,
        };
        together.into_iter().map(alone).collect()
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotSupported(_)
            | Self::Listen { .. }
            | Self::Graph { .. }
            | Self::Expectations { .. }
            | Self::Merge(_) => ExitCode::Usage,
            Self::RepeatDiffered { .. } => ExitCode::RepeatDiffered,
            Self::Certificate(error) => of_certificate(error),
            Self::Checkpoint(error) => of_checkpoint(error),
            Self::System { error, .. } | Self::Write { error, .. } if lacks_files(error) => {
                ExitCode::Usage
            }
            Self::Write { .. } => ExitCode::Unwritable,
            Self::System { .. } => ExitCode::Internal,
            Self::Deployment(error) | Self::Experiment(ExperimentError::Deployment(error)) => {
                error.exit_code()
            }
            Self::Runs { error, .. } | Self::Experiment(ExperimentError::Run { error, .. }) => {
                ExitCode::of_simulation(error.code)
            }
            Self::Task { error, .. } => ExitCode::of_task(error.code),
            Self::Experiment(ExperimentError::Data(error)) if error.is_corrupt() => {
                ExitCode::CorruptData
            }
            Self::Experiment(ExperimentError::Tape(error)) => of_tape(error),
            Self::Experiment(_) => ExitCode::Usage,
        }
    }
}

/// What to do where a page can't be shown at the `address` that `flag` asks for.
fn listening_elsewhere(flag: &str, address: &SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    let other = |port: u16| match address.ip().is_loopback() {
        true => format!("--{flag}={port}"),
        false => format!("--{flag}={}", SocketAddr::new(address.ip(), port)),
    };
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => format!(
            "this machine does not have that address: name one that it has, --{flag}={port} for \
             this machine alone, or --{flag}=0.0.0.0:{port} for all who reach it"
        ),
        io::ErrorKind::PermissionDenied if port < 1024 => {
            format!("ports below 1024 are the system's: name another: {}", other(port + 8000))
        }
        _ if lacks_files(error) => MORE_FILES.to_owned(),
        _ => format!("name another: {}", other(port.checked_add(1).unwrap_or(6007))),
    }
}

/// What to do about a thing that can't be written.
fn next(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists => "; there is one of this name: move it, or name another",
        io::ErrorKind::NotFound => "; make the folder that it is to be in first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a place where you may write"
        }
        io::ErrorKind::StorageFull => "; make room, or name another place",
        io::ErrorKind::FileTooLarge => "; raise the limit of a file's size, `ulimit -f`",
        _ => more_files(error),
    }
}

fn of_tape(error: &TapeError) -> ExitCode {
    match error {
        error if error.is_corrupt() => ExitCode::CorruptData,
        error if error.is_of_writing() => ExitCode::Unwritable,
        _ => ExitCode::Usage,
    }
}

fn of_checkpoint(error: &CheckpointError) -> ExitCode {
    match error {
        error if error.is_mistaken() || error.lacks_files() => ExitCode::Usage,
        CheckpointError::Store { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
            ExitCode::Usage
        }
        error if error.is_of_the_place() => ExitCode::Unwritable,
        _ => ExitCode::CorruptData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Code;

    #[test]
    fn an_error_that_several_runs_have_is_told_once_with_their_names() {
        let failed = |run: &str, code| {
            Failure::from(ExperimentError::Run {
                run: run.to_owned(),
                error: Error::new(code, "x"),
            })
        };
        let (mistaken, lost) = (Code::InvalidArgument, Code::Unavailable);
        let all = vec![failed("a", mistaken), failed("b", lost), failed("c", mistaken)];
        let told: Vec<String> = Failure::together(all).iter().map(Failure::to_string).collect();
        assert_eq!(told, ["runs `a`, `c`: InvalidArgument: x", "run `b`: Unavailable: x"]);
    }

    #[test]
    fn the_exit_code_says_whether_to_mend_the_program_or_to_start_it_again() {
        let code = |code| {
            let (run, error) = ("r".to_owned(), Error::new(code, ""));
            let deployed = Failure::Task { run: run.clone(), error: error.clone() };
            let simulated = Failure::from(ExperimentError::Run { run, error });
            (simulated.exit_code(), deployed.exit_code())
        };
        assert_eq!(code(Code::InvalidArgument), (ExitCode::Usage, ExitCode::Usage));
        assert_eq!(code(Code::NanLoss), (ExitCode::Diverged, ExitCode::Diverged));
        assert_eq!(code(Code::Stalled), (ExitCode::Stalled, ExitCode::Stalled));
        assert_eq!(code(Code::Unavailable), (ExitCode::TrainingLost, ExitCode::PeersLost));
        assert_eq!(code(Code::DataLoss), (ExitCode::CorruptData, ExitCode::CorruptData));
        assert_eq!(code(Code::Unwritable), (ExitCode::Unwritable, ExitCode::Unwritable));
        assert_eq!(code(Code::Internal), (ExitCode::Internal, ExitCode::Internal));
    }
}
