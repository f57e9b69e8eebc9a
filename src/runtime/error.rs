//! The error that a user of the runtime sees: TensorFlow's class, what happened, and where.

use std::any::Any;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::panics::panic_text;
use crate::cluster::{ClusterError, ConfigErrors, DeviceNameError, TaskName};
use crate::graph::{GraphError, GraphProblem};
use crate::placement::PlacementError;
use crate::tensor::{OutOfMemory, TensorError};
use crate::transport::{Loss, Refused};

/// The class of an error: says what a program can do about it (TensorFlow: `error::Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Code {
    /// A session or its user ended the step. Final.
    Cancelled,
    /// The graph, the placement or a feed is wrong. Mend the program.
    InvalidArgument,
    /// The step took longer than its limit. The message says who had not answered.
    DeadlineExceeded,
    /// There is no such operation, container or task. Mend the program.
    NotFound,
    /// Something has to happen first: a variable is not initialised, a server is not started.
    FailedPrecondition,
    /// Another part of the step failed, or state that it needs is gone, for example because the
    /// session was closed or reset. Try again, with a new session if the old one is gone.
    Aborted,
    /// An operation asks for more memory than there is, or a task for more open files. Make its
    /// shapes smaller, or raise the limit.
    ResourceExhausted,
    /// The input is at its end, or the training is over. An orderly end of a
    /// worker; of the chief, too, if its program ends by
    /// [`close_after`](crate::training::MonitoredSession::close_after).
    OutOfRange,
    /// A task can't be reached. Try again later.
    Unavailable,
    /// No other task has ever answered this one. Look whether they run, and at their addresses;
    /// after the end of a training there is nothing to do.
    Unanswered,
    /// A task refuses this one's certificate, or this one that of the task. Issue it anew.
    Unauthenticated,
    /// Saved state or data is damaged, or can't be read. Mend the store; nothing that was good is
    /// lost.
    DataLoss,
    /// A checkpoint or a file can't be written, such as to a full disk. Make room, or name another
    /// place; nothing that was good is lost.
    Unwritable,
    /// The loss is not a number any more (TensorFlow: `NanLossDuringTrainingError`). Begin again
    /// with a lower learning rate, or with clipped gradients.
    NanLoss,
    /// Variables are lost that no checkpoint has. Begin the training anew.
    VariablesLost,
    /// The training has gone back to a checkpoint, and needs workers that have taken their last
    /// step. Begin it again: it goes on from there.
    WorkersLeft,
    /// A synchronous training has gone on without this step. Take it again, from the variables as
    /// they are now.
    Late,
    /// Nothing can ever happen again in this simulation: everyone waits for someone else.
    Stalled,
    /// This simulation does not do what the tapes have that it replays. Replay them with the
    /// scenario and the program that they were recorded with.
    Departed,
    /// The program returned an error of its own.
    Internal,
}

impl Code {
    /// Whether the store of checkpoints or a file is to blame: a training can go on without it.
    pub(crate) fn is_of_storage(self) -> bool {
        matches!(self, Self::DataLoss | Self::Unwritable)
    }

    /// Whether a task may have failed with it because others are gone.
    pub(crate) fn is_of_lost_tasks(self) -> bool {
        matches!(
            self,
            Self::Unavailable
                | Self::Aborted
                | Self::DeadlineExceeded
                | Self::VariablesLost
                | Self::WorkersLeft
                | Self::Unanswered
        )
    }

    /// Whether a program may end with it because its task, or all of them, were asked to stop. The
    /// others are mistakes and losses that it would have had anyhow, such as a checkpoint that
    /// can't be written.
    pub(crate) fn may_be_of_a_stop(self) -> bool {
        let is_of_the_program =
            matches!(self, Self::InvalidArgument | Self::ResourceExhausted | Self::NanLoss);
        !is_of_the_program && !self.is_of_storage()
    }
}

impl From<Refused> for Code {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Certificate => Self::Unauthenticated,
            Refused::Run | Refused::Outlived => Self::InvalidArgument,
        }
    }
}

impl From<Loss> for Code {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Outlived => Refused::Outlived.into(),
            _ => Self::Unavailable,
        }
    }
}

