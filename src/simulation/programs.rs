//! The programs of a simulation's tasks and the servers under them: started, killed by a fault or
//! asked to stop, started again, and awaited.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::task::{Poll, ready};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinError};

use crate::cluster::{Role, TaskName};
use crate::runtime::{
    ClusterDevices, Code, ComputeModel, Devices, Error, FLUSH, FLUSH_FAILED, Server, ServerDef,
    ServerWorld, program_panicked,
};

use super::cluster::Cluster;
use super::device::DeviceOf;
use super::driver::Driver;
use super::endpoints::{SimulatedClock, SimulatedDevice, SimulatedTransport};
use super::fault_injector::Leaver;
use super::stall::Stall;
use super::world::RunCommand;

/// All programs of a run.
pub(super) struct Programs<'a, P, T> {
    cluster: &'a Cluster,
    driver: Rc<Driver>,
    program: &'a P,
    tasks: Vec<TaskState<T>>,
    devices: ClusterDevices,
    /// Handed to each program that is started.
    results: UnboundedSender<ProgramResult<T>>,
    returned: UnboundedReceiver<ProgramResult<T>>,
    /// The question to all actors, once the run has stalled.
    stall: Option<Stall>,
    /// The error of a training whose parameter server was asked to stop, and does not come back.
    stopped: Option<Error>,
}

struct TaskState<T> {
    name: TaskName,
    /// Its server, unless it is dead.
    server: Option<Rc<Server>>,
    program: Program<T>,
}

enum Program<T> {
    Running(AbortHandle),
    /// It has returned, as a task was asked to stop, and its process is about to end.
    Leaving,
    /// Its process has ended; it starts again later.
    Restarting,
    /// It has returned. Its process ends, too, once its last messages have arrived.
    Returned(T),
    /// Its process has ended for good, or is about to.
    Dead,
}

/// The next thing for the run to deal with.
enum Next<T> {
    Command(RunCommand),
    Result(ProgramResult<T>),
}

struct ProgramResult<T> {
    task: usize,
    result: Result<T, Error>,
}

impl<T> TaskState<T> {
    /// Its name, if its process has ended since its program has returned.
    fn ended(&self) -> Option<&TaskName> {
        let has_ended = matches!(self.program, Program::Returned(_)) && self.server.is_none();
        has_ended.then_some(&self.name)
    }
}

