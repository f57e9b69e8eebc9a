//! What actors wait for, as they say it to those who ask.

use std::fmt;

/// Who waits, and for what: for the report of a hang.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    /// The actor that waits, with its step if it has one.
    pub(crate) who: String,
    /// The thing waited for.
    pub(crate) what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.who, self.what)
    }
}