/// An error of a step, a session or a server.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub struct Error {
    /// The class, which says what a program can do about it.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// The task on which it happened, if it was one.
    pub task: Option<TaskName>,
    /// The operation that failed, if it was one.
    pub operation: Option<String>,
}

/// The result of anything that can fail in a user's program.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of class `code`, with what happened.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), task: None, operation: None }
    }

    /// An error of a program's own, such as of a file that it reads, with [`Code::Internal`]; a
    /// text is one, too.
    ///
    /// ```
    /// # use trainyard::runtime::{Error, Result};
    /// fn rate(argument: &str) -> Result<f32> {
    ///     argument.parse().map_err(Error::program)
    /// }
    /// assert_eq!(rate("fast").unwrap_err().to_string(), "Internal: invalid float literal");
    /// ```
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(Code::Internal, error.into().to_string())
    }

    /// The same error, having happened on `task`.
    #[must_use]
    pub fn on(mut self, task: &TaskName) -> Self {
        self.task.get_or_insert_with(|| task.clone());
        self
    }

    /// The same error, having happened in `operation`.
    #[must_use]
    pub fn in_operation(mut self, operation: impl Into<String>) -> Self {
        self.operation.get_or_insert_with(|| operation.into());
        self
    }
}

impl fmt::Display for Error {
    /// `InvalidArgument: label 12 of row 3 … (operation loss on /job:worker/task:2)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)?;
        match (&self.operation, &self.task) {
            (Some(operation), Some(task)) => write!(f, " (operation {operation} on {task})"),
            (Some(operation), None) => write!(f, " (operation {operation})"),
            (None, Some(task)) => write!(f, " (on {task})"),
            (None, None) => Ok(()),
        }
    }
}

/// The error of a task's program that has unwound with `panic`.
pub(crate) fn program_panicked(panic: &(dyn Any + Send)) -> Error {
    panicked(panic, |text| format!("the program panicked: {text}"))
}

/// The error of a simulation that has itself unwound with `panic`.
pub(crate) fn simulation_panicked(panic: &(dyn Any + Send)) -> Error {
    let next = "this is a defect of trainyard, not of the program; please report it";
    panicked(panic, |text| format!("the simulation panicked: {text}; {next}"))
}

fn panicked(panic: &(dyn Any + Send), message: impl FnOnce(&str) -> String) -> Error {
    // Refused memory unwinds, too.
    match panic.downcast_ref::<OutOfMemory>() {
        Some(refused) => (*refused).into(),
        None => Error::new(Code::Internal, message(panic_text(panic))),
    }
}

/// The text that TensorFlow's users look for when a session is closed during a step.
pub(crate) const CLOSED: &str = "the step was cancelled by an explicit call to `Session::close`";

/// The error of a step in a session that its master does not know.
pub(crate) fn no_session() -> Error {
    let message = "the session is closed, by its program, by a reset of its server, or because its \
                   client was away; make a new one";
    Error::new(Code::Aborted, message)
}

/// The error that a task answers once its actors have stopped.
pub(crate) fn stopped() -> Error {
    Error::new(Code::Unavailable, "the server has stopped")
}

macro_rules! invalid_argument {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(Code::InvalidArgument, error.to_string())
            }
        }
    )*};
}
invalid_argument!(PlacementError, ClusterError, ConfigErrors, DeviceNameError);

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::OutOfMemory(refused) => refused.into(),
            mistake => Self::new(Code::InvalidArgument, mistake.to_string()),
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(refused: OutOfMemory) -> Self {
        Self::new(Code::ResourceExhausted, refused.to_string())
    }
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Self {
        if let GraphProblem::Other(cause) = &error.problem {
            if let Some(error) = cause.downcast_ref::<Self>() {
                return error.clone();
            }
            if let Some(TensorError::OutOfMemory(refused)) = cause.downcast_ref() {
                return (*refused).into();
            }
        }
        Self::new(Code::InvalidArgument, error.to_string())
    }
}

impl From<Error> for GraphError {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_of_the_simulation_is_not_called_the_programs() {
        let error = simulation_panicked(&"the clock is set back");
        assert_eq!(error.code, Code::Internal);
        assert!(error.message.starts_with("the simulation panicked: the clock is set back; "));
        assert!(error.message.ends_with("not of the program; please report it"), "{error}");
    }
}
