//! A server: one task's three actors, started, joined and stopped (TensorFlow: `tf.train.Server`).

mod own_values;
#[cfg(test)]
mod tests;
mod training;

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use crate::clock::{Clock, WallClock};
use crate::cluster::{ClusterSpec, DeviceName, TaskName};
use crate::transport::{InMemoryNetwork, Transport};

use crate::runtime::access::Access;
use crate::runtime::actors::Actors;
use crate::runtime::compression::Encoding;
use crate::runtime::compute::ComputeModel;
use crate::runtime::devices::Devices;
use crate::runtime::error::{Code, Error, Result, stopped};
use crate::runtime::incarnation::Living;
use crate::runtime::inquiry::Inquiry;
use crate::runtime::mail::{MasterMail, ParameterServerMail, WorkerMail};
use crate::runtime::mailbox::tell;
use crate::runtime::master::Master;
use crate::runtime::messages::PeerMessage;
use crate::runtime::outbox::Outbox;
use crate::runtime::parameter_server::ParameterServer;
use crate::runtime::patience::Patience;
use crate::runtime::processor::Processor;
use crate::runtime::progress::TrainingProgress;
use crate::runtime::reply::Answer;
use crate::runtime::session_status::SessionStatus;
use crate::runtime::target::ServerTarget;
use crate::runtime::training_state::TrainingState;
use crate::runtime::waiting::{Wait, Waiting, Waits};
use crate::runtime::worker::Worker;

/// The world that a server lives in: its network, its clock and its devices.
#[derive(Clone)]
pub struct ServerWorld {
    /// The task's end of the network.
    pub transport: Rc<dyn Transport<PeerMessage>>,
    /// The encoding of the values that its steps send to other tasks.
    pub encoding: Encoding,
    /// The clock.
    pub clock: Rc<dyn Clock>,
    /// The task's devices.
    pub devices: Devices,
}

shown!(ServerWorld);

/// A cluster, and the task of it that a server hosts (TensorFlow: `ServerDef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDef {
    /// The cluster.
    pub cluster: ClusterSpec,
    /// The server's task.
    pub task: TaskName,
}

/// Hosts one task of a cluster: a master, a worker and a parameter server.
///
/// A server is made, then started, then stopped, once each; dropping it stops it. TensorFlow's
/// server can't be stopped (`Clean shutdown is not currently implemented`); this one can.
pub struct Server {
    def: ServerDef,
    world: ServerWorld,
    actors: Rc<Actors>,
    outbox: Outbox,
    phase: Cell<Phase>,
    /// The task whose master its program's sessions connect to, if that is another task.
    session_master: RefCell<Option<TaskName>>,
    /// The longest time for which the task's process has stood still.
    standstill: Cell<Duration>,
    /// What its task's program waits for beside the actors.
    waits: Waits,
}

shown!(Server, def);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Started,
    Stopped,
}

impl ServerDef {
    /// The server of one task of `cluster`. The job may be left open if there is only one, the
    /// index if the job has only one task.
    ///
    /// # Errors
    /// If an open job or index is ambiguous, or there is no such job or task.
    pub fn new(cluster: ClusterSpec, job: Option<&str>, index: Option<u32>) -> Result<Self> {
        let job = match (job, cluster.jobs().collect::<Vec<_>>().as_slice()) {
            (Some(job), _) => job.to_owned(),
            (None, [only]) => (*only).to_owned(),
            (None, jobs) => return Err(unclear("job name", &jobs.join(", "))),
        };
        let indices = cluster.task_indices(&job)?;
        let index = match (index, indices.as_slice()) {
            (Some(index), _) => index,
            (None, [only]) => *only,
            (None, _) => return Err(unclear("task index", &format!("{indices:?}"))),
        };
        let task = TaskName::new(job, index);
        if cluster.contains(&task) {
            return Ok(Self { cluster, task });
        }
        Err(Error::new(
            Code::InvalidArgument,
            format!("task {task} is not defined in the cluster {cluster}"),
        ))
    }
}

fn unclear(what: &str, choices: &str) -> Error {
    Error::new(Code::InvalidArgument, format!("an explicit {what} is needed: one of {choices}"))
}

impl Server {
    /// A server in a world; its actors run, but it takes no messages of other tasks until started.
    pub fn new(def: ServerDef, world: ServerWorld) -> Self {
        let access = Access::new(&def.cluster, &world.transport);
        let training = TrainingState::new(&def.cluster, world.transport.peers());
        let actors = Rc::new(Actors::new(access, training));
        let outbox =
            || Outbox::new(Rc::clone(&actors), Rc::clone(&world.transport), world.encoding);
        let devices = world.devices.of_cluster(&def.cluster);
        let id = Living::Master.id(&def.task, &*world.clock);
        actors.access.own(id, world.transport.peers().local());
        let world_of = || (Rc::clone(&world.clock), world.devices.clone());
        let master = Master::new(outbox(), Rc::clone(&world.clock), id, devices);
        actors.master.run(master, &actors.panics);
        let (clock, devices) = world_of();
        actors.worker.run(Worker::new(outbox(), clock, devices), &actors.panics);
        let (clock, devices) = world_of();
        let parameter_server = ParameterServer::new(outbox(), clock, devices);
        actors.parameter_server.run(parameter_server, &actors.panics);
        let outbox = outbox();
        let (phase, session_master) = (Cell::new(Phase::New), RefCell::new(None));
        let (standstill, waits) = (Cell::default(), Waits::default());
        Self { def, world, actors, outbox, phase, session_master, standstill, waits }
    }

