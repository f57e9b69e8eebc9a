//! All messages of the runtime: who sends each, who takes it, what answers it.
//!
//! What crosses between tasks is a [`PeerMessage`]; the rest stays within one task, between its
//! three actors and the session that a program holds.

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

/// One run of a session's graph: which master began it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// The master, by a number that differs between tasks and between lives of one task.
    pub master: u64,
    /// Counts the master's steps.
    pub number: u64,
}

/// A step of a training, whichever session and try it is taken in: by it a parameter server knows
/// what it has done for a step that is taken again because its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The training, by a number that differs among those of a master.
    pub training: u64,
    /// Counts the steps of the training; one is taken after the other.
    pub number: u64,
}

/// The part of a step that one device of a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StepPart {
    pub(crate) step: StepId,
    pub(crate) device: u32,
}

/// A partition that a worker keeps ready to run: the master that registered it, and its number
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

/// A session whose variables are its own: its master, as in [`StepId`], and its number there.
pub type Scope = (u64, SessionId);

/// The values of a few outputs.
pub(crate) type Values = SmallVec<[Tensor; 3]>;

/// What crosses between tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Master to worker: keep this partition ready. Answered by `GraphRegistered`.
    RegisterGraph {
        /// How the master will refer to it.
        graph: GraphHandle,
        /// What to run.
        partition: Arc<Partition>,
        /// The session, where its variables are its own.
        isolated: Option<Scope>,
    },
    /// Worker to master: the partition is ready, or why not.
    GraphRegistered {
        /// Which.
        graph: GraphHandle,
        /// Whether it is.
        outcome: Result<()>,
    },
    /// Master to worker: the session is closed, forget these partitions.
    DeregisterGraphs {
        /// Which.
        graphs: Vec<GraphHandle>,
        /// The session, where its variables are its own: they go with it.
        isolated: Option<Scope>,
    },
    /// Master to worker: run a partition. Answered by `GraphDone`.
    RunGraph {
        /// The step.
        step: StepId,
        /// Which partition.
        graph: GraphHandle,
        /// The values fed to it, in the order of the partition's feeds.
        feeds: Values,
        /// Which step of a training it is, where it is one.
        origin: Option<Origin>,
    },
    /// Worker to worker: values of a step for the receiver's rendezvous.
    Tensors {
        /// The step.
        step: StepId,
        /// Those of the receiver's devices that need all of them.
        devices: SmallVec<[u32; 1]>,
        /// Which crossing edge brings which value; none for a control edge.
        arrivals: Arrivals,
    },
    /// Worker to worker: the same, of which some are compressed on the way.
    PackedTensors {
        /// The step.
        step: StepId,
        /// As in `Tensors`.
        devices: SmallVec<[u32; 1]>,
        /// As in `Tensors`.
        arrivals: PackedArrivals,
    },
    /// Worker to master: the partition has run, or why not.
    GraphDone {
        /// The step.
        step: StepId,
        /// Which partition.
        graph: GraphHandle,
        /// The fetched values in the order of the partition's fetches.
        outcome: Result<Values>,
        /// When its kernels began and ended to run, where it had any.
        computed: Option<(Time, Time)>,
    },
    /// Master to worker: the step has failed elsewhere, forget it.
    AbortStep(
        /// The step.
        StepId,
    ),
    /// Master to parameter server: clear the containers, the default one where none is named.
    /// Answered by `ResetDone`.
    Reset {
        /// Counts the master's resets.
        number: u64,
        /// Which.
        containers: Vec<String>,
        /// Whether a training goes on with other values: who has departed from it stays so.
        within_training: bool,
    },
    /// Parameter server to master: the containers are cleared.
    ResetDone {
        /// Which of the master's resets.
        number: u64,
        /// How many variables there were in them.
        variables: u32,
        /// Where a training goes on: which of its workers have departed.
        departed: Vec<u32>,
    },
    /// Program to parameter servers: this worker takes no more steps.
    Leave {
        /// Which replica it was in the training.
        worker: u32,
    },
    /// Chief to all: the training is over, let go of whoever waits.
    TrainingOver,
}

/// A value on a crossing edge.
pub type Arrival = (CrossingId, Option<Tensor>);

/// What comes over several edges at once.
pub type Arrivals = SmallVec<[Arrival; 1]>;

/// The same, on their way.
pub type PackedArrivals = SmallVec<[(CrossingId, Option<Packed>); 1]>;

/// Who waits for what, for a report of a hang.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Who waits.
    pub who: String,
    /// For what.
    pub what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.who, self.what)
    }
}

