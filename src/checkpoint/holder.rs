//! The holder of checkpoints: the task, and its process, that saves there.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A task of this process that saves checkpoints, as it says in the store who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    task: String,
    /// What tells its training from others.
    training: String,
    process: Process,
    since: Duration,
}

impl Holder {
    /// The holder `task`, in words, from `since` on: the time since the epoch or, in a simulation,
    /// since its beginning. Another life of a training's chief has the same `task` and `training`.
    pub fn new(task: impl Into<String>, training: impl Into<String>, since: Duration) -> Self {
        Self { task: task.into(), training: training.into(), process: Process::own(), since }
    }

    /// Whether `other` is the same task of the same training, perhaps in another life, or another
    /// session of the same process.
    pub(super) fn is_also(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.task.clone(), one.training.clone());
        of(self) == of(other) || self.process == other.process
    }

    /// Whether its process runs, if that can be seen from here.
    pub(super) fn runs(&self) -> Option<bool> {
        self.process.runs()
    }

    /// Reads what [`Holder::noted`] has written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Itself as one word.
    pub(super) fn noted(&self) -> String {
        let text = serde_json::to_string(self).expect("strings and numbers can be written as JSON");
        text.replace(' ', "\\u0020") // only strings have any
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, process, since, .. } = self;
        let since = UNIX_EPOCH.checked_add(*since).unwrap_or(UNIX_EPOCH);
        let since = humantime::format_rfc3339_seconds(since);
        write!(f, "{} ({process}, since {since})", task.escape_debug())
    }
}