    /// A started server that is a cluster by itself: the job `localhost` with one task, in this
    /// process and in real time (TensorFlow: `create_local_server`).
    ///
    /// # Panics
    /// Outside of an actix system.
    pub fn create_local() -> Self {
        let cluster =
            ClusterSpec::simulated([("localhost", 1)]).expect("one job of one task is a cluster");
        let servers = Self::create_cluster(&cluster);
        servers.into_iter().next().expect("a cluster of one task has one server")
    }

    /// Started servers for all tasks of `cluster`, in its order, in this process and in real time.
    ///
    /// # Panics
    /// Outside of an actix system.
    pub fn create_cluster(cluster: &ClusterSpec) -> Vec<Self> {
        Self::create_cluster_with_devices(cluster, NonZeroU32::MIN)
    }

    /// [`Server::create_cluster`] of tasks with `devices` devices each, which all compute on this
    /// machine's one processor (TensorFlow: `ConfigProto.device_count`).
    ///
    /// # Panics
    /// Outside of an actix system.
    pub fn create_cluster_with_devices(cluster: &ClusterSpec, devices: NonZeroU32) -> Vec<Self> {
        let devices: Devices = (0..devices.get())
            .map(|_| Rc::new(Processor::default()) as Rc<dyn ComputeModel>)
            .collect();
        let network = InMemoryNetwork::new(cluster);
        let clock: Rc<dyn Clock> = Rc::new(WallClock::new());
        let server = |task: TaskName| {
            let transport =
                network.endpoint(&task).expect("the network is between the tasks of the cluster");
            let (encoding, clock) = (Encoding::Exact, Rc::clone(&clock));
            let world = ServerWorld { transport, encoding, clock, devices: devices.clone() };
            let server = Self::new(ServerDef { cluster: cluster.clone(), task }, world);
            server.start().expect("a new server can be started");
            server
        };
        cluster.tasks().map(server).collect()
    }

    /// Begins to take messages from other tasks. Starting it again does nothing.
    ///
    /// # Errors
    /// If it has been stopped.
    pub fn start(&self) -> Result<()> {
        if self.phase.get() == Phase::Stopped {
            return Err(
                Error::new(Code::FailedPrecondition, "the server has stopped").on(self.task())
            );
        }
        if self.phase.replace(Phase::Started) == Phase::New {
            self.world
                .transport
                .listen(Rc::clone(&self.actors) as Rc<dyn crate::transport::Inbox<PeerMessage>>);
        }
        Ok(())
    }

    /// Waits until all `workers` replicas have left the training.
    ///
    /// # Errors
    /// If the server is not started, or stops before; if no other task uses it for as long as
    /// `patience` says.
    pub async fn join(&self, workers: u32, patience: Patience) -> Result<()> {
        match self.phase.get() {
            Phase::New => {
                let message = "a server that is not started can't be joined; start it first";
                return Err(Error::new(Code::FailedPrecondition, message).on(self.task()));
            }
            Phase::Stopped => return Err(stopped().on(self.task())),
            Phase::Started => {}
        }
        let joined = Answer::new();
        let reply = joined.reply();
        tell(&self.actors.parameter_server, ParameterServerMail::Join { workers, patience, reply });
        joined.await.unwrap_or_else(|| Err(stopped().on(self.task())))
    }

    /// Lets clients, which are no tasks of the cluster, run graphs here (a certificate of
    /// `client:N`). A task of a training lets them only ask for its status. The sessions of a
    /// client whose connection is lost end once it has been away for `limit`.
    pub fn serve_sessions(&self, limit: Duration) {
        self.actors.access.serve_sessions(limit);
    }

    /// Whether clients may run graphs here.
    pub fn serves_sessions(&self) -> bool {
        self.actors.access.serves_sessions()
    }

    /// The messages that were refused: the peer, and the reason, each once.
    pub fn refusals(&self) -> Vec<(TaskName, String)> {
        self.actors.access.refusals()
    }

    /// Cancels the running steps, and takes no more messages. Stopping it again does nothing.
    pub fn stop(&self) {
        let before = self.phase.replace(Phase::Stopped);
        if before == Phase::Started {
            self.world.transport.close();
        }
        if before != Phase::Stopped {
            self.actors.remotes.stop();
            tell(&self.actors.master, MasterMail::Stop);
            tell(&self.actors.worker, WorkerMail::Stop);
            tell(&self.actors.parameter_server, ParameterServerMail::Stop);
        }
    }

