//! A part in a run as one of its tasks, in this process: what `trainyard task` does, and what a
//! program does that starts its tasks itself.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::observed::Observed;
use super::{ExperimentError, Trainer, Trial};
use crate::checkpoint::Stores;
use crate::clock::{Clock, WallClock};
use crate::cluster::{RunConfig, TaskName};
use crate::deployment::{
    self, Control, DeploymentError, Event, ExitCode, Member, Proof, Seat, StopRequest, TaskOutcome,
};
use crate::live::Board;
use crate::report::{End, Run};
use crate::runtime::{Error, Result as TaskResult, Server, Traffic};
use crate::tape::TapeWriter;
use crate::training::{Fact, FailedCheckpoint, Recording, SharedRecording, run_to_end};
use crate::transport::RunId;
use crate::units::Time;

/// The clock of a task, and the instruments that record and show it.
#[non_exhaustive]
pub struct Instruments {
    /// The task's clock.
    pub clock: WallClock,
    /// How long the task polls for messages before it sleeps.
    pub busy_poll: Duration,
    /// Records what the task does, for this task alone.
    pub recording: SharedRecording,
    /// Writes the order in which it receives messages, if that is asked for.
    pub tape: Option<TapeWriter>,
    /// Shows its numbers, if somebody is to see them.
    pub board: Option<Arc<Board>>,
    /// The connection to the launcher, if one has started the process.
    pub(crate) control: Option<Control>,
}

shown!(Instruments, busy_poll);

impl Default for Instruments {
    /// A clock that starts now and a recording that nobody watches.
    fn default() -> Self {
        let (clock, recording) = (WallClock::new(), SharedRecording::default());
        let busy_poll = Duration::ZERO;
        Self { clock, busy_poll, recording, tape: None, board: None, control: None }
    }
}

/// The end of a task's part in a run.
#[non_exhaustive]
pub struct Attended {
    /// The task.
    pub task: TaskName,
    /// What it has recorded.
    pub recording: Recording,
    /// How its program ended: well also if it was asked to stop and did not return in time.
    pub result: TaskResult<()>,
    /// The exit code of the request to stop, of this task or of a parameter server, if there was
    /// one. None if the program has come to the end of its training all the same.
    pub stopped: Option<ExitCode>,
    /// The checkpoint that such a request has left unwritten; the steps after the last one are
    /// lost.
    pub lost: Option<FailedCheckpoint>,
    /// The time at the end, on the task's clock.
    pub ended: Time,
    /// The data sent to other tasks.
    pub sent: Traffic,
}

impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, result, stopped, ended, .. } = self;
        let mut shown = f.debug_struct("Attended");
        shown.field("task", task).field("result", result).field("stopped", stopped);
        shown.field("ended", ended).finish_non_exhaustive()
    }
}

impl Trial {
    /// The place that `config` gives a process in this run, where it proves its task's name with
    /// `proof`. The tasks of a training find each other by its `name`, by default the scenario's.
    ///
    /// # Errors
    /// If there is no certificate, or the scenario does not have the task.
    pub fn seat(
        &self,
        config: &RunConfig,
        proof: Option<Proof<'_>>,
        name: Option<&str>,
    ) -> Result<Seat, DeploymentError> {
        let run = RunId::new(name.unwrap_or(&self.scenario)).with_settings(self.shared_settings());
        let mut seat = Seat::new(config, self.cluster.spec.clone(), proof, run)?;
        seat.silence = Some(self.cluster.faults.silence);
        Ok(seat)
    }

    /// Takes part in the run as the task of `seat`, to its end or until it is asked to stop.
    /// `config` is what the environment says of the task.
    ///
    /// # Errors
    /// If the task can't take part in the cluster. An error of its program is in what is returned.
    pub fn attend(
        &self,
        seat: Seat,
        config: RunConfig,
        stop: StopRequest,
        instruments: Instruments,
        trainer: &impl Trainer,
    ) -> Result<Attended, ExperimentError> {
        let Instruments { clock, busy_poll, recording, tape, board, control } = instruments;
        let (task, sent) = (seat.task().clone(), Rc::default());
        let launched = control.map(|control| LaunchedTask {
            control,
            task: task.clone(),
            recording: recording.clone().telling(),
            board: board.clone(),
            sent: Rc::clone(&sent),
        });
        if let Some(launched) = &launched {
            launched.tell_of_the_start(clock);
        }
        let (encoding, devices) = (self.cluster.encoding, self.cluster.hardware.devices);
        let member =
            Member { seat, encoding, devices, busy_poll, clock, tape: tape.clone(), board, sent };
        let program = |server: Rc<Server>| {
            if let Some(launched) = &launched {
                launched.keep_telling();
            }
            let task = self.deployed_checkpoints().and_then(|checkpoints| {
                self.task(server, checkpoints, Stores::Lasting, recording.recorder(), Some(config))
            });
            run_to_end(task.map(|task| (task.clone(), trainer(task))))
        };
        let outcome = deployment::run(member, stop, program)?;
        let TaskOutcome { result, stopped, ended, sent, waits } = outcome;
        let lasts = self.checkpoint_place().is_some();
        let lost = stopped.filter(|_| lasts).and_then(|_| recording.note_stop(&waits));
        let error = result.as_ref().err();
        if let Some(tape) = &tape {
            tape.end(recording.weights(), error.map(ToString::to_string));
            tape.cut().into_iter().for_each(|which| recording.record(Fact::TapeCut(which)));
        }
        if let Some(launched) = launched {
            launched.tell_of_the_end(ended, sent, error.cloned());
        }
        let recording = recording.finish();
        Ok(Attended { task, recording, result: result.map(drop), stopped, lost, ended, sent })
    }

