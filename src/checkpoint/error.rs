//! What can be wrong with checkpoints, told with the file and with what is wrong in it.

use std::io;

/// Why a checkpoint can't be written, read or used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The store refuses.
    #[error("can't {what} {file}: {source}")]
    Store {
        /// What it was asked for.
        what: &'static str,
        /// The file, with where it is.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such store.
    #[error("`{location}` is no place for checkpoints: {problem}")]
    Location {
        /// Where it should be.
        location: String,
        /// Why it can't.
        problem: String,
    },
    /// A file holds something else than it should.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file, with where it is.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of a checkpoint is gone.
    #[error("{file} is missing, and with it the variables of {task}")]
    Missing {
        /// The file, with where it is.
        file: String,
        /// Whose variables it held.
        task: String,
    },
    /// A file is longer or shorter than it was.
    #[error("{file} is {found} bytes long and not {expected}, as it was when it was saved")]
    Length {
        /// The file, with where it is.
        file: String,
        /// How long it was \[bytes\].
        expected: u64,
        /// How long it is \[bytes\].
        found: u64,
    },
    /// A file has other bytes than it had.
    #[error(
        "{file} has changed since it was saved: {what} has the checksum {found} and not {expected}"
    )]
    Checksum {
        /// The file, with where it is.
        file: String,
        /// What of it has changed: a variable, or its header.
        what: String,
        /// The checksum that it had.
        expected: String,
        /// The checksum that it has.
        found: String,
    },
    /// A variable can't be saved.
    #[error("`{variable}` can't be saved: {problem}")]
    NotSavable {
        /// Its name.
        variable: String,
        /// Why not.
        problem: String,
    },
    /// A checkpoint's files can't be called that.
    #[error(
        "`{0}` is no name for checkpoints: it must not be empty, have a `/` or a `\\`, or be that \
         of the state file"
    )]
    Basename(String),
    /// There is no checkpoint of that step.
    #[error("there is no checkpoint of step {global_step} in {location}; {there}")]
    NoSuchCheckpoint {
        /// The step.
        global_step: u64,
        /// Where it was looked for.
        location: String,
        /// What there is in its place.
        there: String,
    },
    /// The checkpoint has no such variable.
    #[error("{checkpoint} has no variable `{name}`{alike}; it has {there}")]
    NoSuchVariable {
        /// The checkpoint's name.
        checkpoint: String,
        /// The variable's name.
        name: String,
        /// " (did you mean …?)", or nothing.
        alike: String,
        /// The names that it has, or the first of them.
        there: String,
    },
    /// A variable was saved with another type or shape.
    #[error("`{name}` is {found} in {checkpoint}, and not {wanted}")]
    Mismatch {
        /// The checkpoint's name.
        checkpoint: String,
        /// The variable's name.
        name: String,
        /// The type and shape that it was saved with.
        found: String,
        /// Those that were asked for.
        wanted: String,
    },
}

impl CheckpointError {
    pub(super) fn store(what: &'static str, file: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Store { what, file, source }
    }

    /// Whether somebody has asked for what is not there, in place of a file or a store that fails.
    pub(crate) fn is_mistaken(&self) -> bool {
        matches!(self, Self::Location { .. } | Self::NoSuchCheckpoint { .. } | Self::Basename(_))
    }
}
