//! The messages between tasks, by who receives them: an actor, a client or a program. They hold
//! plain data only.
//!
//! What the actors and programs of one task tell each other stays in its process: see
//! [`mail`](super::mail).

mod about;
mod large;
mod operation;
mod packed;
mod parameter_server;
mod payload;
mod program;
mod session;
#[cfg(test)]
mod tests;
mod traffic;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cluster::{LocalDevice, TaskName};
use crate::partition::{CrossingId, Partition};
use crate::sync::Departed;
use crate::tensor::Tensor;
use crate::units::Time;

use crate::runtime::error::{Error, Result};

pub(crate) use about::About;
pub(crate) use large::second_large;
pub use operation::{OperationTime, SentOperation};
pub use packed::{Packed, SentValue};
pub(crate) use packed::{unpacked, written};
pub use parameter_server::ParameterServerMessage;
pub use program::{Places, ProgramMessage};
pub(crate) use session::MOST_RANGES;
pub(crate) use session::device_filters;
pub use session::{ClientMessage, Placing, SessionAction, SessionAnswer, SessionCall};
pub use traffic::Traffic;

/// A task, and an incarnation of it.
pub type Life = (TaskName, u64);

/// One run of a session's graph, by the master that began it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// The master's id, which differs between tasks and between lives of one task.
    pub master: u64,
    /// Counts the master's steps.
    pub number: u64,
    /// Whether it is a step of a training: not an evaluation, a checkpoint or the like.
    pub trains: bool,
}

/// A step of a training, in whichever session and attempt it is taken: identifies the work that a
/// parameter server has done for a step that is taken again because its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The client whose step it is; none for a program of the master's own process. The master sets
    /// it.
    pub owner: Option<u64>,
    /// The training, by a number that differs among the trainings of one master.
    pub training: u64,
    /// Counts the steps of the training, which are taken one after the other.
    pub number: u64,
    /// Whether an earlier attempt may have been carried out, wholly or in part.
    pub is_again: bool,
}

/// The part of a step that one device of a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StepPart {
    pub(crate) step: StepId,
    pub(crate) device: LocalDevice,
}

/// A partition that a worker keeps ready to run, by the master that registered it and its number
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GraphHandle {
    /// The master, as in [`StepId`].
    pub master: u64,
    /// Counts the master's registrations.
    pub number: u64,
}

/// A session of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// A session whose variables are its own: its master's id, as in [`StepId`], and its number there.
pub type Scope = (u64, SessionId);

/// The values of a few outputs.
pub type Values = SmallVec<[Tensor; 2]>;

/// A message between tasks, for one of the receiver's actors or for its program.
///
/// It is moved from list to list some ten times on its way, and stays small for that: what is large
/// and comes seldom is behind a pointer. What comes with every step is not, since that would be
/// memory a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// For the master.
    Master(MasterMessage),
    /// For the worker.
    Worker(WorkerMessage),
    /// For the parameter server.
    ParameterServer(ParameterServerMessage),
    /// For a client, which may be a task.
    Client(ClientMessage),
    /// For the program. It waits for its turn in the parameter server's mail, so that what one task
    /// tells both is heard in its order.
    Program(ProgramMessage),
}

/// A message to another task's master: an answer to what it has ordered, or a client's call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MasterMessage {
    /// Worker: the partition is ready, or the error.
    GraphRegistered {
        /// The partition.
        graph: GraphHandle,
        /// `Ok` if the partition is ready.
        outcome: Result<()>,
    },
    /// Worker: the partition has run, or the error.
    GraphDone {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
        /// The fetched values in the order of the partition's fetches.
        outcome: Result<Values, Box<Error>>,
        /// The time of its kernels, as if they had run without a pause until the last ended. Where
        /// the master is of the same task, updates that wait for no others are among them.
        computed: Option<(Time, Time)>,
    },
    /// Worker: when the operations of a partition ran, just before its `GraphDone`, if that was
    /// asked for.
    Traced {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
        /// The operations in the order in which they ended.
        times: Vec<OperationTime>,
    },
    /// Parameter server: the containers are cleared.
    ResetDone {
        /// The number of the master's reset.
        number: u64,
        /// The number of variables in the containers.
        variables: u32,
        /// The departed workers of the training, if one goes on.
        departed: Departed,
    },
    /// Client: a call for one of its sessions. Answered by [`ClientMessage`].
    Called(
        /// The call.
        Box<SessionCall>,
    ),
    /// Worker: the way to this task has broken, and with it values that steps of the master, ended
    /// here, have sent there.
    WayLost {
        /// The task.
        to: TaskName,
    },
    /// Worker: answers [`WorkerMessage::AskForMaster`].
    Known {
        /// Whether the master has registered anything in this life of the worker's task.
        is_known: bool,
    },
    /// Worker: answers [`WorkerMessage::AskForWays`].
    BlockedWays {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
        /// Its receivers that are not reached, each with the reason.
        to: Vec<(TaskName, String)>,
        /// The tasks of workers that have yet to come and that steps wait for at this task.
        absent: Vec<TaskName>,
    },
}

