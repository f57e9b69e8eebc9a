//! `task`: one task of a scenario's run, in this process, over QUIC.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::args::TaskArgs;
use super::failure::Failure;
use super::live::Live;
use super::output::{Out, command, exit_code};
use super::progress::Progress;
use crate::checkpoint::Stores;
use crate::clock::{Clock, WallClock};
use crate::cluster::{Role, RunConfig, TaskName};
use crate::deployment::{
    self, Control, Event, ExitCode, Member, Proof, Seat, StopRequest, TaskOutcome, require_role,
};
use crate::experiment::{ExperimentError, Observed, Trainer, Trial, model_of};
use crate::live::{Board, Meter};
use crate::report::{Report, World};
use crate::runtime::{Server, Traffic};
use crate::say::say;
use crate::tape::TapeWriter;
use crate::tensor::set_memory_limit;
use crate::training::{Fact, Recording, SharedRecording, run_to_end, train};
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
    let assignment = Assignment::new(args, quiet, &trial, &seat, control);
    if args.built_in {
        return assignment.attend(seat, config, report, &train);
    }
    assignment.attend(seat, config, report, trainer)
}

/// The only one of `trials`; an error if there are several.
fn only(mut trials: Vec<Trial>) -> Result<Trial, Failure> {
    if trials.len() == 1 {
        return Ok(trials.remove(0));
    }
    let runs = trials.into_iter().map(|trial| trial.name).collect();
    Err(ExperimentError::SeveralRuns { runs }.into())
}

/// A task of a run, and what the command asks of it.
struct Assignment<'a> {
    args: &'a TaskArgs,
    quiet: bool,
    trial: &'a Trial,
    task: TaskName,
    /// The date when this process began.
    began: Duration,
    /// The connection to the launcher, if there is one.
    control: Option<Control>,
    /// Whether this process reports the result.
    reports: bool,
    /// Whether an evaluator decides if the target is reached, and not this task.
    is_measured_elsewhere: bool,
}

/// What records and shows a task while it runs.
struct Instruments {
    clock: WallClock,
    board: Option<Arc<Board>>,
    recording: SharedRecording,
    tape: Option<TapeWriter>,
    /// Counts what the task sends.
    sent: Rc<Cell<Traffic>>,
    _live: Option<Live>,
}

impl<'a> Assignment<'a> {
    fn new(
        args: &'a TaskArgs,
        quiet: bool,
        trial: &'a Trial,
        seat: &Seat,
        control: Option<Control>,
    ) -> Self {
        let has_results = seat.is_chief() || seat.task().role() == Role::Evaluator;
        Self {
            args,
            quiet,
            trial,
            task: seat.task().clone(),
            began: WallClock::new().date(),
            reports: has_results && control.is_none(), // a launcher does it for its tasks
            is_measured_elsewhere: seat.cluster().evaluator().is_some() && seat.is_chief(),
            control,
        }
    }

    /// Takes part in the run, to its end or until it is asked to stop, and reports the result in
    /// the report, which is `empty` so far.
    fn attend(
        self,
        seat: Seat,
        config: RunConfig,
        empty: Report,
        trainer: &impl Trainer,
    ) -> Result<ExitCode, Failure> {
        if self.reports {
            drop(self.out()?); // a place that can't be written is told before the training
        }
        let launcher = self.control.as_ref().map(Control::stream).transpose()?;
        let stop = StopRequest::listen(launcher)?;
        let instruments = self.prepare(&seat)?;
        let outcome = self.run(&instruments, seat, config, stop, trainer)?;
        let shared = &instruments.recording;
        let lasts = self.trial.checkpoint_place().is_some();
        let lost = outcome.stopped.filter(|_| lasts).and_then(|_| shared.note_stop());
        let untold = shared.take_untold();
        let recording = shared.clone().finish();
        if let Some(lost) = lost {
            say!("the checkpoint of step {} could not be written: {}", lost.global_step, lost.why);
        }
        if let Some(tape) = &instruments.tape {
            let weights = recording.ending.and_then(|ending| ending.weights_digest);
            tape.end(weights, outcome.result.as_ref().err().map(ToString::to_string));
        }
        self.tell_the_end(&instruments, untold, &outcome);
        let TaskOutcome { result, stopped, ended, sent } = outcome;
        let result = result.map_err(|error| Failure::Task { run: self.trial.name.clone(), error });
        unless_unsaved(result, &recording, stopped)?;
        let observed = Observed::deployed(ended, [(self.task.clone(), sent)].into());
        let observed = match self.control {
            Some(_) => observed,
            None => observed.without(&self.trial.cluster.faults.list),
        };
        self.conclude(empty, &recording, &observed, stopped)
    }

