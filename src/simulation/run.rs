//! A run of a program on a simulated cluster, from its first event to its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::task::JoinError;

use crate::clock::Clock;
use crate::cluster::{ClusterSpec, TaskName};
use crate::kernels::Numerics;
use crate::runtime::{Code, Error, Server, ServerDef, Waiting, WaitingList, World};
use crate::transport::PeerId;
use crate::units::VirtualTime;

use super::audit::Digest;
use super::device::ComputeSpec;
use super::network::NetworkSpec;
use super::world::{SimulatedClock, SimulatedDevice, SimulatedTransport, SimulatedWorld, on_park};

/// A simulated cluster: what it is made of, and the seed of its chances.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its tasks.
    pub spec: ClusterSpec,
    /// What connects them.
    pub network: NetworkSpec,
    /// What each of them computes with.
    pub compute: ComputeSpec,
    /// How many times as long some of them take.
    pub slow: BTreeMap<TaskName, f64>,
    /// Whether they compute numbers, or only shapes.
    pub numerics: Numerics,
    /// The seed of all that is drawn.
    pub seed: u64,
}

/// How a run ended, and what the world saw of it.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What each task's program returned, or why the first of them failed.
    pub result: Result<BTreeMap<TaskName, T>, Error>,
    /// The virtual time at the end.
    pub ended: VirtualTime,
    /// How many events happened.
    pub events: u64,
    /// What they hash to.
    pub digest: Digest,
    /// What each task sent to others \[bytes\].
    pub bytes_sent: BTreeMap<TaskName, u64>,
}

/// What a task's program is handed.
#[derive(Clone)]
pub struct Host {
    /// The task's server, started.
    pub server: Rc<Server>,
    /// The virtual clock.
    pub clock: Rc<dyn Clock>,
}

/// Runs `program` once for each task of `cluster`, all on one virtual clock.
///
/// The run ends when all of them have returned, when one has failed, or when nothing can happen any
/// more; the last is an error of code [`Code::Stalled`] that lists who waits for what. It has a thread
/// of its own, so that several runs can go on side by side.
pub fn run<T, F>(cluster: &Cluster, program: impl Fn(Host) -> F + Sync) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run_here(cluster, &program));
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here<T, F>(cluster: &Cluster, program: &impl Fn(Host) -> F) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let tasks: Vec<TaskName> = cluster.spec.tasks().collect();
    let world = SimulatedWorld::enter(tasks.clone(), &cluster.network);
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.on_thread_park(on_park).build().expect("a runtime without drivers needs nothing of the system")
    };
    let result = actix_rt::System::with_tokio_rt(runtime).block_on(async {
        world.attend().await;
        let hosts = hosts(cluster, &world, &tasks);
        let (ending, ended) = Ending::new(tasks.len());
        watch_for_stall(&world, &hosts, &ending);
        for (task, host) in tasks.iter().zip(hosts) {
            let (task, ending, running) = (task.clone(), Rc::clone(&ending), actix_rt::spawn(program(host)));
            actix_rt::spawn(async move { ending.returned(task, panic_as_error(running.await)) });
        }
        ended.await.expect("the ending outlives the tasks")
    });
    let observed = world.leave();
    Outcome {
        result,
        ended: observed.now,
        events: observed.events,
        digest: observed.digest,
        bytes_sent: tasks.into_iter().zip(observed.bytes_sent).collect(),
    }
}

fn hosts(cluster: &Cluster, world: &Rc<SimulatedWorld>, tasks: &[TaskName]) -> Vec<Host> {
    let clock: Rc<dyn Clock> = Rc::new(SimulatedClock(Rc::clone(world)));
    let host = |(local, task): (u32, &TaskName)| {
        let own = World {
            transport: Rc::new(SimulatedTransport { world: Rc::clone(world), local: PeerId(local) }),
            clock: Rc::clone(&clock),
            device: Rc::new(SimulatedDevice::new(world, task, cluster)),
        };
        let def = ServerDef { cluster: cluster.spec.clone(), task: task.clone() };
        let server = Server::new(def, own);
        server.start().expect("a new server can be started");
        Host { server: Rc::new(server), clock: Rc::clone(&clock) }
    };
    (0..).zip(tasks).map(host).collect()
}

/// What a task's program returned. A panic in it is its error, and not one of the simulation.
fn panic_as_error<T>(joined: Result<Result<T, Error>, JoinError>) -> Result<T, Error> {
    joined.unwrap_or_else(|error| {
        let panic = error.try_into_panic().expect("nobody cancels a task's program");
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        Err(Error::new(Code::Internal, format!("the program panicked: {}", text.unwrap_or("without a message"))))
    })
}

/// What is known of the end of a run.
struct Ending<T> {
    state: RefCell<EndingState<T>>,
}

struct EndingState<T> {
    returned: BTreeMap<TaskName, T>,
    tasks: usize,
    ended: Option<oneshot::Sender<Result<BTreeMap<TaskName, T>, Error>>>,
}

type Ended<T> = oneshot::Receiver<Result<BTreeMap<TaskName, T>, Error>>;

impl<T> Ending<T> {
    fn new(tasks: usize) -> (Rc<Self>, Ended<T>) {
        let (sender, ended) = oneshot::channel();
        let state = EndingState { returned: BTreeMap::new(), tasks, ended: Some(sender) };
        (Rc::new(Self { state: RefCell::new(state) }), ended)
    }

    /// A task's program has returned: the first error, or the last task, ends the run.
    fn returned(&self, task: TaskName, result: Result<T, Error>) {
        let mut state = self.state.borrow_mut();
        match result {
            Ok(value) => {
                state.returned.insert(task, value);
                if state.returned.len() == state.tasks {
                    let all = std::mem::take(&mut state.returned);
                    state.end(Ok(all));
                }
            }
            Err(error) => state.end(Err(error.on(&task))),
        }
    }

    fn stalled(&self, waiting: &WaitingList) {
        let mut state = self.state.borrow_mut();
        let list = waiting.lock().expect("nobody panics while writing what it waits for");
        state.end(Err(stalled(&list)));
    }
}

impl<T> EndingState<T> {
    /// Only the first end counts.
    fn end(&mut self, result: Result<BTreeMap<TaskName, T>, Error>) {
        let ended = self.ended.take();
        if ended.is_some_and(|ended| ended.send(result).is_err()) {
            tracing::debug!("the run has ended already");
        }
    }
}

/// When nothing can happen any more, asks all actors what they wait for; when they have answered, ends the run.
fn watch_for_stall<T: 'static>(world: &Rc<SimulatedWorld>, hosts: &[Host], ending: &Rc<Ending<T>>) {
    let servers: Vec<Rc<Server>> = hosts.iter().map(|host| Rc::clone(&host.server)).collect();
    let (again, ending) = (Rc::clone(world), Rc::clone(ending));
    world.when_stalled(move || {
        let waiting: WaitingList = Arc::new(Mutex::new(Vec::new()));
        servers.iter().for_each(|server| server.inquire(&waiting));
        again.when_stalled(move || ending.stalled(&waiting));
    });
}

fn stalled(waiting: &[Waiting]) -> Error {
    let mut lines: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    lines.sort();
    if lines.is_empty() {
        lines.push("no actor waits for another; a program waits for something that is not of this world".to_owned());
    }
    Error::new(Code::Stalled, format!("nothing can happen any more:\n  {}", lines.join("\n  ")))
}