/// A message to another task's worker: a master's order, or another worker's values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerMessage {
    /// Master: keep this partition ready. Answered by [`MasterMessage::GraphRegistered`].
    RegisterGraph(
        /// What to keep ready.
        GraphOrder,
    ),
    /// Master: the session is closed, forget these partitions.
    DeregisterGraphs {
        /// The partitions.
        graphs: Vec<GraphHandle>,
        /// The session, if its variables are its own: they go with it.
        scope: Option<Scope>,
    },
    /// Master: run a partition. Answered by [`MasterMessage::GraphDone`].
    RunGraph(
        /// What to run.
        StepOrder,
    ),
    /// Worker: values of a step for the receiver's rendezvous.
    Tensors {
        /// The step.
        step: StepId,
        /// The receiver's devices that need all of the values.
        devices: SmallVec<[LocalDevice; 1]>,
        /// The crossing edges and their values; a control edge has none.
        arrivals: Arrivals,
    },
    /// Master: the step has failed elsewhere; forget it.
    AbortStep(
        /// The step.
        StepId,
    ),
    /// Master that had lost the way to this task: does it know the master, or has it begun another
    /// life? Answered by [`MasterMessage::Known`].
    AskForMaster {
        /// The master's id.
        master: u64,
    },
    /// Master: which receivers of this partition are not reached, for whose values the step may
    /// wait, and which workers that have yet to come do steps wait for at the task? Answered by
    /// [`MasterMessage::BlockedWays`].
    AskForWays {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
    },
}

/// A master's order to keep a partition ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphOrder {
    /// The handle by which the master refers to the partition.
    pub graph: GraphHandle,
    /// The operations to run.
    pub partition: Arc<Partition>,
    /// The session, if its variables are its own.
    pub scope: Option<Scope>,
    /// Whether a training step waits for it of which an earlier attempt was given up.
    pub is_again: bool,
    /// The devices that the functions of its conditions and loops may be on, if it has any.
    pub functions: Option<Box<Placing>>,
    /// The task that counts the steps of the partition's training, if it is of one, and the
    /// incarnation of it that the master has met: what an earlier one has told of who takes part
    /// holds no longer.
    pub counted_by: Option<Box<Life>>,
    /// The number of the training in the program that asks for it: 1 for the first, and 1 more for
    /// each that it has ended. 0 if the program is another task's or a client's.
    pub training: u32,
}

/// A master's order to run a partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    /// The step.
    pub step: StepId,
    /// The partition.
    pub graph: GraphHandle,
    /// The values fed to it, in the order of the partition's feeds.
    pub feeds: Values,
    /// The step's origin, if it is a training step.
    pub origin: Option<Origin>,
    /// Whether the times of its operations are recorded.
    pub is_traced: bool,
    /// The number of the step that will follow with the same partition, if all goes well. What it
    /// reads first is read and sent when this step has ended, ahead of its own order.
    pub next: Option<u64>,
}

macro_rules! to_be_sent {
    ($($receiver:ident: $message:ty),* $(,)?) => {$(
        impl From<$message> for PeerMessage {
            fn from(message: $message) -> Self {
                Self::$receiver(message)
            }
        }
    )*};
}

to_be_sent! {
    Master: MasterMessage,
    Worker: WorkerMessage,
    ParameterServer: ParameterServerMessage,
    Client: ClientMessage,
    Program: ProgramMessage,
}

/// A crossing edge and the value on its way over it; a control edge has none.
pub type Arrival = (CrossingId, Option<SentValue>);

/// What comes over several edges at once.
pub type Arrivals = SmallVec<[Arrival; 1]>;

/// A crossing edge and the value that has come over it, as the steps of a task take it.
pub(crate) type Received = (CrossingId, Option<Tensor>);

/// What has come over several edges at once.
pub(crate) type AllReceived = SmallVec<[Received; 1]>;
