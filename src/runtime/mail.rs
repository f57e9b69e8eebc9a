//! The mail of a task's three actors: what arrives for them, and what they, their devices and the
//! programs of their own task tell each other. It never leaves the process.

use std::sync::Arc;

use crate::cluster::{ClusterSpec, DeviceSpec, TaskName};
use crate::graph::{GraphDef, Replica, VariableSpec};
use crate::partition::Request;
use crate::sync::Departed;
use crate::transport::{Loss, PeerId};
use crate::units::Time;

use crate::runtime::error::{Error, Result};
use crate::runtime::inquiry::Asked;
use crate::runtime::messages::{
    ClientMessage, GraphHandle, Life, MasterMessage, OperationTime, Origin, ParameterServerMessage,
    ProgramMessage, Scope, SessionId, StepId, Values, WorkerMessage,
};
use crate::runtime::parameter_server::updating::Updates;
use crate::runtime::patience::Patience;
use crate::runtime::progress::TrainingProgress;
use crate::runtime::reply::Reply;
use crate::runtime::session_options::SessionOptions;
use crate::runtime::session_status::SessionStatus;
use crate::runtime::state::{Bound, Served, StateRequest, VariableId};
use crate::runtime::waiting::Waiting;
use crate::runtime::worker::copied::Copied;
use crate::runtime::worker::executor::Batch;

/// The mail of a task's master, or of what stands in for the master of another server.
#[derive(Debug)]
pub(crate) enum MasterMail {
    /// Another task, or this one's own worker or parameter server: an answer. A client: a call.
    FromPeer { from: PeerId, message: MasterMessage },
    /// The master of another server, of which this is a client: an answer.
    FromMaster(ClientMessage),
    /// Session: begin.
    CreateSession { options: SessionOptions, reply: Reply<Result<SessionId>> },
    /// Session: the graph has grown to this.
    ExtendSession { session: SessionId, graph: Arc<GraphDef> },
    /// Session: run a step.
    RunStep(RunStep),
    /// Session: end; running steps fail with `error`.
    CloseSession { session: SessionId, error: Error },
    /// Program: clear containers on the cluster's tasks; ends all sessions of this master.
    Reset(ResetContainers),
    /// The transport: a task is lost, with the messages on the way to and from it and all that was
    /// registered there.
    Lost { peer: PeerId, loss: Loss },
    /// The clock: a step has reached its deadline, or a long wait is to be logged.
    AlarmRings,
    /// The clock: the reset of that number has reached its deadline.
    ResetDeadlineReached { number: u64 },
    /// The clock: the reset of that number has waited for workers long enough.
    ResetGraceIsOver { number: u64 },
    /// The clock: the time is over in which the peer might have come back as this client.
    ClientIsGone { peer: PeerId, client: u64 },
    /// The server: say what you wait for.
    Inquire(Asked<Waiting>),
    /// The server: list the sessions.
    ListSessions(Asked<SessionStatus>),
    /// The server stops: everything that runs is cancelled.
    Stop,
}

/// The mail of a task's worker.
#[derive(Debug)]
pub(crate) enum WorkerMail {
    /// A task's master: an order. Another task's worker: values.
    FromPeer { from: PeerId, message: WorkerMessage },
    /// The transport: a task is lost, which had been these masters, with the messages on the way
    /// to and from it and the steps that it began.
    Lost { peer: PeerId, masters: Vec<u64>, loss: Loss },
    /// The parameter server: the variables of a partition have been found, or the error. They have
    /// `replaced` others, which are gone.
    Bound {
        graph: GraphHandle,
        attempt: u64,
        outcome: Result<Bound, Box<Error>>,
        replaced: Vec<VariableId>,
    },
    /// The parameter server, or a condition or a loop: operations have been done.
    Served(Vec<Served>),
    /// The parameter server: variables have been read ahead for `step`; none of them if one of them
    /// could not be read at once.
    ReadAhead { graph: GraphHandle, step: StepId, served: Vec<Served> },
    /// The parameter server: these containers have been cleared, or the default one if none is
    /// named; steps that use variables in them have lost these.
    Cleared(Vec<String>),
    /// The master: this client calls, for the first time or after it was away. That goes by way of
    /// the worker, as the client's losses do, so that the two can't overtake each other.
    ClientHasCome { client: PeerId, master: u64 },
    /// The device: the kernels have run.
    Computed(Box<Batch>),
    /// The device: values have been copied from or to its memory.
    Copied(Box<Copied>),
    /// The server: say what you wait for.
    Inquire(Asked<Waiting>),
    /// The server stops: masters that wait for a step here are told.
    Stop,
}

