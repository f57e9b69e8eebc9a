//! Errors of checkpoints, each with the file and the problem in it.

use std::io;

use super::SavingTask;
use crate::process;

/// The system's number of the error of symbolic links that lead in a circle (`ELOOP`): its kind is
/// not stable.
const TOO_MANY_LINKS: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

/// The error of a checkpoint that can't be written, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The store refuses.
    #[error("can't {what} {file}: {source}")]
    Store {
        /// The action that was refused.
        what: &'static str,
        /// The file, with its location.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such store.
    #[error("`{location}` is no place for checkpoints: {problem}")]
    Location {
        /// The location.
        location: String,
        /// The reason why it can't hold checkpoints.
        problem: String,
    },
    /// A file can't be written in that place.
    #[error("{file}: {problem}")]
    Destination {
        /// The file.
        file: String,
        /// The reason why not.
        problem: String,
    },
    /// A file does not hold what it should.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file, with its location.
        file: String,
        /// The problem with the file.
        problem: String,
    },
    /// A file of a checkpoint is gone.
    #[error("{file} is missing, and with it the variables of {task}")]
    Missing {
        /// The file, with its location.
        file: String,
        /// The task that the file's variables are of.
        task: String,
    },
    /// A file is longer or shorter than it was.
    #[error("{file} is {found} bytes long and not {expected}, as it was when it was saved")]
    Length {
        /// The file, with its location.
        file: String,
        /// The length when it was saved \[bytes\].
        expected: u64,
        /// The length now \[bytes\].
        found: u64,
    },
    /// The bytes of a file have changed.
    #[error(
        "{file} has changed since it was saved: {what} has the checksum {found} and not {expected}"
    )]
    Checksum {
        /// The file, with its location.
        file: String,
        /// The changed part: a variable, or the file's header.
        what: String,
        /// The checksum when it was saved.
        expected: String,
        /// The checksum now.
        found: String,
    },
    /// Another saver has taken over the checkpoints of this one.
    #[error(
        "another chief saves to {location} by now{}: this one has been replaced, and saves nothing \
         more (it was writer {ours} of that folder, and the other is writer {theirs})",
        named(.by.as_deref())
    )]
    TakenOver {
        /// The location of the checkpoints.
        location: String,
        /// The task that saves there now, if it says which.
        by: Option<Box<SavingTask>>,
        /// The number of the saver that has taken over.
        theirs: u64,
        /// The number of this saver.
        ours: u64,
    },
    /// The chief of another training saves there.
    #[error(
        "another training saves to {location}, and both would overwrite each other's checkpoints: \
         {by} runs and has the folder; stop it, or give this training another one"
    )]
    InUse {
        /// The location of the checkpoints.
        location: String,
        /// The task that saves there.
        by: Box<SavingTask>,
    },
    /// A variable can't be saved.
    #[error("`{variable}` can't be saved: {problem}")]
    NotSavable {
        /// The variable's name.
        variable: String,
        /// The reason why it can't be saved.
        problem: String,
    },
    /// There are checkpoints, and each lacks something.
    #[error("none of the checkpoints in {location} is whole")]
    NoneWhole {
        /// The location that was searched.
        location: String,
    },
    /// There are the files of checkpoints, and the index of none.
    #[error(
        "the indexes of {named} in {location} are gone (`model.ckpt-STEP.index.json`), and their \
         other files are there"
    )]
    IndexesLost {
        /// The location of the checkpoints.
        location: String,
        /// The names of the checkpoints.
        named: String,
    },
    /// There is no checkpoint of that step.
    #[error("there is no checkpoint of step {global_step} in {location}; {there}")]
    NoSuchCheckpoint {
        /// The step.
        global_step: u64,
        /// The location that was searched.
        location: String,
        /// The checkpoints that are there instead.
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
        /// The names of its variables, or the first of them.
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
        /// The type and shape that were asked for.
        wanted: String,
    },
}

/// The `task` in the middle of a sentence, if it is known.
fn named(task: Option<&SavingTask>) -> String {
    task.map(|task| format!(", {task}")).unwrap_or_default()
}

