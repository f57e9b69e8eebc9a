//! Errors of tapes.

use std::io;

use crate::cluster::TaskName;
use crate::process::{lacks_files, more_files};

/// The error of tapes that can't be written, read or played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The system refuses.
    #[error("can't {what}: {source}{}", more_files(.source))]
    System {
        /// The action that was refused.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The folder has no tapes.
    #[error("{folder} has no tapes; {}", next(.folder, .within))]
    None {
        /// The folder.
        folder: String,
        /// The folders in it that have tapes, in quotes, each with the run that recorded them.
        within: Vec<String>,
    },
    /// The tape of a task is missing.
    #[error("{folder} has no tape of {task}; bring the tapes of all tasks into one folder")]
    Missing {
        /// The folder.
        folder: String,
        /// The task.
        task: TaskName,
    },
    /// There are tapes already.
    #[error("{folder} has the tapes of an earlier launch; name another folder, or remove it")]
    Taken {
        /// The folder.
        folder: String,
    },
    /// A file is no tape, or is damaged.
    #[error("{path}: {problem}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The tape was recorded in another run.
    #[error(
        "{path} was recorded with {what} `{tape}`, but this run has `{run}`; {}",
        instead(.what, .tape)
    )]
    Foreign {
        /// The file.
        path: String,
        /// What differs.
        what: &'static str,
        /// As the tape has it.
        tape: String,
        /// As the run has it.
        run: String,
    },
}

impl TapeError {
    /// What differs of a tape that another run of the same scenario has recorded.
    pub(super) const RUN: &str = "the run";

    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// Whether a file is no tape, or has changed since it was written.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// Whether a tape could not be written.
    pub(crate) fn is_of_writing(&self) -> bool {
        matches!(self, Self::System { what, source } if what.starts_with("write")
            && !lacks_files(source))
    }
}

/// What to do about a tape of `tape`, in `what` of which this run differs.
fn instead(what: &str, tape: &str) -> String {
    if what == TapeError::RUN {
        return format!("add `--run '{tape}'`");
    }
    "replay it with the scenario and the arguments that it was recorded with".to_owned()
}

/// What to do about a `folder` without tapes.
fn next(folder: &str, within: &[String]) -> String {
    match within {
        [] => format!("record some with `launch --record {folder}`"),
        _ => format!("each run has a folder of its own; name one of {}", within.join(", ")),
    }
}