/// A partition for the parameter server of its task to make ready: it looks up the variables.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) from: PeerId,
    pub(crate) graph: GraphHandle,
    /// The worker's number of the registration, which it is told again.
    pub(crate) attempt: u64,
    pub(crate) scope: Option<Scope>,
    pub(crate) variables: Vec<VariableSpec>,
    /// The replicas whose training steps it is a part of.
    pub(crate) replicas: Vec<Replica>,
    /// Whether it counts their steps.
    pub(crate) counts: bool,
    /// The task that counts the steps, and the incarnation of it that the master has met.
    pub(crate) counted_by: Option<Box<Life>>,
    /// Whether a training step is to be taken again with it: parts of the earlier attempt may have
    /// been carried out.
    pub(crate) is_again: bool,
    /// The number of the training in its program, or 0, as in [`GraphOrder`].
    ///
    /// [`GraphOrder`]: super::messages::GraphOrder
    pub(crate) training: u32,
}

/// The mail of a task's parameter server.
#[derive(Debug)]
pub(crate) enum ParameterServerMail {
    /// A task's master: clear containers. A program or another parameter server: a worker leaves,
    /// is lost or comes back, the view changes, or the training ends.
    FromPeer { from: PeerId, message: ParameterServerMessage },
    /// The program of another task, or of this one: something for the program, which is told in
    /// this actor's turn.
    FromProgram { from: PeerId, message: ProgramMessage },
    /// The worker: make this partition ready. Answered by `Bound`.
    Bind(Box<Binding>),
    /// The worker: nobody waits any more for these partitions to be made ready.
    GiveUp(Vec<GraphHandle>),
    /// The program: the workers of this cluster train.
    Cluster(ClusterSpec),
    /// The worker: this session is closed; drop its own variables.
    CloseScope(Scope),
    /// The worker: run these operations. Each is answered by a `Served`.
    Serve(Vec<StateRequest>),
    /// The worker: read these variables for `step`, which is still to be ordered. Answered by
    /// `ReadAhead`.
    ReadAhead { graph: GraphHandle, step: StepId, reads: Vec<StateRequest> },
    /// The worker: a step has failed; stop waiting on its behalf.
    Forget(StepId),
    /// The worker: a task is lost, which had been these masters; forget the steps that they began.
    Lost { peer: PeerId, masters: Vec<u64>, loss: Loss },
    /// The clock: workers missed since the silence of that number are waited for no longer.
    GraceIsOver { silence: u64 },
    /// The worker: this client of the task's master calls, for the first time or after it was away.
    ClientHasCome { client: PeerId, master: u64 },
    /// The device: rows have been copied; these are the answers.
    Gathered(Vec<Served>),
    /// The device: updates have been computed.
    Updated(Box<Updates>),
    /// The worker: tell this master that the part `graph` of its step does not reach the tasks in
    /// `to`, and whom steps wait for here.
    TellWays { master: PeerId, step: StepId, graph: GraphHandle, to: Vec<(TaskName, String)> },
    /// The server: answer when every one of `workers` has left, or when `patience` is at its end.
    Join { workers: u32, patience: Patience, reply: Reply<Result<()>> },
    /// The clock: it is time to look whether anybody uses the task.
    CheckJoins,
    /// The clock: it is time to look whether steps are answered.
    CheckSteps,
    /// The server: this task was asked to stop.
    AskedToStop,
    /// The server: say what you wait for.
    Inquire(Asked<Waiting>),
    /// The server: say how far the training is.
    LookAtProgress(Asked<TrainingProgress>),
    /// The server stops: nobody is answered any more.
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
    /// Whether the times of its operations are recorded.
    pub(crate) is_traced: bool,
    /// Whether variables are read for the step that follows as soon as this one has ended: nobody
    /// changes them between the two.
    pub(crate) reads_ahead: bool,
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
    pub(crate) reply: Reply<Result<Departed>>,
}

/// The result of a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepDone {
    /// The values, in the order of the request's fetches.
    pub(crate) fetches: Values,
    /// The time of the kernels on the master's own task: from the earliest beginning to the latest
    /// end of its devices' `computed` in [`MasterMessage::GraphDone`]. If that task has no part in
    /// the step: of the tasks without variables that have. Their clocks differ, so each span is
    /// taken to end when its `GraphDone` arrives.
    pub(crate) computed: Option<(Time, Time)>,
    /// When its operations ran, if that was asked for.
    pub(crate) times: Vec<OperationTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_a_mailbox_stays_small_since_it_is_moved_from_list_to_list() {
        let mails =
            [size_of::<MasterMail>(), size_of::<WorkerMail>(), size_of::<ParameterServerMail>()];
        assert!(mails.iter().all(|size| *size <= 144), "{mails:?}");
        let (request, answer) = (size_of::<StateRequest>(), size_of::<Served>());
        assert!(request <= 272 && answer <= 128, "{request}, {answer}");
    }
}
