//! `task`: one task of a scenario's run, in this process, over QUIC.

use std::sync::Arc;
use std::time::Duration;

use super::args::TaskArgs;
use super::failure::Failure;
use super::live::Live;
use super::output::{Out, caution, command, exit_code, tell_of_earlier, tell_of_tapes};
use super::progress::Progress;
use crate::clock::{Clock, WallClock};
use crate::cluster::{Role, RunConfig, TaskName};
use crate::deployment::{Control, ExitCode, Proof, Seat, StopRequest, require_role};
use crate::experiment::{
    Attended, EventLog, ExperimentError, Instruments, Trainer, Trial, model_of,
};
use crate::live::{Board, Meter};
use crate::report::{Report, World};
use crate::say::say;
use crate::tensor::set_memory_limit;
use crate::training::{SharedRecording, Task, Watch, train};

/// Runs the command.
pub(super) fn run(
    args: &TaskArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    match args.built_in {
        true => run_as(args, quiet, &train),
        false => run_as(args, quiet, trainer),
    }
}

/// Runs the task with the program `trainer`.
fn run_as(args: &TaskArgs, quiet: bool, trainer: &impl Trainer) -> Result<ExitCode, Failure> {
    let experiment = args.scenario.experiment()?;
    let scenario = &experiment.scenarios()?[0].1;
    let config = require_role(&args.role.flags(Some(scenario)), scenario.addresses())?;
    super::cluster::warn(&config);
    let mut trial = only(experiment.trials_of_task(config.task())?)?;
    trial.draws_graph = args.launched || args.out.is_some(); // the launcher may write the files
    trial.memory_limit.into_iter().for_each(set_memory_limit);
    let (mut socket, mut control) = (None, None);
    let mut proof = args.certs.as_deref().map(Proof::Folder);
    if args.launched {
        let (given, identity, way) = Control::take()?;
        (socket, control, proof) = (Some(given), Some(way), Some(Proof::Given(identity)));
    }
    let mut seat = trial.seat(&config, proof, args.run_name.as_deref())?;
    (seat.socket, seat.lanes) = (socket, args.lanes.threads.map(usize::from));
    let mut report = experiment.report(std::slice::from_ref(&trial), World::Deployment)?;
    report.command = command();
    report.model = model_of(std::slice::from_ref(&trial), trainer);
    let assignment = Assignment::new(args, quiet, &trial, &seat, control);
    let mut own = trial.clone();
    own.cluster.spec = seat.cluster().clone(); // the scenario may count other tasks
    caution(&experiment, (&[own], World::Deployment), trainer, !assignment.tells)?;
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
    /// The event file of the result.
    events: Option<EventLog>,
    /// Whether this process tells the cautions about the settings, and what the training goes on
    /// from: one of the cluster does.
    tells: bool,
    /// Whether an evaluator decides if the target is reached, and not this task.
    is_measured_elsewhere: bool,
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
        let reports = has_results && control.is_none(); // a launcher does it for its tasks
        let (out, began) = (args.out.as_ref().filter(|_| reports), WallClock::new().date());
        Self {
            args,
            quiet,
            trial,
            task: seat.task().clone(),
            began,
            reports,
            events: out.map(|out| EventLog::new(out, &trial.name, began)),
            tells: !quiet && control.is_none() && seat.is_chief(),
            is_measured_elsewhere: seat.cluster().evaluator().is_some() && seat.is_chief(),
            control,
        }
    }

    /// Takes part in the run, to its end or until it is asked to stop, and reports the result in
    /// the report, which is `empty` so far.
    fn attend(
        mut self,
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
        let live = Live::start(self.args.metrics.address, self.args.dashboard.address)?;
        let listens = self.listens(&seat);
        tell_of_earlier(self.trial, seat.cluster().has_parameter_servers(), !self.tells);
        let instruments = self.prepare(&seat, live.as_ref())?;
        let trainer = |task: Task| {
            if let Some(listens) = &listens {
                say!("{listens}");
            }
            trainer(task)
        };
        let attended = self.trial.attend(seat, config, stop, instruments, &trainer)?;
        if let Some(lost) = &attended.lost {
            say!("the checkpoint of step {} could not be written: {}", lost.global_step, lost.why);
        }
        if listens.is_some() && attended.result.is_ok() && attended.stopped.is_none() {
            say!("{}: the training is over", self.task);
        }
        let code = self.conclude(empty, &attended)?;
        Ok(tell_of_tapes(&attended.recording.cut_tapes, code))
    }

    /// The line that a task prints once it listens, if it reports no result and no launcher speaks
    /// for it.
    fn listens(&self, seat: &Seat) -> Option<String> {
        if self.quiet || self.reports || self.control.is_some() {
            return None;
        }
        let (task, name) = (&self.task, &self.trial.scenario);
        let (_, port) = seat.address()?.rsplit_once(':')?;
        let chief = seat.cluster().chief()?;
        Some(format!(
            "{task} listens on UDP port {port} for {name:?}; the chief, {chief}, prints the result"
        ))
    }

    /// What records and shows the task in `seat`, also to those who look at `live`.
    fn prepare(&mut self, seat: &Seat, live: Option<&Live>) -> Result<Instruments, Failure> {
        let Self { args, trial, .. } = *self;
        let board = board(live, args, trial, seat);
        let progress = self.reports.then(|| Progress::of(trial, self.quiet));
        let progress = match self.task.role() {
            Role::Evaluator => progress.map(Progress::with_evaluations),
            _ => progress,
        };
        let (clock, control) = (WallClock::new(), self.control.take());
        let (busy_poll, record) = (args.busy_poll.0, args.record.as_ref());
        let meter = board.clone().map(|board| Meter::new(board, trial.settings.batch));
        let meter = meter.map(|meter| meter.of_task(self.task.clone()));
        let mut recording = recording(meter, progress, self.events.clone());
        if !self.reports {
            recording = recording.of_progress();
        }
        let tape = record.map(|folder| trial.tape_writer(seat, clock, folder)).transpose()?;
        Ok(Instruments { clock, busy_poll, recording, tape, board, control })
    }

    /// Reports the result of a part in the run, where that is due, and decides the exit code.
    ///
    /// # Errors
    /// If the task's program failed, or the report can't be written.
    fn conclude(&self, empty: Report, attended: &Attended) -> Result<ExitCode, Failure> {
        let Attended { recording, stopped, .. } = attended;
        let is_unsaved = recording.is_unsaved();
        let is_empty = recording.log.is_empty() && recording.evaluations.is_empty();
        if let Err(failure) = self.unless_unsaved(attended) {
            if self.reports && !is_empty {
                // Its next life records only what comes then.
                let reported = self.report(empty, attended);
                reported.err().into_iter().for_each(|error| say!("{error}"));
            }
            return Err(failure);
        }
        let has_begun = !is_empty || stopped.is_none();
        let code = if recording.is_after_the_end && is_empty {
            ExitCode::Done
        } else if self.reports && has_begun {
            self.report(empty, attended)?
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

    /// The failure of the task's program, unless the training has come to its end and lacks its
    /// last checkpoint alone: then the report says so, or this, where a task that was stopped has
    /// none.
    fn unless_unsaved(&self, attended: &Attended) -> Result<(), Failure> {
        let Err(error) = &attended.result else { return Ok(()) };
        let failure = Failure::Task { run: self.trial.name.clone(), error: error.clone() };
        if !attended.recording.is_unsaved() {
            return Err(failure);
        }
        if attended.stopped.is_some() {
            say!("{failure}");
        }
        Ok(())
    }

    /// Writes and prints the report of this task: the chief has the training's, an evaluator its
    /// measurements.
    fn report(&self, mut report: Report, attended: &Attended) -> Result<ExitCode, Failure> {
        let (args, trial) = (self.args, self.trial);
        report.add(trial.report_attended(attended), 1);
        let has_others = trial.cluster.spec.tasks().count() > 1;
        report.of_task = has_others.then(|| self.task.to_string());
        let (mut out, failure) = match self.out() {
            Ok(out) => (out, None),
            // The table is printed even so.
            Err(failure) => (Out::create(None, self.quiet)?, Some(failure)),
        };
        out.append(&report, trial, &attended.recording, self.events.clone());
        out.print(args.format.format(), &report)?;
        failure.map_or_else(|| Ok(exit_code(&report.runs)), Err)
    }

    /// The files of the report. Their folder is locked until this is dropped: not while the task
    /// runs, since the chief and an evaluator may have the same one.
    fn out(&self) -> Result<Out, Failure> {
        Out::beside_earlier(self.args.out.as_deref(), self.began, self.quiet)
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

/// A recording that shows its progress to those of the three that there are.
fn recording(
    meter: Option<Meter>,
    progress: Option<Progress>,
    events: Option<EventLog>,
) -> SharedRecording {
    let watches: [Option<Box<dyn Watch + Send>>; 3] =
        [meter.map(Into::into), progress.map(Into::into), events.map(Into::into)];
    let show = |recording: SharedRecording, watch| recording.also_showing(watch);
    watches.into_iter().flatten().fold(SharedRecording::default(), show)
}