    /// The run's entry in the report, as far as a task knows it that has `attended` the run: the
    /// chief has the training's steps and evaluations, an evaluator its measurements. A
    /// part that was stopped, or failed, before the training's end is [`End::Unfinished`].
    pub fn report_attended(&self, attended: &Attended) -> Run {
        let Attended { task, recording, result, ended, sent, stopped, .. } = attended;
        let observed = Observed::deployed(*ended, [(task.clone(), *sent)].into());
        let observed = observed.without(&self.cluster.faults.list);
        let mut run = self.summarise(recording, &observed, ended.since(Time::ZERO));
        if self.settings.all_reduce.is_none() {
            run.steps_without.clear(); // it knows its own gradients alone
        }
        if stopped.is_some() {
            self.note_stop(&mut run, recording);
        } else if result.is_err() && recording.ending.is_none() {
            cut_short(&mut run);
        }
        run
    }
}

impl Trial {
    /// Has `run`, which was asked to stop, say that it is not finished, unless it had met a
    /// condition that ends it: a stop in good order records an ending, too.
    pub(super) fn note_stop(&self, run: &mut Run, recording: &Recording) {
        if recording.ending.is_none() || !self.meets_its_end(run) {
            cut_short(run);
        }
    }

    /// Whether `run` has come as far as one of the conditions that end it.
    fn meets_its_end(&self, run: &Run) -> bool {
        let stop = &self.settings.stop;
        stop.steps.is_some_and(|steps| run.global_steps >= steps)
            || run.target_reached_at.is_some()
            || stop.time.is_some_and(|limit| run.seconds >= limit.as_secs_f64())
    }
}

fn cut_short(run: &mut Run) {
    if matches!(run.end, End::Done | End::TargetNotReached) {
        run.end = End::Unfinished;
    }
}

/// A task whose process a launcher has started, and which tells it of itself.
struct LaunchedTask {
    control: Control,
    task: TaskName,
    recording: SharedRecording,
    board: Option<Arc<Board>>,
    /// Counts what the task sends.
    sent: Rc<Cell<Traffic>>,
}

impl LaunchedTask {
    /// Tells when the task has started, by its `clock`.
    fn tell_of_the_start(&self, clock: WallClock) {
        let (now, date) = (clock.now().0, clock.date().as_nanos() as u64);
        self.control.tell_and_wait(&Event::Hello { now, date });
    }

    /// Tells from now on that the actors run, and what the task records, sends and shows.
    fn keep_telling(&self) {
        let Self { control, task, recording, board, sent } = self;
        actix_rt::spawn(control.clone().beat());
        actix_rt::spawn(control.clone().record(recording.clone(), Rc::clone(sent)));
        if let Some(board) = board {
            actix_rt::spawn(control.clone().show(Arc::clone(board), task.clone()));
        }
    }

    /// Tells what is not told yet, and that the task has `ended`.
    fn tell_of_the_end(self, ended: Time, sent: Traffic, error: Option<Error>) {
        let Self { control, task, recording, board, .. } = self;
        if let Some(board) = board {
            control.show_once(&board, &task);
        }
        control.tell(&Event::Recorded { facts: recording.take_unsent(), sent });
        control.tell_and_wait(&Event::Ended { now: ended.0, error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::training::train;

    #[test]
    fn a_program_takes_part_as_one_task_and_has_what_it_recorded() {
        let text = "[cluster]\nworker = 1\n[program]\nmodel = 'softmax'\nbatch = 8\n\
                    [stop]\nsteps = 4\n[[run]]\nname = 'a'\nmode = 'async'\n";
        let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        let config = RunConfig::from_tf_config(None).unwrap();
        let seat = trial.seat(&config, None, None).unwrap();
        let (stop, instruments) = (StopRequest::never(), Instruments::default());
        let attended = trial.attend(seat, config, stop, instruments, &train).unwrap();
        assert_eq!((&attended.result, attended.stopped), (&Ok(()), None));
        let run = trial.report_attended(&attended);
        assert_eq!((run.global_steps, run.gradients.applied), (4, 4));
    }
}
