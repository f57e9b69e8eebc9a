//! All messages of the runtime: the sender, the receiver and the answer of each.
//!
//! A message between tasks is a [`PeerMessage`]; the others stay within one task, between its three
//! actors and the sessions of its programs.

mod codec;
mod payload;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::cluster::DeviceSpec;
use crate::graph::{GraphDef, Replica, VariableSpec};
use crate::partition::{CrossingId, Partition, Request};
use crate::sync::Epoch;
use crate::tensor::Tensor;
use crate::transport::{Loss, PeerId};
use crate::units::Time;

use crate::runtime::compression::Packed;
use crate::runtime::error::{Error, Result};
use crate::runtime::reply::Reply;
use crate::runtime::worker::executor::Batch;

pub(crate) use codec::{
    verdict_from_tensor, verdict_to_tensor, version_from_tensor, version_to_tensor,
};
pub(crate) use state::{
    Action, ApplyGradient, Commit, Served, StateRequest, Taken, Ticket, VariableId, Vote,
};

/// One run of a session's graph, by the master that began it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// The master's id, which differs between tasks and between lives of one task.
    pub master: u64,
    /// Counts the master's steps.
    pub number: u64,
}

/// A step of a training, in whichever session and attempt it is taken: identifies the work that a
/// parameter server has done for a step that is taken again because its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The training, by a number that differs among the trainings of one master.
    pub training: u64,
    /// Counts the steps of the training, which are taken one after the other.
    pub number: u64,
}

/// The part of a step that one device of a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StepPart {
    pub(crate) step: StepId,
    pub(crate) device: u32,
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
pub(crate) type Values = SmallVec<[Tensor; 3]>;

/// A message between tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Master to worker: keep this partition ready. Answered by `GraphRegistered`.
    RegisterGraph {
        /// The handle by which the master refers to the partition.
        graph: GraphHandle,
        /// The operations to run.
        partition: Arc<Partition>,
        /// The session, if its variables are its own.
        isolated: Option<Scope>,
    },
    /// Worker to master: the partition is ready, or the error.
    GraphRegistered {
        /// The partition.
        graph: GraphHandle,
        /// `Ok` if the partition is ready.
        outcome: Result<()>,
    },
    /// Master to worker: the session is closed, forget these partitions.
    DeregisterGraphs {
        /// The partitions.
        graphs: Vec<GraphHandle>,
        /// The session, if its variables are its own: they go with it.
        isolated: Option<Scope>,
    },
    /// Master to worker: run a partition. Answered by `GraphDone`.
    RunGraph {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
        /// The values fed to it, in the order of the partition's feeds.
        feeds: Values,
        /// The step's origin, if it is a training step.
        origin: Option<Origin>,
    },
    /// Worker to worker: values of a step for the receiver's rendezvous.
    Tensors {
        /// The step.
        step: StepId,
        /// The receiver's devices that need all of the values.
        devices: SmallVec<[u32; 1]>,
        /// The crossing edges and their values; a control edge has none.
        arrivals: Arrivals,
    },
    /// Worker to worker: like `Tensors`, with some values compressed on the way.
    PackedTensors {
        /// The step.
        step: StepId,
        /// As in `Tensors`.
        devices: SmallVec<[u32; 1]>,
        /// As in `Tensors`.
        arrivals: PackedArrivals,
    },
    /// Worker to master: the partition has run, or the error.
    GraphDone {
        /// The step.
        step: StepId,
        /// The partition.
        graph: GraphHandle,
        /// The fetched values in the order of the partition's fetches.
        outcome: Result<Values>,
        /// When its first kernel began and its last one ended, if it ran any.
        computed: Option<(Time, Time)>,
    },
    /// Master to worker: the step has failed elsewhere; forget it.
    AbortStep(
        /// The step.
        StepId,
    ),
    /// Master to parameter server: clear the containers, or the default one if none is named.
    /// Answered by `ResetDone`.
    Reset {
        /// Counts the master's resets.
        number: u64,
        /// The names of the containers.
        containers: Vec<String>,
        /// Whether a training goes on with other values: its departed workers then stay departed.
        within_training: bool,
    },
    /// Parameter server to master: the containers are cleared.
    ResetDone {
        /// The number of the master's reset.
        number: u64,
        /// The number of variables in the containers.
        variables: u32,
        /// The departed workers of the training, if one goes on.
        departed: Vec<u32>,
    },
    /// Program to parameter servers: this worker takes no more steps.
    Leave {
        /// The worker's replica index in the training.
        worker: u32,
    },
    /// Chief to all: the training is over; stop waiting for it.
    TrainingOver,
}

/// A value on a crossing edge.
pub type Arrival = (CrossingId, Option<Tensor>);

/// The values that come over several edges at once.
pub type Arrivals = SmallVec<[Arrival; 1]>;

/// The same values, encoded for the way.
pub type PackedArrivals = SmallVec<[(CrossingId, Option<Packed>); 1]>;

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

