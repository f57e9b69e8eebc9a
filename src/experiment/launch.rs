//! The deployment of an experiment: its runs as processes on this machine.

mod inflicted;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::observed::Observed;
use super::trial::folder_of;
use super::{EventLog, Experiment, ExperimentError, Trial, check_places};
use crate::deployment::{
    DeploymentError, Ended, ExitCode, Folder, Launch, StopRequest, Stopped, Tuning, event_loop,
    launch,
};
use crate::live::{Board, Boards};
use crate::report::{Report, Run, World};
use crate::say::say;
use crate::tape::TapeWriter;
use crate::training::{Recording, Watch};

/// Launches the runs of an experiment.
pub(crate) struct Launcher {
    /// The program, which [`crate::main`] runs.
    pub(crate) program: PathBuf,
    /// The program's flags besides those of the experiment.
    pub(crate) flags: Vec<String>,
    pub(crate) tuning: Tuning,
    /// How often a task is started again whose end a restart can mend.
    pub(crate) max_restarts: u32,
    /// Whether it is told how a task is asked for its status.
    pub(crate) tells_of_status: bool,
    /// Tells what a launch does to its processes and waits for.
    pub(crate) tell: fn(&str),
    /// The folder of the tapes, if any are wanted.
    pub(crate) record: Option<PathBuf>,
    /// Shows the tasks' numbers, if somebody is to see them.
    pub(crate) boards: Option<Arc<Boards>>,
    /// The scenario's file, which each task reads.
    scenario: PathBuf,
    /// The temporary folder of `scenario`, if that was not a file; dropped with the launcher.
    _folder: Option<Folder>,
}

pub(super) use inflicted::can_inflict;

impl Launcher {
    /// A launcher of the runs of `experiment` as `program`.
    ///
    /// # Errors
    /// If a scenario that is not in a file can't be written to one.
    pub(crate) fn new(experiment: &Experiment, program: PathBuf) -> Result<Self, ExperimentError> {
        let (folder, scenario) = match &experiment.path {
            Some(path) => (None, path.clone()),
            None => {
                let folder = Folder::private("trainyard-scenario")?;
                let path = folder.path().join("scenario.toml");
                let failed = DeploymentError::writing(path.display().to_string());
                fs::write(&path, &experiment.text).map_err(failed)?;
                (Some(folder), path)
            }
        };
        let tell = |words: &str| say!("{words}");
        Ok(Self {
            program,
            flags: Vec::new(),
            tuning: Tuning::default(),
            max_restarts: 0,
            tells_of_status: false,
            tell,
            record: None,
            boards: None,
            scenario,
            _folder: folder,
        })
    }

    /// Launches `trial`, one run of `experiment`, and follows it to its end. The tasks' logs go to
    /// the folder `logs`, what they record to `events`.
    ///
    /// # Errors
    /// If the system refuses, or a task fails; the error names the task and its last words.
    pub(crate) async fn launch(
        &self,
        experiment: &Experiment,
        trial: &Trial,
        logs: PathBuf,
        watch: Option<Box<dyn Watch>>,
        events: Option<&EventLog>,
        stop: &mut StopRequest,
    ) -> Result<Ended<(Run, Recording)>, ExperimentError> {
        let record = self.record.as_ref().map(|folder| folder.join(folder_of(&trial.name)));
        if let Some(folder) = &record {
            TapeWriter::check_is_new(folder)?;
        }
        let order = Launch {
            program: self.program.clone(),
            arguments: self.arguments(experiment, trial, record.as_deref()),
            program_arguments: experiment.arguments.clone(),
            run: trial.name.clone(),
            tuning: self.tuning,
            tasks: trial.cluster.spec.tasks().collect(),
            patience: trial.settings.patience,
            max_restarts: self.max_restarts,
            status_of: self.tells_of_status.then(|| trial.scenario.clone()),
            faults: inflicted::faults_of_processes(trial, self.tell),
            latency: trial.cluster.hardware.network.latency,
            bandwidth: trial.cluster.hardware.network.bandwidth,
            checkpoints: trial.checkpoint_folder(),
            tell: self.tell,
            board: self.boards.as_ref().map(|boards| board(boards, trial)),
            recorder: events.map(EventLog::recorder),
            logs,
        };
        let (launched, stopped) = match launch(&order, watch, stop).await? {
            Ended::Done(launched) => (launched, None),
            Ended::Stopped(Stopped { code, failed, so_far }) => (so_far, Some((code, failed))),
        };
        let (ended, sent) = (launched.ended, launched.sent);
        let skipped_faults = inflicted::skipped_faults(trial, launched.skipped_faults);
        let observed = Observed { skipped_faults, ..Observed::deployed(ended, sent) };
        let recording = launched.recording;
        let mut run = trial.summarise(&recording, &observed, launched.took);
        let Some((code, failed)) = stopped else { return Ok(Ended::Done((run, recording))) };
        trial.note_stop(&mut run, &recording);
        Ok(Ended::Stopped(Stopped { code, failed, so_far: (run, recording) }))
    }

    /// The arguments of each task's program. Paths are passed on as they are: not all are UTF-8.
    fn arguments(
        &self,
        experiment: &Experiment,
        trial: &Trial,
        record: Option<&Path>,
    ) -> Vec<OsString> {
        let mut arguments = vec!["task".into(), self.scenario.clone().into_os_string()];
        arguments.push(format!("--run={}", trial.run_name()).into());
        for change in experiment.changes().chain(&trial.sweep_values) {
            let flag = if change.removes() { "unset" } else { "set" };
            arguments.push(format!("--{flag}={change}").into());
        }
        arguments.push(format!("--seed={}", trial.cluster.seed).into());
        if let Some(folder) = record {
            let mut record = OsString::from("--record=");
            record.push(folder);
            arguments.push(record);
        }
        arguments.extend(self.flags.iter().map(Into::into));
        arguments
    }
}

impl Experiment {
    /// Deploys every run, one after the other: one process a task on this machine, over QUIC. Each
    /// process runs `program`, which must call [`crate::main`].
    ///
    /// # Errors
    /// As [`Self::trials`]; if the system refuses; the first task that fails, with its last words.
    pub fn launch(&self, program: impl AsRef<Path>) -> Result<Report, ExperimentError> {
        let trials = self.trials_in(World::Deployment)?;
        check_places(&trials, 1)?;
        let launcher = Launcher::new(self, program.as_ref().to_owned())?;
        let logs = Folder::private("trainyard-logs")?;
        let runtime = event_loop()?;
        let mut report = self.report(&trials, World::Deployment)?;
        let mut stop = StopRequest::never();
        for trial in &trials {
            let place = logs.path().to_owned();
            let launched = launcher.launch(self, trial, place, None, None, &mut stop);
            match runtime.block_on(launched)? {
                Ended::Done((run, _)) => report.add(run, trials.len()),
                Ended::Stopped(asked) => return Err(stopped(trial, asked.code)),
            }
        }
        Ok(report)
    }
}

/// A board of all tasks of `trial`, which begins.
fn board(boards: &Boards, trial: &Trial) -> Arc<Board> {
    let cluster = &trial.cluster.spec;
    let board = Board::new(trial.about(World::Deployment), cluster, cluster.tasks());
    boards.add(Arc::clone(&board));
    board
}

fn stopped(trial: &Trial, code: ExitCode) -> ExperimentError {
    DeploymentError::Stopped { run: trial.name.clone(), code }.into()
}
