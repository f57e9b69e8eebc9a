//! One task of a cluster in this process: its server, its program, its end.

use std::future::Future;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::busy_poll;
use super::network::Network;
use super::stop::{Either, GRACE, Stop, either};
use super::{DeploymentError, ExitCode, Seat};
use crate::clock::{Clock, WallClock};
use crate::runtime::{
    self, Code, ComputeModel, Encoding, Error, Host, PeerMessage, Processor, Server, ServerDef,
};
use crate::training::Task;
use crate::transport::{Quic, Transport};
use crate::units::{Bytes, Time};

/// How long the last messages may take to arrive.
const FLUSH: Duration = Duration::from_secs(5);
/// How long where the task has failed.
const FLUSH_FAILED: Duration = Duration::from_millis(500);

/// A task that is to run in this process.
pub(crate) struct Member {
    pub(crate) seat: Seat,
    /// How the values of steps are written on their way.
    pub(crate) encoding: Encoding,
    /// How many devices the task has, on this machine's one processor.
    pub(crate) devices: NonZeroU32,
    /// How long it looks for messages before it sleeps.
    pub(crate) busy_poll: Duration,
    pub(crate) clock: WallClock,
}

/// How a task ended, and what its end of the network saw of it.
#[derive(Debug)]
pub struct Outcome {
    /// What the program returned.
    pub result: runtime::Result<()>,
    /// What it was asked to stop by, where it was.
    pub stopped: Option<ExitCode>,
    /// The time at the end, on the task's clock.
    pub ended: Time,
    /// What it sent to other tasks.
    pub bytes_sent: Bytes,
}

/// Runs `program` as one task of a cluster, to its end or until it is asked to stop. It is handed
/// what hosts it, and gives the task that it makes of that, which runs as `trainer`.
///
/// # Errors
/// If the task can't take part in the cluster.
pub(crate) fn run<F>(
    member: Member,
    stop: Stop,
    program: impl FnOnce(Host) -> runtime::Result<Task>,
    trainer: impl Fn(Task) -> F,
) -> Result<Outcome, DeploymentError>
where
    F: Future<Output = runtime::Result<()>> + 'static,
{
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        busy_poll::prepare(&mut builder);
        builder
            .enable_all()
            .build()
            .expect("the system has what a runtime needs: it had it a moment ago")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(attend(member, stop, program, trainer))
}

async fn attend<F>(
    mut member: Member,
    stop: Stop,
    program: impl FnOnce(Host) -> runtime::Result<Task>,
    trainer: impl Fn(Task) -> F,
) -> Result<Outcome, DeploymentError>
where
    F: Future<Output = runtime::Result<()>> + 'static,
{
    if !member.busy_poll.is_zero() {
        actix_rt::spawn(busy_poll::busy_poll(member.busy_poll, member.clock));
    }
    let quic = Quic::bind(member.seat.network()).await?;
    let Seat { cluster, known, .. } = &member.seat;
    let network = Network::new(Rc::clone(&quic), cluster.clone(), known.clone());
    let server = start(&member, network.transport());
    network.attach(&server);
    let host = Host { server: Rc::clone(&server), clock: Rc::new(member.clock) };
    let (result, stopped) = match program(host) {
        Ok(task) => train(&member.seat, &server, task, stop, trainer).await,
        Err(error) => (Err(error), None),
    };
    let ended = member.clock.now();
    let flush = if result.is_ok() { FLUSH } else { FLUSH_FAILED };
    if !quic.shut_down(flush).await {
        tracing::debug!("not all of the last messages are known to have arrived");
    }
    server.stop();
    Ok(Outcome { result, stopped, ended, bytes_sent: network.sent() })
}

/// The task's server, started.
fn start(member: &Member, transport: Rc<dyn Transport<PeerMessage>>) -> Rc<Server> {
    let device = |_| Rc::new(Processor) as Rc<dyn ComputeModel>;
    let devices = (0..member.devices.get()).map(device).collect();
    let transport = member.encoding.over(transport);
    let world = runtime::World { transport, clock: Rc::new(member.clock), devices };
    let Seat { cluster, task, .. } = &member.seat;
    let server = Server::new(ServerDef { cluster: cluster.clone(), task: task.clone() }, world);
    server.start().expect("a new server can be started");
    Rc::new(server)
}

/// Runs the program; gives what it returned, and the exit code that it was asked to stop with.
async fn train<F>(
    seat: &Seat,
    server: &Rc<Server>,
    task: Task,
    mut stop: Stop,
    trainer: impl Fn(Task) -> F,
) -> (runtime::Result<()>, Option<ExitCode>)
where
    F: Future<Output = runtime::Result<()>> + 'static,
{
    if seat.is_dynamic && task.job() == "ps" {
        actix_rt::spawn(pass_on_the_end(Rc::clone(server)));
    }
    let mut running = actix_rt::spawn(trainer(task.clone()));
    match either(&mut running, &mut stop).await {
        Either::First(joined) => (joined.unwrap_or_else(panicked), None),
        Either::Second(code) => (drain(&task, running).await, Some(code)),
    }
}

/// Has the program end by itself, while there is time. What it did not finish is no error of it.
async fn drain(task: &Task, running: JoinHandle<runtime::Result<()>>) -> runtime::Result<()> {
    eprintln!("asked to stop: {} ends its training", task.name());
    task.request_stop();
    match timeout(GRACE, running).await {
        Ok(Ok(Err(error))) => eprintln!("{error}"),
        Ok(Ok(Ok(()))) => {}
        Ok(Err(error)) => return panicked(error),
        Err(_) => eprintln!("{} did not end in {} s", task.name(), GRACE.as_secs()),
    }
    Ok(())
}

/// Tells those whom the chief may not know that the training is over.
async fn pass_on_the_end(server: Rc<Server>) {
    server.training_is_over().await;
    server.broadcast(&PeerMessage::TrainingOver);
}

/// A panic of the program is its error.
fn panicked<T>(error: tokio::task::JoinError) -> runtime::Result<T> {
    let panic = error.try_into_panic().expect("nobody cancels a task's program");
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or(panic.downcast_ref::<String>().map(String::as_str));
    Err(Error::new(
        Code::Internal,
        format!("the program panicked: {}", text.unwrap_or("without a message")),
    ))
}