impl<'a, P, F, T> Programs<'a, P, T>
where
    P: Fn(Rc<Server>) -> F,
    F: Future<Output = Result<T, Error>> + 'static,
    T: 'static,
{
    /// Starts all servers, then all programs.
    pub(super) fn start(cluster: &'a Cluster, driver: &Rc<Driver>, program: &'a P) -> Self {
        let (results, returned) = unbounded_channel();
        let state = |name| TaskState { name, server: None, program: Program::Restarting };
        let tasks = cluster.spec.tasks().map(state).collect();
        let driver = Rc::clone(driver);
        let (stall, stopped) = (None, None);
        let gpus =
            cluster.hardware.gpus.iter().map(|(task, gpus)| (task.clone(), gpus.count.get()));
        let devices = ClusterDevices::with_gpus(gpus.collect());
        let mut programs =
            Self { cluster, driver, program, tasks, devices, results, returned, stall, stopped };
        if cluster.replay.is_some() {
            return programs; // each task starts when it did
        }
        let servers: Vec<_> = (0..programs.tasks.len()).map(|i| programs.serve(i, 0)).collect();
        for (task, server) in servers.into_iter().enumerate() {
            programs.begin(task, server);
        }
        programs
    }

    /// Carries out the commands of faults until every program has returned or died for good, until
    /// one fails, or until the run stalls.
    pub(super) async fn finish(
        mut self,
        mut commands: UnboundedReceiver<RunCommand>,
    ) -> Result<BTreeMap<TaskName, T>, Error> {
        while self.are_running() {
            match self.next(&mut commands).await {
                Next::Command(command) => self.carry_out(command)?,
                Next::Result(result) => self.take(result)?,
            }
        }
        self.stopped.take().map_or(Ok(()), Err)?;
        let departure = self.driver.world.borrow_mut().departure_at_end();
        departure.map_or(Ok(()), Err)?;
        let results = self.tasks.into_iter().filter_map(|task| match task.program {
            Program::Returned(value) => Some((task.name, value)),
            _ => None,
        });
        Ok(results.collect())
    }

    /// Takes the result of a program, and has the process of its task end. As a deployed one, it
    /// sends its last messages first, and then tells its peers.
    ///
    /// # Errors
    /// If it is one that ends the run.
    fn take(&mut self, ended: ProgramResult<T>) -> Result<(), Error> {
        let ProgramResult { task, result } = ended;
        let limit = if result.is_ok() { FLUSH } else { FLUSH_FAILED };
        let asked = self.ended_by_a_stop(task, &result);
        self.tasks[task].program = match (asked, result) {
            (Some(asked), _) => {
                self.note_stop(task, asked);
                Program::Leaving
            }
            (None, Ok(value)) => Program::Returned(value),
            (None, Err(error)) if self.goes_on_without(task, &error) => {
                let name = &self.tasks[task].name;
                tracing::warn!(%error, "the process of {name} ends; the others go on");
                Program::Dead
            }
            (None, Err(error)) => return Err(self.root_cause(task, error)),
        };
        self.driver.world.borrow_mut().leave(Leaver { task, asked, limit });
        Ok(())
    }

    /// The task whose request to stop, by a fault, has ended the program of `task` with `result`;
    /// none if the program has come to the end of its training, or has failed by itself.
    fn ended_by_a_stop(&self, task: usize, result: &Result<T, Error>) -> Option<usize> {
        let server = self.tasks[task].server.as_ref()?;
        let may_be_of_it = match result {
            Ok(_) => !server.training().is_done(),
            // Why not `Internal`: a panic has that code. Of a deployed task that was asked to stop,
            // an `Internal` that is no panic is only logged.
            Err(error) => error.code.may_be_of_a_stop() && error.code != Code::Internal,
        };
        let world = self.driver.world.borrow();
        let stopping = server.stopping().and_then(|peer| world.number_of(&peer));
        world.faults.ended_by(task, stopping).filter(|_| may_be_of_it)
    }

    /// Notes that the program of `task` has returned because `asked` was asked to stop.
    fn note_stop(&mut self, task: usize, asked: usize) {
        let [name, stopped] = [task, asked].map(|task| &self.tasks[task].name);
        if task != asked && !self.driver.world.borrow().faults.restarts_stopped(asked) {
            let message = format!(
                "{stopped} was asked to stop and does not come back, so {name} has ended; start \
                 all tasks again to go on"
            );
            self.stopped.get_or_insert(Error::new(Code::Unavailable, message).on(stopped));
        }
        tracing::info!("the process of {name} ends, since {stopped} was asked to stop");
    }

    /// Whether the run goes on though the program of `task` has failed with `error`, as the other
    /// processes of a deployment do. Once the chief is done, the task has missed the end. While the
    /// chief trains, the task is cut off from it, and is an evaluator, or a helper: where there are
    /// parameter servers, the steps of a helper's worker fail.
    fn goes_on_without(&self, task: usize, error: &Error) -> bool {
        let Cluster { spec, replay, .. } = self.cluster;
        let is_dispensable = match spec.role(&self.tasks[task].name) {
            Role::Evaluator => true,
            Role::Helper => !spec.has_parameter_servers(),
            Role::ParameterServer | Role::Worker => false,
        };
        let chief = spec.chief();
        let chief = self.tasks.iter().find(|task| Some(&task.name) == chief.as_ref());
        let goes_on = match chief.map(|chief| &chief.program) {
            Some(Program::Returned(_)) => error.code.is_of_lost_tasks(),
            Some(Program::Running(_)) => is_dispensable && error.code == Code::Unavailable,
            _ => false,
        };
        goes_on && replay.is_none()
    }

    /// The error of a run in which the program of `task` failed with `error`.
    fn root_cause(&self, task: usize, error: Error) -> Error {
        let departure = self.driver.world.borrow().departure_of(task, &error);
        departure.unwrap_or_else(|| error.on(&self.tasks[task].name))
    }

    /// Waits for the next command or result; takes commands first.
    async fn next(&mut self, commands: &mut UnboundedReceiver<RunCommand>) -> Next<T> {
        let mut is_registered = false;
        poll_fn(|context| {
            // The run is polled at every event. It looks at its channels once, which registers its
            // waker there, and again when something was sent.
            let has_news = self.driver.has_news.take();
            if is_registered && !has_news {
                return Poll::Pending;
            }
            is_registered = true;
            if let Poll::Ready(command) = commands.poll_recv(context) {
                return Poll::Ready(Next::Command(command.expect("the driver lives and may send")));
            }
            let result = ready!(self.returned.poll_recv(context));
            Poll::Ready(Next::Result(result.expect("this value holds a sender itself")))
        })
        .await
    }

    fn are_running(&self) -> bool {
        let has_ended =
            |task: &TaskState<T>| matches!(task.program, Program::Returned(_) | Program::Dead);
        !self.tasks.iter().all(has_ended)
    }

    fn carry_out(&mut self, command: RunCommand) -> Result<(), Error> {
        match command {
            RunCommand::Kill { task, restarts } => self.kill(task, restarts),
            RunCommand::Start { task } => {
                let incarnation = self.driver.world.borrow_mut().begin_incarnation(task);
                let server = self.serve(task, incarnation);
                self.begin(task, server);
            }
            RunCommand::AskToStop { task } => {
                if let Some(server) = &self.tasks[task].server {
                    server.request_stop();
                }
            }
            RunCommand::EndStalled => {
                let servers = self.tasks.iter().filter_map(|task| task.server.as_ref());
                let stall = self.stall.get_or_insert_with(|| Stall::new(servers));
                if stall.is_explained() {
                    return Err(stall.to_error(self.tasks.iter().filter_map(TaskState::ended)));
                }
            }
            RunCommand::EndDeparted => {
                self.driver.world.borrow().departure().map_or(Ok(()), Err)?;
            }
            RunCommand::EndOfTime => return Err(end_of_time()),
        }
        Ok(())
    }

    fn kill(&mut self, task: usize, restarts: bool) {
        let state = &mut self.tasks[task];
        let after = if restarts { Program::Restarting } else { Program::Dead };
        match &state.program {
            Program::Running(program) => {
                program.abort();
                state.program = after;
            }
            Program::Leaving => state.program = after,
            Program::Restarting | Program::Returned(_) | Program::Dead => {}
        }
        if let Some(server) = state.server.take() {
            server.stop();
        }
    }

    /// Starts the server of an incarnation of a task.
    fn serve(&mut self, task: usize, incarnation: u32) -> Rc<Server> {
        let driver = || Rc::clone(&self.driver);
        let name = self.tasks[task].name.clone();
        let ahead = self.cluster.date_ahead(task, incarnation);
        let clock = Rc::new(SimulatedClock { driver: driver(), task, ahead });
        let device = |device: usize| {
            let driver = driver();
            let numerics = self.cluster.numerics;
            let at = DeviceOf { task, device };
            let device = SimulatedDevice { driver, at, numerics };
            Rc::new(device) as Rc<dyn ComputeModel>
        };
        let transport = SimulatedTransport { driver: driver(), task, incarnation };
        let cpus = self.cluster.hardware.devices.get() as usize;
        let all = cpus + self.cluster.hardware.gpus_of(&name) as usize;
        let devices: Devices = (0..cpus).map(device).collect();
        let devices = devices.with_gpus((cpus..all).map(device), self.devices.clone());
        let world = ServerWorld {
            transport: Rc::new(transport),
            encoding: self.cluster.encoding,
            clock,
            devices,
        };
        let def = ServerDef { cluster: self.cluster.spec.clone(), task: name };
        let server = Rc::new(Server::new(def, world));
        server.start().expect("a new server can be started");
        self.tasks[task].server = Some(Rc::clone(&server));
        let (breaks, results, driver) = (server.breaks(), self.results.clone(), driver());
        actix_rt::spawn(async move {
            send(&driver, &results, ProgramResult { task, result: Err(breaks.await) });
        });
        server
    }

    /// Starts the program of a task.
    fn begin(&mut self, task: usize, server: Rc<Server>) {
        // A function that gives a future may panic before it gives one.
        let begun = catch_unwind(AssertUnwindSafe(|| (self.program)(Rc::clone(&server))));
        let running = actix_rt::spawn(async move {
            match begun {
                Ok(program) => program.await,
                Err(panic) => resume_unwind(panic),
            }
        });
        self.tasks[task].program = Program::Running(running.abort_handle());
        let (driver, results) = (Rc::clone(&self.driver), self.results.clone());
        actix_rt::spawn(async move {
            let Some(result) = result_of(running.await) else { return };
            let result = result.map_err(|error| server.broken().unwrap_or(error));
            driver.world.borrow_mut().program_returned(task);
            send(&driver, &results, ProgramResult { task, result });
        });
    }
}

/// Sends `result` to the run, which wakes it.
fn send<T>(driver: &Driver, results: &UnboundedSender<ProgramResult<T>>, result: ProgramResult<T>) {
    if results.send(result).is_err() {
        tracing::debug!("a program returned after the end of the run");
    }
    driver.has_news.set(true);
}

fn end_of_time() -> Error {
    let message = "the next event would happen after more than 200 years of virtual time; a \
                   rate of the scenario is too small for its work, or a factor or a law's mean \
                   too large";
    Error::new(Code::InvalidArgument, message)
}

/// The result of a program: `None` if a fault has killed it, an error if it panicked.
fn result_of<T>(joined: Result<Result<T, Error>, JoinError>) -> Option<Result<T, Error>> {
    let error = match joined {
        Ok(result) => return Some(result),
        Err(error) => error,
    };
    let panic = error.try_into_panic().ok()?;
    Some(Err(program_panicked(&*panic)))
}
