//! Timelines on real processes: each is a launch of its own, with its own logs and checkpoints.

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use super::super::launch::{Launcher, can_inflict};
use super::super::{Experiment, ExperimentError, Trial};
use super::arena::{Arena, Attempt};
use crate::checkpoint::open_store;
use crate::clock::{Clock, WallClock};
use crate::cluster::TaskName;
use crate::deployment::{
    DeploymentError, Ended, ExitCode, Folder, StopRequest, event_loop, last_words, log_of,
};
use crate::report::Run;
use crate::runtime::{Code, Error};
use crate::simulation::{Fault, FaultKind};
use crate::training::{Recording, Watch};
use crate::units::Time;

/// The number of further launches of a timeline that broke a promise; also the number of launches
/// of a shorter one before it counts as harmless.
const REPETITIONS: u32 = 3;
/// The time limit of an undisturbed training.
const UNDISTURBED: Duration = Duration::from_secs(3600);
/// The time between two looks whether the user has asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Launches for the timelines of an experiment.
pub(crate) struct Launches<'a> {
    /// The experiment.
    pub(crate) experiment: &'a Experiment,
    /// Its launcher.
    pub(crate) launcher: Launcher,
    /// The number of launches at a time.
    pub(crate) jobs: usize,
    /// Becomes true when the user asks to stop.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The processes that logged nothing for too long.
type Silent = Arc<Mutex<Vec<(TaskName, Duration)>>>;

/// A watch for such processes.
struct Listening(Silent);

impl Watch for Listening {
    fn silent(&mut self, task: &TaskName, silence: Duration) {
        self.0.lock().expect("nobody panics while it is told").push((task.clone(), silence));
    }
}

type LaunchOutcome = Result<Ended<(Run, Recording)>, ExperimentError>;

/// Has `trial` judged as a deployed one: two tasks may lose each other when one of them has stood
/// still for half of what they wait for, since a busy machine adds to that.
pub(super) fn judged_as_deployed(trial: &mut Trial) {
    trial.cluster.faults.silence /= 2;
}

impl Arena for Launches<'_> {
    fn train(&self, trial: &Trial, faults: &[Fault], latest: Option<Time>) -> Option<Attempt> {
        let (clock, mut trial) = (WallClock::new(), trial.clone());
        trial.cluster.faults.list = faults.to_vec();
        let limit = latest.unwrap_or(Time::ZERO.after(UNDISTURBED));
        match Folder::private("trainyard-chaos") {
            Ok(folder) => {
                trial.keep_all_checkpoints_below(&folder.path().join("saved"));
                let silent = Silent::default();
                let launched = self.launch(&trial, folder.path(), limit, clock, &silent)?;
                let attempt = attempt(launched, &trial, folder, clock.now());
                let silent = silent.lock().expect("nobody panics while it is told").clone();
                Some(Attempt { silent, ..attempt })
            }
            Err(error) => Some(failed(error.into(), clock.now())),
        }
    }

    fn has(&self, trial: &Trial, kind: &FaultKind) -> bool {
        let is_tear = matches!(kind, FaultKind::TornCheckpoint { .. });
        (is_tear && trial.has_checkpoints()) || can_inflict(trial, kind)
    }

    fn jobs(&self) -> usize {
        self.jobs
    }

    fn repetitions(&self) -> u32 {
        REPETITIONS
    }

    fn first_seed(&self, trial: &Trial) -> u64 {
        trial.cluster.seed
    }

    fn undoes_steps(&self) -> bool {
        false
    }
}

