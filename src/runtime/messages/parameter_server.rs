//! What other tasks tell the parameter server: what to clear, who takes part in the training, and
//! how that ends.

use serde::{Deserialize, Serialize};

use crate::sync::{Departed, Leaving, Progress, View};

use super::Life;
use crate::runtime::error::Error;

/// A message to another task's parameter server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ParameterServerMessage {
    /// Master: clear the containers, or the default one if none is named. Answered by
    /// [`MasterMessage::ResetDone`](super::MasterMessage::ResetDone).
    Reset {
        /// Counts the master's resets.
        number: u64,
        /// The names of the containers.
        containers: Vec<String>,
        /// Whether a training goes on with other values: its departed workers then stay departed.
        within_training: bool,
        /// The incarnations of the tasks, as the master has met them: what the receiver still waits
        /// for from an earlier one is lost before the training goes on.
        incarnations: Vec<Life>,
    },
    /// Program: this worker takes no more steps.
    Leave {
        /// The worker's replica index in the training.
        worker: u32,
        /// Whether the training has ended for it, or it may come back.
        why: Leaving,
        /// The training, by its number in the worker's program; 0 for the one that goes on. The
        /// next one may have begun elsewhere.
        training: u32,
    },
    /// Parameter server or the chief's task: it has lost this worker, and goes on without it. A
    /// task that has never met the worker can't find out by itself. The first task with variables
    /// also tells workers of the chief's loss.
    Lost {
        /// The worker's replica index in the training.
        worker: u32,
    },
    /// Task of the global step: this worker, which had left, takes part again. Who was told that it
    /// leaves can't find out by itself. The first task with variables also tells workers of the
    /// chief's return, from a loss too.
    Back {
        /// The worker's replica index in the training.
        worker: u32,
    },
    /// Task of the global step: who takes part in rounds is about to change. Make no more rounds
    /// until the new view comes. Answered by `Flushed`.
    Flush {
        /// The number of the view.
        number: u32,
        /// The workers that take no part by it.
        out: Vec<u32>,
    },
    /// Task with variables: it makes no more rounds.
    Flushed {
        /// The number of the view.
        number: u32,
        /// How far the gradients of the workers that are out have come, if it has such rounds.
        progress: Vec<(u32, Progress)>,
        /// Whether the announced end has cut off the round under way: it is not made.
        is_cut_off: bool,
    },
    /// Task of the global step: all have answered; go on with these workers.
    Install(View),
    /// Task with variables: let in this worker by a view. It had left, is back, and waits here for
    /// that. The task of the global step may have been down when the worker left.
    LetIn {
        /// The worker's replica index in the training.
        worker: u32,
        /// The number of the newest view that the task knows.
        view: u32,
    },
    /// The training is over; stop waiting for it. From a worker, most often the chief: it announces
    /// the end. From a parameter server to a worker: it passes that on. Between parameter servers:
    /// the gradients behind a barrier are dropped.
    TrainingOver {
        /// The training, by its number in the program; 0, from a task that does not train, for the
        /// one that goes on. The next one may have begun elsewhere.
        training: u32,
    },
    /// Chief: it can't give the variables their values, or save them for the first time, and would
    /// end so again if it was started again. Who waits for them ends with its error.
    ChiefFailed {
        /// The error.
        error: Box<Error>,
        /// Whether the training has never been saved: who trains ends with the error, too.
        is_unsaved: bool,
    },
    /// Parameter server: it was asked to stop, and its variables go with it; save them, and end the
    /// training.
    Stopping,
    /// This worker is back; from the task that told of its loss. Only tasks that neither hold
    /// variables nor coordinate steps act on it: the others find out by themselves.
    Found {
        /// The worker's replica index in the training.
        worker: u32,
    },
}

impl ParameterServerMessage {
    /// What a task is told of the workers that have `departed` from the training of that number, 0
    /// for the one that goes on: by worker, its message.
    pub(crate) fn of_departed(
        departed: &Departed,
        training: u32,
    ) -> impl Iterator<Item = (u32, Self)> {
        let Departed { done, stopped, lost } = departed;
        let leave = move |worker: u32, why| (worker, Self::Leave { worker, why, training });
        let done = done.iter().map(move |worker| leave(*worker, Leaving::Done));
        let stopped = stopped.iter().map(move |worker| leave(*worker, Leaving::Stopped));
        let lost = lost.iter().map(|worker| (*worker, Self::Lost { worker: *worker }));
        done.chain(stopped).chain(lost)
    }
}