impl CheckpointError {
    pub(super) fn store(what: &'static str, file: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Store { what, file, source }
    }

    /// Whether the store failed, so that nothing is known of the file: another try may succeed,
    /// unless the store [is misplaced](Self::is_misplaced).
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.kind() != io::ErrorKind::NotFound)
    }

    /// Whether the store is no place to write to, and won't be by itself.
    pub(crate) fn is_misplaced(&self) -> bool {
        use io::ErrorKind::{
            InvalidFilename, InvalidInput, NotADirectory, NotFound, PermissionDenied,
        };
        let Self::Store { what, source, .. } = self else { return false };
        match source.kind() {
            NotADirectory | PermissionDenied | InvalidFilename => true,
            NotFound => *what == "write",
            // A name that can be no file's; the system says the same of much else.
            InvalidInput => source.raw_os_error().is_none(),
            _ => source.raw_os_error() == Some(TOO_MANY_LINKS),
        }
    }

    /// Whether the store does not take what it is to keep.
    pub(crate) fn is_of_writing(&self) -> bool {
        matches!(self, Self::Store { what: "write" | "delete", .. })
    }

    /// Whether the store's place refuses, as opposed to a file in it that can't be read.
    pub(crate) fn is_of_the_place(&self) -> bool {
        matches!(self, Self::Store { what, .. } if *what != "read")
    }

    /// Whether the store has no room, or takes nothing: what is in it can be read. A file may have
    /// reached the limit of its size (`ulimit -f`), too.
    pub(crate) fn is_for_lack_of_room(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(self, Self::Store { what: "write", source, .. } if matches!(
            source.kind(),
            FileTooLarge | StorageFull | QuotaExceeded | ReadOnlyFilesystem
        ))
    }

    /// Whether this process may open too few files.
    pub(crate) fn lacks_files(&self) -> bool {
        matches!(self, Self::Store { source, .. } if process::lacks_files(source))
    }

    /// Whether the store can only be read.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Store { source, .. }
            if source.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Whether the request was for something that does not exist, as opposed to a file or a store
    /// that fails.
    pub(crate) fn is_mistaken(&self) -> bool {
        matches!(
            self,
            Self::Location { .. } | Self::Destination { .. } | Self::NoSuchCheckpoint { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_reaches_the_limit_of_its_size_has_no_room() {
        const FILE_TOO_LARGE: i32 = 27;
        let error = |number| {
            let source = io::Error::from_raw_os_error(number);
            CheckpointError::store("write", "a".to_owned())(source)
        };
        assert!(error(FILE_TOO_LARGE).is_for_lack_of_room());
        assert!(error(24).lacks_files() && !error(24).is_for_lack_of_room());
    }

    #[test]
    fn a_place_that_can_never_be_written_to_is_told_from_one_that_only_fails() {
        let is_misplaced = |what, source: io::Error| {
            let error = CheckpointError::store(what, "a".to_owned())(source);
            error.is_misplaced()
        };
        let of = |kind: io::ErrorKind| io::Error::from(kind);
        assert!(is_misplaced("list", of(io::ErrorKind::InvalidFilename)));
        assert!(is_misplaced("list", io::Error::from_raw_os_error(TOO_MANY_LINKS)));
        assert!(is_misplaced("write", std::fs::write("a\0b", "").unwrap_err()));
        assert!(is_misplaced("write", std::fs::write("a".repeat(300), "").unwrap_err()));
        assert!(is_misplaced("write", of(io::ErrorKind::NotFound)));
        assert!(!is_misplaced("read", of(io::ErrorKind::NotFound)), "it may be gone");
        assert!(!is_misplaced("read", of(io::ErrorKind::TimedOut)));
        assert!(!is_misplaced("read", io::Error::from_raw_os_error(5)), "of the disk (EIO)");
        assert!(!is_misplaced("read", io::Error::from_raw_os_error(22)), "of whatever (EINVAL)");
    }
}
