//! What actors wait for, as they say it to those who ask.

use std::fmt;
use std::sync::{Arc, Mutex};

/// Who waits, and for what: for the report of a hang.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The actor that waits, with its step if it has one.
    pub who: String,
    /// The thing waited for.
    pub what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.who, self.what)
    }
}

/// The list to which actors write what they wait for.
pub type WaitingList = Arc<Mutex<Vec<Waiting>>>;