    /// Whether its actors have dealt with all that they were sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.actors.are_idle()
    }

    /// The error of a server one of whose actors has panicked; it can't go on.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.actors.panics.first().map(|what| broken(&what).on(self.task()))
    }

    /// Waits until an actor has panicked, and returns the error.
    pub(crate) fn breaks(&self) -> impl Future<Output = Error> + use<> {
        let (panics, task) = (Rc::clone(&self.actors.panics), self.task().clone());
        async move { broken(&panics.noted().await).on(&task) }
    }

    /// The target that a session connects to.
    pub fn target(&self) -> ServerTarget {
        let (clock, master) = (Rc::clone(&self.world.clock), self.actors.master.clone());
        ServerTarget::new(self.def.task.clone(), master, clock, None)
    }

    /// The target of a session on the server of `task`, of which this task is then a client: its
    /// master plans and runs the steps.
    ///
    /// # Errors
    /// If the cluster has no such task, or its address is not known here.
    pub fn target_of(&self, task: &TaskName) -> Result<ServerTarget> {
        self.reach(task, Patience::default())
    }

    /// [`Server::target_of`]; if the server of `task` can't be reached, it is waited for as
    /// `patience` says. The first session with it decides.
    fn reach(&self, task: &TaskName, patience: Patience) -> Result<ServerTarget> {
        if *task == self.def.task {
            return Ok(self.target());
        }
        let unknown = || {
            let message = format!("{} does not know the task {task}", self.def.task);
            Error::new(Code::NotFound, message)
        };
        let peer = self.outbox.resolve(task).ok_or_else(unknown)?;
        let (Actors { remotes, panics, .. }, world) = (&*self.actors, &self.world);
        let master = remotes.reach(peer, &world.transport, &world.clock, patience, panics);
        let clock = Rc::clone(&world.clock);
        Ok(ServerTarget::new(task.clone(), master, clock, None))
    }

    /// Has the sessions of this task's program connect to the master of `task` (TensorFlow:
    /// `RunConfig.master`).
    ///
    /// # Errors
    /// As [`Server::target_of`].
    pub fn set_session_master(&self, task: &TaskName) -> Result<()> {
        if self.outbox.resolve(task).is_none() {
            return self.target_of(task).map(drop); // its error
        }
        self.session_master.replace(Some(task.clone()));
        Ok(())
    }

    /// The target of the sessions of this task's program. If that is another task, sessions wait
    /// for it by `patience`.
    pub(crate) fn session_target(&self, patience: Patience) -> ServerTarget {
        match &*self.session_master.borrow() {
            Some(task) => self.reach(task, patience).expect("it was known when it was set"),
            None => self.target(),
        }
    }

    /// The cluster, and the server's task in it.
    pub fn server_def(&self) -> &ServerDef {
        &self.def
    }

    /// The server's task.
    pub fn task(&self) -> &TaskName {
        &self.def.task
    }

    /// The clock that its task lives by.
    pub fn clock(&self) -> &Rc<dyn Clock> {
        &self.world.clock
    }

    /// The names of the task's devices.
    pub fn devices(&self) -> impl Iterator<Item = DeviceName> {
        self.world.devices.own().map(|device| DeviceName::new(self.def.task.clone(), device))
    }

    /// Has the task's kernels that spread over threads use so many cores; `None` leaves that to the
    /// machine (TensorFlow: `RunConfig.num_cores`).
    pub(crate) fn use_cores(&self, cores: Option<NonZeroU32>) {
        self.world.devices.use_cores(cores);
    }

    /// Notes that the task's program waits for `what`, until the note is dropped.
    pub(crate) fn note_wait(&self, what: String) -> Wait {
        self.waits.begin(Waiting { who: format!("program of {}", self.task()), what })
    }

    /// What the task's program waits for beside the actors.
    pub(crate) fn waits(&self) -> Vec<Waiting> {
        self.waits.all()
    }

    /// Asks the actors what they wait for, and says what the program does; they answer once they
    /// have dealt with all earlier messages.
    pub(crate) fn inquire(&self, inquiry: &Inquiry<Waiting>) {
        inquiry.ask().answer(self.waits());
        tell(&self.actors.master, MasterMail::Inquire(inquiry.ask()));
        tell(&self.actors.worker, WorkerMail::Inquire(inquiry.ask()));
        tell(&self.actors.parameter_server, ParameterServerMail::Inquire(inquiry.ask()));
        self.actors.remotes.inquire(inquiry);
    }

    /// Asks the parameter server how far the training is.
    pub(crate) fn look_at_progress(&self, inquiry: &Inquiry<TrainingProgress>) {
        tell(&self.actors.parameter_server, ParameterServerMail::LookAtProgress(inquiry.ask()));
    }

    /// Asks the master for its sessions.
    pub(crate) fn list_sessions(&self, inquiry: &Inquiry<SessionStatus>) {
        tell(&self.actors.master, MasterMail::ListSessions(inquiry.ask()));
    }
}

fn broken(what: &str) -> Error {
    Error::new(Code::Internal, format!("{what}; this is a defect, of trainyard or of an operation"))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