impl Launches<'_> {
    /// Launches `trial` with its logs and checkpoints in `folder`. None if the user has asked to
    /// stop.
    fn launch(
        &self,
        trial: &Trial,
        folder: &Path,
        limit: Time,
        clock: WallClock,
        silent: &Silent,
    ) -> Option<LaunchOutcome> {
        let logs = folder.join("logs");
        let prepared = fs::create_dir(&logs)
            .map_err(DeploymentError::writing(logs.display().to_string()))
            .and_then(|()| event_loop());
        let runtime = match prepared {
            Ok(runtime) => runtime,
            Err(error) => return Some(Err(error.into())),
        };
        let experiment = match self.saving_in(trial, folder) {
            Ok(experiment) => experiment,
            Err(error) => return Some(Err(error)),
        };
        runtime.block_on(async {
            let mut never = StopRequest::never();
            let watch = Box::new(Listening(Arc::clone(silent)));
            let launching =
                self.launcher.launch(&experiment, trial, logs, Some(watch), None, &mut never);
            let mut launching = pin!(launching);
            loop {
                if let Ok(launched) = timeout(LOOK_EVERY, &mut launching).await {
                    return Some(launched);
                }
                if self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                if clock.now() > limit {
                    return Some(Err(hang(trial, limit)));
                }
            }
        })
    }

    /// The experiment with all checkpoints of `trial` in `folder`.
    fn saving_in(&self, trial: &Trial, folder: &Path) -> Result<Experiment, ExperimentError> {
        let experiment = self.experiment.clone();
        if !trial.has_checkpoints() {
            return Ok(experiment);
        }
        let directory = folder.join("saved").display().to_string();
        experiment.set(&format!("checkpoint.directory={directory:?}"))?.set("checkpoint.keep=0")
    }
}

fn hang(trial: &Trial, limit: Time) -> ExperimentError {
    let error = Error::new(Code::Stalled, format!("it still ran after {limit}"));
    ExperimentError::Run { run: trial.name.clone(), error }
}

/// What came of a launch of `trial` that was over `now`, with its files in `folder`.
fn attempt(launched: LaunchOutcome, trial: &Trial, folder: Folder, now: Time) -> Attempt {
    let mut attempt = match launched {
        Ok(Ended::Done((run, recording))) => {
            let ended = Time::ZERO.after(Duration::from_secs_f64(run.seconds));
            Attempt { ended, recording, ..Attempt::default() }
        }
        Ok(Ended::Stopped(stopped)) => {
            let (run, code) = (trial.name.clone(), stopped.code);
            failed(DeploymentError::Stopped { run, code }.into(), now)
        }
        Err(error) => failed(error, now),
    };
    let saved = trial.checkpoint_folder().filter(|_| trial.has_checkpoints());
    attempt.store = saved.and_then(|saved| open_store(&saved.display().to_string()).ok());
    let logs = folder.path().join("logs");
    let words = trial.cluster.spec.tasks().filter_map(|task| {
        let words = last_words(&log_of(&logs, &task))?;
        Some((task, words))
    });
    attempt.last_words = words.collect();
    attempt.folder = Some(folder);
    attempt
}

fn failed(error: ExperimentError, ended: Time) -> Attempt {
    Attempt { ended, failed: Some(as_of_a_step(error)), ..Attempt::default() }
}

/// The error of a training of processes as that of a step: of the code that the task which failed
/// first has told, or else that its exit code stands for.
fn as_of_a_step(error: ExperimentError) -> Error {
    let ExperimentError::Deployment(DeploymentError::Task { task, why, code, error, .. }) = error
    else {
        return error.into();
    };
    let of_exit = match code {
        ExitCode::PeersLost => Code::Unavailable,
        ExitCode::CorruptData => Code::DataLoss,
        ExitCode::Unwritable => Code::Unwritable,
        ExitCode::Unanswered => Code::Unanswered,
        _ => Code::Internal,
    };
    let told = error.map(|error| error.code);
    Error::new(told.unwrap_or(of_exit), format!("{task}, exit code {}: {why}", code as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_training_has_the_code_that_a_task_told_or_else_that_of_its_exit() {
        let of = |told: Option<Code>, code| {
            as_of_a_step(ExperimentError::Deployment(DeploymentError::Task {
                run: "sync".to_owned(),
                task: TaskName::new("worker", 1),
                why: "run `sync`: Aborted: `w` (on ps:0)".to_owned(),
                log: String::new(),
                code,
                error: told.map(|told| Box::new(Error::new(told, "`w`"))),
            }))
        };
        let lost = of(Some(Code::VariablesLost), ExitCode::PeersLost);
        assert_eq!(lost.code, Code::VariablesLost);
        assert!(lost.message.contains("worker:1, exit code 138: run `sync`"), "{lost}");
        assert_eq!(of(None, ExitCode::PeersLost).code, Code::Unavailable);
        assert_eq!(of(None, ExitCode::Internal).code, Code::Internal);
    }
}
