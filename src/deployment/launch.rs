//! A process for each task of a cluster on this machine, from their start to their end.
//!
//! The tasks are one program, which [`trainyard::main`](crate::main) runs, so that a user's own can
//! be launched as well. Each is handed the socket that it listens on, and a way to the launcher by
//! which it hears when that is gone, however it went: no process stays behind.

pub(crate) mod folder;
mod follow;
mod members;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::stop::Stop;
use super::{DeploymentError, ExitCode};
use crate::cluster::TaskName;
use crate::training::{Recording, Watch};
use crate::units::Time;

/// What is to be launched.
pub(crate) struct Launch {
    /// The program that each task runs.
    pub(crate) program: PathBuf,
    /// What it is called with, before what tells a task its place.
    pub(crate) arguments: Vec<String>,
    /// What the run is called.
    pub(crate) run: String,
    /// How long an idle task looks for messages, where somebody has said so.
    pub(crate) busy_poll: Option<Duration>,
    pub(crate) tasks: Vec<TaskName>,
    /// The folder of the tasks' logs.
    pub(crate) logs: PathBuf,
}

impl Launch {
    /// Where `task` logs.
    fn log(&self, task: &TaskName) -> PathBuf {
        self.logs.join(format!("{}-{}.log", task.job(), task.index()))
    }
}

/// How it ended.
pub(crate) enum Ended<T> {
    /// The run is over.
    Done(T),
    /// It was asked to stop, and the tasks are.
    Stopped(ExitCode),
}

/// What the tasks of a run told, put together.
pub(crate) struct Launched {
    pub(crate) recording: Recording,
    pub(crate) bytes_sent: BTreeMap<TaskName, u64>,
    /// When the chief was done, on its clock.
    pub(crate) ended: Time,
    /// How long it took from the start of the first process to the end of the last.
    pub(crate) took: Duration,
}

/// Starts the processes of a run and follows them until all are gone; `watch` is shown how far the
/// chief is.
///
/// # Errors
/// If the system refuses, or one of them fails: which, and the last that it said.
pub(crate) async fn launch(
    order: &Launch,
    watch: Box<dyn Watch>,
    stop: &mut Stop,
) -> Result<Ended<Launched>, DeploymentError> {
    follow::follow(members::start(order)?, order, watch, stop).await
}