/// A message to a task's master.
#[derive(Debug)]
pub(crate) enum MasterMessage {
    /// Session: begin.
    CreateSession { options: SessionOptions, reply: Reply<Result<SessionId>> },
    /// Session: the graph has grown to this.
    ExtendSession { session: SessionId, graph: Arc<GraphDef> },
    /// Session: run a step.
    RunStep(RunStep),
    /// Session: end; running steps are cancelled.
    CloseSession { session: SessionId },
    /// Program: clear containers on the cluster's tasks; ends all sessions of this master.
    Reset(ResetContainers),
    /// The transport: a worker's answer.
    FromPeer { from: PeerId, message: PeerMessage },
    /// The transport: a task is lost, with the messages on the way to and from it and all that was
    /// registered there.
    Lost { peer: PeerId, loss: Loss },
    /// The clock: a step has reached its deadline, or a long wait is to be logged.
    AlarmRings,
    /// The clock: the reset has reached its deadline.
    ResetDeadlineReached,
    /// The server: say what you wait for.
    Inquire(WaitingList),
    /// The server stops: everything that runs is cancelled.
    Stop,
}

/// A session's request for a step.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) session: SessionId,
    pub(crate) request: Arc<Request>,
    /// The values, in the order of the request's feeds.
    pub(crate) feeds: Values,
    /// The time by which the step must have ended; without one it may take for ever.
    pub(crate) deadline: Option<Time>,
    /// The step's origin, if it is a training step.
    pub(crate) origin: Option<Origin>,
    pub(crate) reply: Reply<Result<StepDone>>,
}

/// Containers to be cleared.
#[derive(Debug)]
pub(crate) struct ResetContainers {
    /// Their names; if there are none, the default container.
    pub(crate) containers: Vec<String>,
    /// Whether a training goes on with other values.
    pub(crate) within_training: bool,
    /// The devices whose tasks are reset, as in [`SessionOptions`].
    pub(crate) device_filters: Vec<DeviceSpec>,
    /// The time by which the reset must have ended; without one it may take for ever.
    pub(crate) deadline: Option<Time>,
    /// Answered with the departed workers of the training, if one goes on.
    pub(crate) reply: Reply<Result<BTreeSet<u32>>>,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(crate) struct StepDone {
    /// The values, in the order of the request's fetches.
    pub(crate) fetches: Values,
    /// When kernels of the master's own task began and ended.
    pub(crate) computed: Option<(Time, Time)>,
}

/// The options of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Use only the devices that match one of these filters, and those of the session's own server.
    /// Without filters, use all devices of the cluster.
    pub device_filters: Vec<DeviceSpec>,
    /// Share no variables with other sessions.
    pub isolate_session_state: bool,
    /// The time that a step may take before it fails and says who had not answered.
    pub operation_timeout: Option<std::time::Duration>,
}

/// A message to a task's worker.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a message is moved into its mailbox; a box would be memory a step"
)]
pub(crate) enum WorkerMessage {
    /// The transport: a master's order, or another worker's values.
    FromPeer { from: PeerId, message: PeerMessage },
    /// The transport: a task is lost, with the messages on the way to and from it and the steps
    /// that it began.
    Lost { peer: PeerId, loss: Loss },
    /// The parameter server: the variables of a partition have been found, or the error.
    Bound { graph: GraphHandle, outcome: Result<Bound> },
    /// The parameter server: requested operations have been done.
    Served(Vec<Served>),
    /// The parameter server: these containers have been cleared, or the default one if none is
    /// named; steps that use variables in them have lost these.
    Cleared(Vec<String>),
    /// The device: the kernels have run.
    Computed(Box<Batch>),
    /// The server: say what you wait for.
    Inquire(WaitingList),
    /// The server stops: masters that wait for a step here are told.
    Stop,
}

/// The variables of a partition at their task, and the epoch of the operations on them.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) variables: Vec<VariableId>,
    pub(crate) epoch: Epoch,
}

/// A message to a task's parameter server.
#[derive(Debug)]
pub(crate) enum ParameterServerMessage {
    /// The worker: look up these variables. Answered by `Bound`. The training steps of `replicas`
    /// will use them.
    Bind {
        from: PeerId,
        graph: GraphHandle,
        scope: Option<Scope>,
        variables: Vec<VariableSpec>,
        replicas: Vec<Replica>,
    },
    /// The program: these tasks train; the first is worker 0.
    Replicas(Vec<PeerId>),
    /// The worker: this session is closed; drop its own variables.
    CloseScope(Scope),
    /// The worker: run these operations. Each is answered by a `Served`.
    Serve(Vec<StateRequest>),
    /// The worker: a step has failed; stop waiting on its behalf.
    Forget(StepId),
    /// The transport: another task's message.
    FromPeer { from: PeerId, message: Box<PeerMessage> },
    /// The worker: a task is lost, which had been these masters; forget the steps that they began.
    Lost { peer: PeerId, masters: Vec<u64> },
    /// The device: rows have been copied; these are the answers.
    Gathered(Vec<Served>),
    /// The device: updates have been computed.
    Updated(Box<super::parameter_server::Updates>),
    /// The server: answer when every one of `workers` has left.
    Join { workers: u32, reply: oneshot::Sender<()> },
    /// The server: say what you wait for.
    Inquire(WaitingList),
    /// The server stops: nobody is answered any more.
    Stop,
}

/// The error that a task answers once its actors have stopped.
pub(crate) fn stopped() -> Error {
    Error::new(super::Code::Unavailable, "the server has stopped")
}