    /// Tells the launcher of this process, and makes what records and shows the task in `seat`.
    fn prepare(&self, seat: &Seat) -> Result<Instruments, Failure> {
        let Self { args, trial, .. } = self;
        let clock = WallClock::new();
        if let Some(control) = &self.control {
            let (now, date) = (clock.now().0, clock.date().as_nanos() as u64);
            control.tell_and_wait(&Event::Hello { now, date });
        }
        let live = Live::start(args.metrics, args.dashboard.address)?;
        let board = board(live.as_ref(), args, trial, seat);
        let progress = self.reports.then(|| Progress::of(trial, self.quiet));
        let progress = match self.task.role() {
            Role::Evaluator => progress.map(Progress::with_evaluations),
            _ => progress,
        };
        let recording = recording(trial, &self.task, progress, board.clone());
        let recording = match self.control {
            Some(_) => recording.telling(),
            None => recording,
        };
        let tape = match &args.record {
            Some(folder) => Some(trial.tape_writer(seat, clock, folder)?),
            None => None,
        };
        let sent = Rc::default();
        Ok(Instruments { clock, board, recording, tape, sent, _live: live })
    }

    /// Runs the task's server and program.
    fn run(
        &self,
        instruments: &Instruments,
        seat: Seat,
        config: RunConfig,
        stop: StopRequest,
        trainer: &impl Trainer,
    ) -> Result<TaskOutcome<()>, Failure> {
        let trial = self.trial;
        let member = Member {
            seat,
            encoding: trial.cluster.encoding,
            devices: trial.cluster.hardware.devices,
            busy_poll: self.args.busy_poll.0,
            clock: instruments.clock,
            tape: instruments.tape.clone(),
            board: instruments.board.clone(),
            sent: Rc::clone(&instruments.sent),
        };
        let program = |server: Rc<Server>| {
            self.keep_telling(instruments);
            let task = trial.deployed_checkpoints().and_then(|checkpoints| {
                let recorder = instruments.recording.recorder();
                trial.task(server, checkpoints, Stores::Lasting, recorder, Some(config))
            });
            run_to_end(task.map(|task| (task.clone(), trainer(task))))
        };
        Ok(deployment::run(member, stop, program)?)
    }

    /// Tells the launcher, if there is one, that the actors run, and what the task records, sends
    /// and shows.
    fn keep_telling(&self, instruments: &Instruments) {
        let Some(control) = &self.control else { return };
        let Instruments { board, recording, sent, .. } = instruments;
        actix_rt::spawn(control.clone().beat());
        actix_rt::spawn(control.clone().record(recording.clone(), Rc::clone(sent)));
        if let Some(board) = board {
            actix_rt::spawn(control.clone().show(Arc::clone(board), self.task.clone()));
        }
    }

    /// Tells the launcher, if there is one, the facts that it has yet to hear, and that the task
    /// has ended.
    fn tell_the_end<T>(
        &self,
        instruments: &Instruments,
        untold: Vec<Fact>,
        outcome: &TaskOutcome<T>,
    ) {
        let Some(control) = &self.control else { return };
        if let Some(board) = &instruments.board {
            control.show_once(board, &self.task);
        }
        control.tell(&Event::Recorded { facts: untold, sent: outcome.sent });
        let error = outcome.result.as_ref().err().cloned();
        control.tell_and_wait(&Event::Ended { now: outcome.ended.0, error });
    }

    /// Reports the result of a part in the run that did not fail, where that is due, and decides
    /// the exit code. `stopped` is that of the request to stop, if there was one.
    fn conclude(
        &self,
        empty: Report,
        recording: &Recording,
        observed: &Observed,
        stopped: Option<ExitCode>,
    ) -> Result<ExitCode, Failure> {
        let is_unsaved = recording.is_unsaved();
        let is_empty = recording.log.is_empty() && recording.evaluations.is_empty();
        let has_begun = !is_empty || stopped.is_none();
        let code = if recording.is_after_the_end {
            ExitCode::Done
        } else if self.reports && has_begun {
            self.report(empty, recording, observed)?
        } else if is_unsaved {
            ExitCode::Unwritable
        } else {
            ExitCode::Done
        };
        if code == ExitCode::TargetNotReached && self.is_measured_elsewhere {
            return Ok(stopped.unwrap_or(ExitCode::Done));
        }
        // A stop that loses steps is not one in good order.
        Ok(stopped.filter(|_| !is_unsaved).unwrap_or(code))
    }

    /// Writes and prints the report of this task: the chief has the training's, an evaluator its
    /// measurements.
    fn report(
        &self,
        mut report: Report,
        recording: &Recording,
        observed: &Observed,
    ) -> Result<ExitCode, Failure> {
        let (args, trial) = (self.args, self.trial);
        let result = trial.summarise(recording, observed, observed.ended.since(Time::ZERO));
        report.add(result, 1);
        report.of_task = observed.only_task().filter(|_| trial.cluster.spec.tasks().count() > 1);
        let (mut out, failure) = match self.out() {
            Ok(out) => (out, None),
            Err(failure) => (Out::create(None)?, Some(failure)), // the table is printed even so
        };
        out.append(&report, trial, recording);
        out.print(args.format.format(), &report)?;
        failure.map_or_else(|| Ok(exit_code(&report.runs)), Err)
    }

    /// The files of the report. Their folder is locked until this is dropped: not while the task
    /// runs, since the chief and an evaluator may have the same one.
    fn out(&self) -> Result<Out, Failure> {
        Out::beside_earlier(self.args.out.as_deref(), self.began)
    }
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

/// The recording of the task: it shows its steps as `progress`, and on `board`.
fn recording(
    trial: &Trial,
    task: &TaskName,
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
