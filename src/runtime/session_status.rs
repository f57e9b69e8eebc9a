//! The status of a session, for those who ask a task for its own.

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;

/// A session, as its master knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The session's number at its master.
    pub number: u64,
    /// The client; none if it is a program of the server's own process.
    pub client: Option<TaskName>,
    /// Whether the client's connection is lost.
    pub is_away: bool,
    /// The number of its graph's operations.
    pub operations: u64,
    /// The number of its steps that have begun.
    pub steps: u64,
    /// The number of those that are under way, or wait for a task.
    pub running: u64,
}
