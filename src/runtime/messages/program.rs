//! Messages from the program of one task to that of another: about places of variables, values that
//! a worker alone has, and checkpoints.

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::runtime::own_values::OwnValuesAnswer;

/// A message to another task's program. No actor's state is part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ProgramMessage {
    /// Worker, to the chief's task: on which tasks are the chief's variables? Answered by `Places`,
    /// once the chief has built its graph.
    AskForPlaces,
    /// Chief's task: where its graph has the variables that workers share.
    Places(Places),
    /// Evaluator, to the chief's task: say of each checkpoint that it is saved. Answered at once by
    /// `CheckpointSaved`.
    WatchCheckpoints,
    /// Chief's task: there may be a checkpoint that the receiver has not seen.
    CheckpointSaved,
    /// Chief, to a worker's task: tell the variables that it alone has, as they were after its step
    /// `count`. Answered by `OwnValues`.
    AskForOwnValues {
        /// The number of its steps that had been counted then.
        count: u64,
    },
    /// Worker, to the chief's task: tell what the checkpoint that was restored has of it. Answered
    /// by `OwnValues`.
    AskForRestoredValues,
    /// The variables that a worker alone has; unasked only from one that takes no more steps.
    OwnValues(OwnValuesAnswer),
}

/// The variables that workers share, by name, each with the task that a graph places it on.
pub type Places = Vec<(String, TaskName)>;