/// Where actors write what they wait for.
pub type WaitingList = Arc<Mutex<Vec<Waiting>>>;

/// To a task's master.
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
    /// The transport: what was under way to and from a task is lost, and what was registered there.
    Lost { peer: PeerId, loss: Loss },
    /// The clock: a step has had its time, or is to be asked for.
    AlarmRings,
    /// The clock: the reset has had its time.
    ResetDeadlineReached,
    /// The server: say what you wait for.
    Inquire(WaitingList),
    /// The server stops: everything that runs is cancelled.
    Stop,
}

/// A step as a session asks for it.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) session: SessionId,
    pub(crate) request: Arc<Request>,
    /// In the order of the request's feeds.
    pub(crate) feeds: Values,
    /// When the step has had its time; never, where there is none.
    pub(crate) deadline: Option<Time>,
    /// Which step of a training it is, where it is one.
    pub(crate) origin: Option<Origin>,
    pub(crate) reply: Reply<Result<StepDone>>,
}

/// Containers to be cleared.
#[derive(Debug)]
pub(crate) struct ResetContainers {
    /// The default one where none is named.
    pub(crate) containers: Vec<String>,
    /// Whether a training goes on with other values.
    pub(crate) within_training: bool,
    /// On which tasks, as in [`SessionOptions`].
    pub(crate) device_filters: Vec<DeviceSpec>,
    /// When the reset has had its time; never, where there is none.
    pub(crate) deadline: Option<Time>,
    /// Answered with the workers that have departed from the training, where one goes on.
    pub(crate) reply: Reply<Result<BTreeSet<u32>>>,
}

/// What a step gave.
#[derive(Clone, Debug)]
pub(crate) struct StepDone {
    /// In the order of the request's fetches.
    pub(crate) fetches: Values,
    /// When kernels of the master's own task began and ended to run.
    pub(crate) computed: Option<(Time, Time)>,
}

/// What a session is like.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Use only the devices that one of these matches, and those of the session's own server.
    /// All of the cluster's where there is none.
    pub device_filters: Vec<DeviceSpec>,
    /// Share no variables with other sessions.
    pub isolate_session_state: bool,
    /// How long a step may take before it fails and says who had not answered.
    pub operation_timeout: Option<std::time::Duration>,
}

/// To a task's worker.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a message is moved into its mailbox; a box would be memory a step"
)]
pub(crate) enum WorkerMessage {
    /// The transport: a master's order, or another worker's values.
    FromPeer { from: PeerId, message: PeerMessage },
    /// The transport: what was under way to and from a task is lost, and with it the steps that it
    /// began.
    Lost { peer: PeerId, loss: Loss },
    /// The parameter server: the variables of a partition have been found, or why not.
    Bound { graph: GraphHandle, outcome: Result<Bound> },
    /// The parameter server: what it was asked has been done.
    Served(Vec<Served>),
    /// The parameter server: containers have been cleared, the default one where none is named, and
    /// steps that use variables in them have lost these.
    Cleared(Vec<String>),
    /// The device: the kernels have run.
    Computed(Box<Batch>),
    /// The server: say what you wait for.
    Inquire(WaitingList),
    /// The server stops: masters that wait for a step here are told.
    Stop,
}

/// The variables of a partition at their task, and the epoch of what is done to them.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) variables: Vec<VariableId>,
    pub(crate) epoch: Epoch,
}

/// To a task's parameter server.
#[derive(Debug)]
pub(crate) enum ParameterServerMessage {
    /// The worker: which variables are these? Answered by `Bound`. The steps of `replicas` will use
    /// them.
    Bind {
        from: PeerId,
        graph: GraphHandle,
        scope: Option<Scope>,
        variables: Vec<VariableSpec>,
        replicas: Vec<Replica>,
    },
    /// The program: these tasks train, the first as worker 0.
    Replicas(Vec<PeerId>),
    /// The worker: this session is closed, its own variables go.
    CloseScope(Scope),
    /// The worker: run these operations. Each is answered by a `Served`.
    Serve(Vec<StateRequest>),
    /// The worker: a step has failed; whatever waits for it waits in vain.
    Forget(StepId),
    /// The transport: another task's message.
    FromPeer { from: PeerId, message: Box<PeerMessage> },
    /// The worker: a task is lost, which was these masters; steps that they began are forgotten.
    Lost { peer: PeerId, masters: Vec<u64> },
    /// The device: rows have been copied, these are the answers.
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

/// An error as an answer of a task whose actors have stopped.
pub(crate) fn stopped() -> Error {
    Error::new(super::Code::Unavailable, "the server has stopped")
}
