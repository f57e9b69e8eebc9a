//! `task`: one task of a scenario's run, in this process, over QUIC.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::args::TaskArgs;
use super::failure::Failure;
use super::live::Live;
use super::output::{Out, command, exit_code};
use super::progress::Progress;
use crate::checkpoint::Stores;
use crate::clock::{Clock, WallClock};
use crate::cluster::{Role, RunConfig, TaskName};
use crate::deployment::{
    self, Control, Event, ExitCode, Member, Part, Proof, Seat, StopRequest, TaskOutcome,
    require_role,
};
use crate::experiment::{ExperimentError, Observed, Trainer, Trial, model_of};
use crate::live::{Board, Meter};
use crate::report::{Report, World};
use crate::runtime::{Host, Traffic};
use crate::say::say;
use crate::tensor::set_memory_limit;
use crate::training::{Recording, SharedRecording, run_to_end, train};
use crate::transport::RunId;
use crate::units::Time;

/// Runs the command.
pub(super) fn run(
    args: &TaskArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let experiment = args.scenario.experiment()?;
    let scenario = &experiment.scenarios()?[0].1;
    let config = require_role(&args.role.flags(Some(scenario)), scenario.addresses())?;
    super::cluster::warn(&config);
    let trial = only(experiment.trials_of_task(config.task())?)?;
    trial.memory_limit.into_iter().for_each(set_memory_limit);
    let name = args.run_name.as_deref().unwrap_or(&trial.scenario);
    let run = RunId::new(name).with_settings(trial.shared_settings());
    let (mut socket, mut control) = (None, None);
    let mut proof = args.certs.as_deref().map(Proof::Folder);
    if args.launched {
        let (given, identity, way) = Control::take()?;
        (socket, control, proof) = (Some(given), Some(way), Some(Proof::Given(identity)));
    }
    let mut seat = Seat::new(&config, trial.cluster.spec.clone(), proof, run)?;
    (seat.socket, seat.silence) = (socket, trial.silence);
    seat.lanes = args.lanes.map(usize::from);
    let mut report = experiment.report(std::slice::from_ref(&trial), World::Deployment)?;
    report.command = command();
    report.model = match args.built_in {
        true => model_of(std::slice::from_ref(&trial), &train),
        false => model_of(std::slice::from_ref(&trial), trainer),
    };
    if args.built_in {
        return attend((args, quiet), (&trial, report), (config, seat), control, &train);
    }
    attend((args, quiet), (&trial, report), (config, seat), control, trainer)
}

/// The only one of `trials`; an error if there are several.
fn only(mut trials: Vec<Trial>) -> Result<Trial, Failure> {
    if trials.len() == 1 {
        return Ok(trials.remove(0));
    }
    let runs = trials.into_iter().map(|trial| trial.name).collect();
    Err(ExperimentError::SeveralRuns { runs }.into())
}

/// Takes part in the run, to its end or until it is asked to stop, and reports the result.
fn attend(
    (args, quiet): (&TaskArgs, bool),
    (trial, empty): (&Trial, Report),
    (config, seat): (RunConfig, Seat),
    control: Option<Control>,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let launcher = control.as_ref().map(Control::try_clone).transpose()?.map(Control::into_stream);
    let stop = StopRequest::listen(launcher)?;
    let clock = WallClock::new();
    let has_results = seat.is_chief() || seat.task().role() == Role::Evaluator;
    let reports = has_results && control.is_none(); // a launcher does it for its tasks
    let is_measured_elsewhere = seat.cluster().evaluator().is_some() && seat.is_chief();
    let task = seat.task().clone();
    if let Some(control) = &control {
        let (now, date) = (clock.now().0, clock.date().as_nanos() as u64);
        control.tell_and_wait(&Event::Hello { now, date });
    }
    let live = Live::start(args.metrics, args.dashboard.address)?;
    let board = board(live.as_ref(), args, trial, &seat);
    let progress = reports.then(|| Progress::of(trial, quiet));
    let recording = recording((trial, &task), progress, board.clone());
    let busy_poll = args.busy_poll.0;
    let (encoding, devices) = (trial.cluster.encoding, trial.cluster.devices);
    let recorder = match &args.record {
        Some(folder) => Some(trial.recorder(&seat, clock, folder)?),
        None => None,
    };
    let own = recorder.clone();
    let (shown, sent) = (board.clone(), Rc::<Cell<Traffic>>::default());
    let counted = Rc::clone(&sent);
    let member = Member { seat, encoding, devices, busy_poll, clock, recorder: own, board, sent };
    let telling = telling(control.as_ref(), counted, shown.clone().zip(Some(task.clone())))?;
    let program = |host: Host| {
        telling(&recording);
        let task = trial.deployed_checkpoints().and_then(|checkpoints| {
            let stores = (checkpoints, Stores::Lasting);
            trial.task((host.server, host.clock), stores, &recording, Some(config))
        });
        run_to_end(task.map(|task| (task.clone(), trainer(task))))
    };
    let outcome = deployment::run(member, stop, program)?;
    let TaskOutcome { result, stopped, ended, sent } = outcome;
    let recording = recording.finish();
    if let Some(recorder) = recorder {
        let weights = recording.ending.and_then(|ending| ending.weights_digest);
        recorder.end(weights, result.as_ref().err().map(ToString::to_string));
    }
    if let Some(control) = &control {
        if let Some(board) = &shown {
            control.show_once(board, &task);
        }
        control.tell(&Event::Recorded { part: Part::new(&recording), sent });
        control.tell_and_wait(&Event::Ended { now: ended.0 });
    }
    let result = result.map_err(|error| Failure::Task { run: trial.name.clone(), error });
    unless_unsaved(result, &recording, stopped)?;
    let observed = Observed::deployed(ended, [(task, sent)].into());
    let observed = match control {
        Some(_) => observed,
        None => observed.without(&trial.cluster.faults.list),
    };
    let attended = Attended { recording, observed, stopped, reports, is_measured_elsewhere };
    attended.conclude(args, (trial, empty))
}

