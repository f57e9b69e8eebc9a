//! What a client tells the master of another server about its sessions there, and the answers.
//!
//! A client numbers its calls. If the connection is lost it sends those again that are not
//! answered, under their old numbers: the master carries each out once, and keeps its answer until
//! the client says that it has arrived.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::DeviceSpec;
use crate::partition::Request;
use crate::sync::Departed;

use crate::runtime::error::Result;

use super::{OperationTime, Origin, Scope, SentOperation, Values};

/// The session options that affect placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// As in [`SessionOptions`](crate::runtime::SessionOptions), each as it is written.
    pub device_filters: Vec<String>,
    /// As in [`SessionOptions`](crate::runtime::SessionOptions).
    pub allow_soft_placement: bool,
    /// As in [`SessionOptions`](crate::runtime::SessionOptions).
    pub log_device_placement: bool,
}

/// Device filters of another process.
///
/// # Errors
/// The first that is no device.
pub(crate) fn device_filters(texts: &[String]) -> Result<Vec<DeviceSpec>> {
    let parsed = texts.iter().map(|text| text.parse());
    Ok(parsed.collect::<std::result::Result<_, _>>()?)
}

/// The most ranges of [`SessionCall::arrived`].
pub(crate) const MOST_RANGES: usize = 64;

/// A client's call of a master.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionCall {
    /// The client's id, which differs between clients and between lives of one client.
    pub client: u64,
    /// Counts the client's calls of this master.
    pub number: u64,
    /// The answers to all calls below this number have arrived.
    pub settled: u64,
    /// The later calls whose answers have arrived, too: the first ranges of their numbers, which
    /// are many where one call takes long.
    pub arrived: Vec<Range<u64>>,
    /// What the master is to do.
    pub action: SessionAction,
}

/// What a client wants of a master.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SessionAction {
    /// Begin a session. Answered by its [`Scope`].
    Create {
        /// The devices that its operations may be on.
        placing: Placing,
        /// As in [`SessionOptions`](crate::runtime::SessionOptions).
        isolate_session_state: bool,
    },
    /// Add operations to a session's graph.
    Extend {
        /// The session.
        session: Scope,
        /// The number of operations that the graph has so far.
        known: u32,
        /// Those that follow.
        operations: Vec<SentOperation>,
    },
    /// Run a step. Answered by the fetched values.
    Run {
        /// The session.
        session: Scope,
        /// The feeds, fetches and targets.
        request: Request,
        /// The values, in the order of the request's feeds.
        feeds: Values,
        /// The time that the step may take.
        timeout: Option<Duration>,
        /// The step's origin, if it is a training step; its training is a number of the client's.
        origin: Option<Origin>,
        /// Whether the times of its operations are recorded.
        is_traced: bool,
    },
    /// End a session; its running steps are cancelled.
    Close {
        /// The session.
        session: Scope,
    },
    /// Clear containers on the cluster's tasks; ends all sessions of the master. Answered by the
    /// departed workers of the training, if one goes on.
    Reset {
        /// Their names; if there are none, the default container.
        containers: Vec<String>,
        /// Whether a training goes on with other values.
        within_training: bool,
        /// As in [`SessionOptions`](crate::runtime::SessionOptions), each as it is written.
        device_filters: Vec<String>,
        /// The time that the reset may take.
        timeout: Option<Duration>,
    },
    /// Nothing: the client is still there, though its connection was lost.
    Return,
}

/// A message to a client, from the master that it has called: the call has been carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientMessage {
    /// The call's number.
    pub number: u64,
    /// What came of it.
    pub outcome: Result<SessionAnswer>,
}

/// What came of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SessionAnswer {
    /// Of `Create`: the session.
    Created(
        /// The master's id, and the session's number there.
        Scope,
    ),
    /// Of `Run`: the values, in the order of the fetches, and when operations ran.
    Fetched(
        /// The values.
        Values,
        /// The times, if they were recorded.
        Vec<OperationTime>,
    ),
    /// Of `Reset`: the departed workers of the training, if one goes on.
    Reset(
        /// The workers.
        Departed,
    ),
    /// Of any other call.
    Done,
}
