//! The launcher: a process for each task of a cluster on this machine, from its start to its end.
//!
//! The tasks are one program, which [`trainyard::main`](crate::main) runs, so that a user's own
//! program can be launched as well. Each gets its listening socket, and a connection to the
//! launcher by which it notices the launcher's end, however it ended: no process stays behind.

mod damage;
mod faults;
pub(crate) mod folder;
mod follow;
mod members;
mod relay;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

pub(crate) use faults::refusal;
pub(crate) use follow::last_words;

use super::stop::StopRequest;
use super::{DeploymentError, ExitCode};
use crate::cluster::TaskName;
use crate::faults::{Fault, SkippedFault};
use crate::live::Board;
use crate::runtime::{Patience, Traffic};
use crate::training::{Fact, Recording, Watch};
use crate::units::{BytesPerSecond, Time};

/// The prefix of environment variables that stand for flags.
pub(crate) const VARIABLES: &str = "TRAINYARD_";

/// What the user has said of how each task uses its cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuning {
    /// How long an idle task polls for messages.
    pub(crate) busy_poll: Option<Duration>,
    /// The number of threads that encrypt large tensors.
    pub(crate) lanes: Option<u8>,
}

impl Tuning {
    /// The arguments by which a task is told.
    fn arguments(self) -> impl Iterator<Item = String> {
        let busy_poll = self.busy_poll.map(|span| format!("--busy-poll={}us", span.as_micros()));
        busy_poll.into_iter().chain(self.lanes.map(|lanes| format!("--lanes={lanes}")))
    }
}

/// The run to launch.
pub(crate) struct Launch {
    /// The program that each task runs.
    pub(crate) program: PathBuf,
    /// The program's first arguments; those that give a task its place follow.
    pub(crate) arguments: Vec<OsString>,
    /// The arguments that are for the task's program, and go last.
    pub(crate) program_arguments: Vec<String>,
    /// The name of the run.
    pub(crate) run: String,
    pub(crate) tuning: Tuning,
    pub(crate) tasks: Vec<TaskName>,
    /// How long a task that gives no sign of life is waited for.
    pub(crate) patience: Patience,
    /// How often a task is started again whose end a restart can mend.
    pub(crate) max_restarts: u32,
    /// The training's name, if the launcher tells how a task is asked for its status.
    pub(crate) status_of: Option<String>,
    /// The faults that the launcher inflicts on the processes.
    pub(crate) faults: Vec<Fault>,
    /// The latency of a link between two tasks, of which a slow link has a multiple.
    pub(crate) latency: Duration,
    /// The rate of such a link.
    pub(crate) bandwidth: BytesPerSecond,
    /// The folder of the run's checkpoints, if they are in one.
    pub(crate) checkpoints: Option<PathBuf>,
    /// Tells what the launcher does and waits for.
    pub(crate) tell: fn(&str),
    /// Shows the tasks' numbers, if somebody is to see them.
    pub(crate) board: Option<Arc<Board>>,
    /// Hears what the tasks record, at times on the clock of the chief's first process.
    pub(crate) recorder: Option<Rc<dyn Fn(Fact)>>,
    /// The folder of the tasks' logs.
    pub(crate) logs: PathBuf,
}

impl Launch {
    /// The path of `task`'s log.
    fn log(&self, task: &TaskName) -> PathBuf {
        log_of(&self.logs, task)
    }
}

/// The path of `task`'s log in the folder `logs`.
pub(crate) fn log_of(logs: &Path, task: &TaskName) -> PathBuf {
    logs.join(format!("{}-{}.log", task.job(), task.index()))
}

/// The end of a run.
pub(crate) enum Ended<T> {
    /// The run is over.
    Done(T),
    /// The run was asked to stop, and its tasks are stopped.
    Stopped(Stopped<T>),
}

/// A run that was asked to stop.
pub(crate) struct Stopped<T> {
    /// The exit code that the request asks for.
    pub(crate) code: ExitCode,
    /// The tasks that did not stop in good order.
    pub(crate) failed: Vec<FailedStop>,
    /// What it had come to.
    pub(crate) so_far: T,
}

/// A task that did not stop in good order.
#[derive(Debug, thiserror::Error)]
#[error("{task} did not stop in good order: {why}\n  its log: {}", .log.display())]
pub(crate) struct FailedStop {
    task: TaskName,
    /// Its last error, or how it ended.
    why: String,
    log: PathBuf,
}

/// The merged records of a run's tasks.
pub(crate) struct Launched {
    pub(crate) recording: Recording,
    pub(crate) sent: BTreeMap<TaskName, Traffic>,
    /// The end of the chief, since it first began.
    pub(crate) ended: Time,
    /// The time from the start of the first process to the end of the last.
    pub(crate) took: Duration,
    /// The faults that did not happen, in the order in which they were skipped.
    pub(crate) skipped_faults: Vec<SkippedFault>,
}

/// Starts the processes of a run and follows them until all are gone; `watch`, if there is one, is
/// shown the chief's progress.
///
/// # Errors
/// If the system refuses, or a process fails; the error names the task and its last words.
pub(crate) async fn launch(
    order: &Launch,
    watch: Option<Box<dyn Watch>>,
    stop: &mut StopRequest,
) -> Result<Ended<Launched>, DeploymentError> {
    follow::follow(members::start(order)?, order, watch, stop).await
}

/// An event loop to await launches on, unless the system refuses it.
pub(crate) fn event_loop() -> Result<Runtime, DeploymentError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(DeploymentError::system("run an event loop"))
}
