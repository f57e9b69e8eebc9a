//! `task`: one task of a scenario's run, in a process of its own, over QUIC.

mod busy_poll;
mod network;
mod plan;

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::args::TaskArgs;
use super::control::{Control, Event, Part};
use super::exit_code::ExitCode;
use super::failure::Failure;
use super::output::{Files, print};
use super::progress::Progress;
use super::stop::{self, Either, GRACE, Stop, either};
use crate::checkpoint::Stores;
use crate::clock::{Clock, WallClock};
use crate::experiment::{ExperimentError, Observed, Trainer, report_of};
use crate::report::World;
use crate::runtime::{self, Code, ComputeModel, Error, PeerMessage, Processor, Server, ServerDef};
use crate::training::{Recording, SharedRecording, Task};
use crate::transport::{Quic, Transport};
use crate::units::Time;

use network::Network;
pub(super) use network::{Message, Standing};
use plan::Plan;

/// How long the last messages may take to arrive.
const FLUSH: Duration = Duration::from_secs(5);
/// How long where the task has failed.
const FLUSH_FAILED: Duration = Duration::from_millis(500);
/// How often a parameter server of a dynamic cluster looks whether the training is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the command.
pub(super) fn run(args: &TaskArgs, trainer: &impl Trainer) -> Result<ExitCode, Failure> {
    let Some(mut plan) = Plan::new(args)? else {
        eprintln!("the chief looks at the test split: there is nothing for an evaluator to do");
        return Ok(ExitCode::Done);
    };
    let mut control = None;
    if args.launched {
        let (socket, way) = Control::take()?;
        plan.socket = Some(socket);
        control = Some(way);
    }
    let launcher = control.as_ref().map(Control::try_clone).transpose()?.map(Control::into_stream);
    let stop = stop::listen(launcher)?;
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        busy_poll::prepare(&mut builder);
        builder
            .enable_all()
            .build()
            .expect("the system has what a runtime needs: it had it a moment ago")
    };
    actix_rt::System::with_tokio_rt(runtime).block_on(attend(args, plan, control, stop, trainer))
}

/// Takes part in the run, to its end or until it is asked to stop, and tells what came of it.
async fn attend(
    args: &TaskArgs,
    mut plan: Plan,
    mut control: Option<Control>,
    stop: Stop,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let clock = WallClock::new();
    let recording = match &mut control {
        Some(control) => {
            control.tell(&Event::Hello { now: clock.now().0 });
            SharedRecording::showing(control.try_clone()?)
        }
        None if plan.is_chief() => SharedRecording::showing(Progress::new(
            &*plan.trial.name,
            plan.trial.settings.stop.steps,
        )),
        None => SharedRecording::default(),
    };
    if !args.busy_poll.0.is_zero() {
        actix_rt::spawn(busy_poll::busy_poll(args.busy_poll.0, clock));
    }
    let quic = Quic::bind(plan.network()).await?;
    let network =
        Network::new(Rc::clone(&quic), plan.trial.cluster.spec.clone(), plan.known.clone());
    let server = start(&plan, network.transport(), clock);
    network.attach(&server);
    let ended = train(&plan, &server, (&recording, clock), stop, trainer).await;
    let wall = clock.now();
    let flush = if ended.0.is_ok() { FLUSH } else { FLUSH_FAILED };
    if !quic.shut_down(flush).await {
        tracing::debug!("not all of the last messages are known to have arrived");
    }
    server.stop();
    let recording = recording.finish();
    let sent = network.sent().0;
    if let Some(control) = &mut control {
        control.tell(&Event::Part(Part::new(&recording, sent, wall)));
    }
    let (result, stopped) = ended;
    let run = || plan.trial.name.clone();
    result.map_err(|error| ExperimentError::Run { run: run(), error })?;
    let code = match control {
        None if plan.is_chief() => report(args, &plan, &recording, (wall, sent))?,
        _ => ExitCode::Done,
    };
    Ok(stopped.unwrap_or(code))
}

/// The task's server, started.
fn start(plan: &Plan, transport: Rc<dyn Transport<PeerMessage>>, clock: WallClock) -> Rc<Server> {
    let device = |_| Rc::new(Processor) as Rc<dyn ComputeModel>;
    let devices = (0..plan.trial.cluster.devices.get()).map(device).collect();
    let transport = plan.trial.cluster.encoding.over(transport);
    let world = runtime::World { transport, clock: Rc::new(clock), devices };
    let def = ServerDef { cluster: plan.trial.cluster.spec.clone(), task: plan.task.clone() };
    let server = Server::new(def, world);
    server.start().expect("a new server can be started");
    Rc::new(server)
}

/// Runs the program; gives what it returned, and the exit code that it was asked to stop with.
async fn train(
    plan: &Plan,
    server: &Rc<Server>,
    (recording, clock): (&SharedRecording, WallClock),
    mut stop: Stop,
    trainer: &impl Trainer,
) -> (runtime::Result<()>, Option<ExitCode>) {
    let begun = plan.trial.deployed_checkpoints().and_then(|checkpoints| {
        let place: (_, Rc<dyn Clock>) = (Rc::clone(server), Rc::new(clock));
        plan.trial.task(place, (checkpoints, Stores::Lasting), recording)
    });
    let task = match begun {
        Ok(task) => task,
        Err(error) => return (Err(error), None),
    };
    if plan.is_dynamic && task.job() == "ps" {
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
    while !server.is_training_over() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
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

/// Writes and prints what this task, the chief, saw of the run.
fn report(
    args: &TaskArgs,
    plan: &Plan,
    recording: &Recording,
    (wall, sent): (Time, u64),
) -> Result<ExitCode, Failure> {
    let trial = &plan.trial;
    let bytes_sent = [(plan.task.clone(), sent)].into();
    let observed = Observed { ended: wall, bytes_sent, events: None, digest: None };
    let result = trial.summarise(recording, &observed, wall.since(Time::ZERO));
    let is_target_missed = trial.misses_target(&result);
    let mut report = report_of(std::slice::from_ref(trial), World::Deployment);
    report.runs.push(result);
    if let Some(out) = &args.out {
        Files::create(out)?.append(&report, &trial.name, recording)?;
    }
    let target = trial.settings.stop.accuracy;
    print(args.json, &report, target).map_err(Failure::writing("the result"))?;
    Ok(if is_target_missed { ExitCode::TargetNotReached } else { ExitCode::Done })
}
