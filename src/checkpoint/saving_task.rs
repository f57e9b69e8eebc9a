//! The task, and its process, that saves checkpoints.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A task of this process that saves checkpoints, as it says in the store who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavingTask {
    name: String,
    /// What its training is told, so that it is the same in all its lives.
    fingerprint: String,
    process: Process,
    since: Duration,
}

impl SavingTask {
    /// The task of this name, of this process, from `since` on: the time since the epoch or, in a
    /// simulation, since its beginning. Trainings with the same `fingerprint` may be lives of one.
    pub fn new(name: impl Into<String>, fingerprint: impl Into<String>, since: Duration) -> Self {
        let (name, fingerprint) = (name.into(), fingerprint.into());
        Self { name, fingerprint, process: Process::own(), since }
    }

    /// Whether `other` may be of the same training, perhaps in another life: a chief that was
    /// started again, elsewhere or while the one before still runs.
    pub(super) fn may_be_of(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint || self.process == other.process
    }

    /// Whether its process runs, if that can be seen from here.
    pub(super) fn runs(&self) -> Option<bool> {
        self.process.runs()
    }

    /// Reads what [`SavingTask::noted`] has written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Itself as one word.
    pub(super) fn noted(&self) -> String {
        let text = serde_json::to_string(self).expect("strings and numbers can be written as JSON");
        text.replace(' ', "\\u0020") // only strings have any
    }
}

impl fmt::Display for SavingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, process, since, .. } = self;
        let since = UNIX_EPOCH.checked_add(*since).unwrap_or(UNIX_EPOCH);
        let since = humantime::format_rfc3339_seconds(since);
        write!(f, "{} ({process}, since {since})", name.escape_debug())
    }
}