/// The failure in `result`, unless the training has come to its end and lacks its last checkpoint
/// alone: then the report says so, or this, where a task that was `stopped` has none.
fn unless_unsaved<T>(
    result: Result<T, Failure>,
    recording: &Recording,
    stopped: Option<ExitCode>,
) -> Result<(), Failure> {
    match result {
        Err(failure) if !recording.is_unsaved() => Err(failure),
        Err(failure) if stopped.is_some() => {
            say!("{failure}");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A task's part in a run that did not fail.
struct Attended {
    recording: Recording,
    observed: Observed,
    /// The exit code of the request to stop, if there was one.
    stopped: Option<ExitCode>,
    /// Whether this process reports the result.
    reports: bool,
    /// Whether an evaluator decides if the target is reached, and not this task.
    is_measured_elsewhere: bool,
}

impl Attended {
    /// Reports the result, where that is due, and decides the exit code.
    fn conclude(
        self,
        args: &TaskArgs,
        (trial, empty): (&Trial, Report),
    ) -> Result<ExitCode, Failure> {
        let Self { recording, observed, stopped, reports, is_measured_elsewhere } = self;
        let is_unsaved = recording.is_unsaved();
        let is_empty = recording.log.is_empty() && recording.evaluations.is_empty();
        let has_begun = !is_empty || stopped.is_none();
        let code = if recording.is_after_the_end {
            ExitCode::Done
        } else if reports && has_begun {
            report(args, (trial, empty), &recording, &observed)?
        } else if is_unsaved {
            ExitCode::Unwritable
        } else {
            ExitCode::Done
        };
        if code == ExitCode::TargetNotReached && is_measured_elsewhere {
            return Ok(stopped.unwrap_or(ExitCode::Done));
        }
        // A stop that loses steps is not one in good order.
        Ok(stopped.filter(|_| !is_unsaved).unwrap_or(code))
    }
}

/// The board of the task, if somebody is to see its numbers.
fn board(live: Option<&Live>, args: &TaskArgs, trial: &Trial, seat: &Seat) -> Option<Arc<Board>> {
    if live.is_none() && !args.shown {
        return None;
    }
    let about = trial.about(World::Deployment);
    let board = Board::new(about, seat.cluster(), [seat.task().clone()]);
    if let Some(live) = live {
        live.boards.add(Arc::clone(&board));
    }
    Some(board)
}

/// Tells the launcher, if there is one, that the actors run, what is recorded and `sent`, and what
/// `shown` shows of its task.
fn telling(
    control: Option<&Control>,
    sent: Rc<Cell<Traffic>>,
    shown: Option<(Arc<Board>, TaskName)>,
) -> Result<impl FnOnce(&SharedRecording) + use<>, Failure> {
    let clone = |it: &Control| -> Result<_, Failure> {
        Ok((it.try_clone()?, it.try_clone()?, it.try_clone()?))
    };
    let clones = control.map(clone).transpose()?;
    Ok(move |recording: &SharedRecording| {
        let Some((beating, recorded, showing)) = clones else { return };
        actix_rt::spawn(beating.beat());
        actix_rt::spawn(recorded.record(recording.clone(), sent));
        if let Some((board, task)) = shown {
            actix_rt::spawn(showing.show(board, task));
        }
    })
}

/// The recording of the task: it shows its steps as `progress`, and on `board`.
fn recording(
    (trial, task): (&Trial, &TaskName),
    progress: Option<Progress>,
    board: Option<Arc<Board>>,
) -> SharedRecording {
    match (board, progress) {
        (None, None) => SharedRecording::default(),
        (None, Some(progress)) => SharedRecording::showing(progress),
        (Some(board), progress) => {
            let watch = progress.map(Into::into);
            let meter = Meter::new(board, trial.settings.batch, watch);
            SharedRecording::showing(meter.of_task(task.clone()))
        }
    }
}

/// Writes and prints the report of this task: the chief has the training's, an evaluator its
/// measurements.
fn report(
    args: &TaskArgs,
    (trial, mut report): (&Trial, Report),
    recording: &Recording,
    observed: &Observed,
) -> Result<ExitCode, Failure> {
    let result = trial.summarise(recording, observed, observed.ended.since(Time::ZERO));
    report.add(result, 1);
    report.of_task = observed.only_task().filter(|_| trial.cluster.spec.tasks().count() > 1);
    let (mut out, failure) = match Out::create(args.out.as_deref()) {
        Ok(out) => (out, None),
        Err(failure) => (Out::create(None)?, Some(failure)), // the table is printed even so
    };
    out.append(&report, trial, recording);
    out.print(args.format.format(), &report)?;
    failure.map_or_else(|| Ok(exit_code(&report.runs)), Err)
}
