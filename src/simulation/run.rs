//! A run of a program on a simulated cluster, from its first event to its end.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;

use crate::clock::Clock;
use crate::cluster::{ClusterSpec, TaskName};
use crate::kernels::Numerics;
use crate::runtime::{Encoding, Error, Server};
use crate::units::Time;

use super::audit::Digest;
use super::device::ComputeSpec;
use super::ending::{Ending, watch_for_stall};
use super::faults::Faults;
use super::network::NetworkSpec;
use super::programs::Programs;
use super::world::{SimulatedWorld, on_park};

/// A simulated cluster: what it is made of, and the seed of its chances.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its tasks.
    pub spec: ClusterSpec,
    /// What connects them.
    pub network: NetworkSpec,
    /// How the values of steps are written between them.
    pub encoding: Encoding,
    /// What each of them computes with.
    pub compute: ComputeSpec,
    /// How many devices each of them has, every one of which computes as `compute` says. Values go
    /// between the devices of a task in no time, since these share its memory.
    pub devices: NonZeroU32,
    /// How many times as long some of them take.
    pub slow: BTreeMap<TaskName, f64>,
    /// Whether they compute numbers, or only shapes.
    pub numerics: Numerics,
    /// The seed of all that is drawn.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
}

/// How a run ended, and what the world saw of it.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What each task's program returned, but for those that died for good, or why the first of
    /// them failed.
    pub result: Result<BTreeMap<TaskName, T>, Error>,
    /// The virtual time at the end.
    pub ended: Time,
    /// How many events happened.
    pub events: u64,
    /// How many envelopes arrived.
    pub deliveries: u64,
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
/// A task that lives again runs it again. The run ends when all of them have returned but those
/// that have died for good, when one has failed, or when nothing can happen any more; the last is
/// an error of code [`Stalled`](crate::runtime::Code::Stalled) that lists who waits for what. It
/// has a thread of its own, so that several runs can go on side by side.
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
    let world = SimulatedWorld::enter(tasks.clone(), &cluster.network, &cluster.faults);
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .on_thread_park(on_park)
            .build()
            .expect("a runtime without drivers needs nothing of the system")
    };
    let result = actix_rt::System::with_tokio_rt(runtime).block_on(async {
        world.attend().await;
        let (ending, mut ended) = Ending::new(tasks.len());
        let mut programs = Programs::start(cluster, &world, program, &ending);
        watch_for_stall(&world, programs.servers(), &ending);
        let until_the_end = poll_fn(|context| {
            while let Some(order) = world.next_order() {
                programs.carry_out(order);
            }
            Pin::new(&mut ended).poll(context)
        });
        until_the_end.await.expect("the ending outlives the tasks")
    });
    let observed = world.leave();
    Outcome {
        result,
        ended: observed.now,
        events: observed.events,
        deliveries: observed.deliveries,
        digest: observed.digest,
        bytes_sent: tasks.into_iter().zip(observed.bytes_sent).collect(),
    }
}
