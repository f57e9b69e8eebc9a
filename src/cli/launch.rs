//! `launch`: a scenario's runs for real on this machine, one process a task, over QUIC.
//!
//! The tasks are this same program, so that a user's own can be launched as well. Each is handed
//! the socket that it listens on, and a way to the launcher by which it hears when that is gone,
//! however it went: no process stays behind.

mod folder;
mod follow;
mod members;

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime;

use super::args::LaunchArgs;
use super::exit_code::ExitCode;
use super::failure::Failure;
use super::output::{Files, print};
use super::stop::{self, Stop};
use crate::clock::{Clock, WallClock};
use crate::experiment::{Experiment, Observed, Trial, report_of};
use crate::report::{Run, World};
use crate::training::Recording;
use crate::units::Time;

use folder::Folder;
use follow::Ended;
use members::Order;

/// Runs the command.
pub(super) fn run(args: &LaunchArgs, verbose: u8) -> Result<ExitCode, Failure> {
    let experiment = args.scenario.experiment()?;
    let trials = experiment.trials()?;
    let stop = stop::listen(None)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::system("run an event loop"))?;
    runtime.block_on(Launch { args, verbose, experiment, trials }.run(stop))
}

/// What is launched.
struct Launch<'a> {
    args: &'a LaunchArgs,
    verbose: u8,
    experiment: Experiment,
    trials: Vec<Trial>,
}

impl Launch<'_> {
    /// All runs, one after the other; each is in the report's files as soon as it is over.
    async fn run(&self, mut stop: Stop) -> Result<ExitCode, Failure> {
        let mut report = report_of(&self.trials, World::Deployment);
        let mut files = self.args.out.as_deref().map(Files::create).transpose()?;
        let logs = Logs::new(self.args.out.clone())?;
        let mut is_target_missed = false;
        for trial in &self.trials {
            let log_folder = logs.of_run(&trial.name, self.trials.len())?;
            let (result, recording) = match self.launch(trial, log_folder, &mut stop).await {
                Ok(Ended::Done(ended)) => *ended,
                Ok(Ended::Stopped(code)) => {
                    logs.remove();
                    return Ok(code);
                }
                Err(failure) => return Err(failure), // and the logs stay
            };
            is_target_missed |= trial.misses_target(&result);
            report.runs.push(result);
            if let Some(files) = &mut files {
                files.append(&report, &trial.name, &recording)?;
            }
        }
        logs.remove();
        let target = self.trials[0].settings.stop.accuracy;
        print(self.args.json, &report, target).map_err(Failure::writing("the result"))?;
        Ok(if is_target_missed { ExitCode::TargetNotReached } else { ExitCode::Done })
    }

    /// One run.
    async fn launch(
        &self,
        trial: &Trial,
        logs: PathBuf,
        stop: &mut Stop,
    ) -> Result<Ended<Box<(Run, Recording)>>, Failure> {
        let clock = WallClock::new();
        let order = Order {
            scenario: &self.args.scenario.scenario,
            changes: self.experiment.changes().collect(),
            seed: self.experiment.asked_seed(),
            run: &trial.name,
            verbose: self.verbose,
            busy_poll: self.args.busy_poll,
            tasks: trial.cluster.spec.tasks().collect(),
            logs,
        };
        let cluster = members::start(&order)?;
        let steps = trial.settings.stop.steps;
        let told = match follow::follow(cluster, &order, (clock, steps), stop).await? {
            Ended::Done(told) => told,
            Ended::Stopped(code) => return Ok(Ended::Stopped(code)),
        };
        let took: Duration = clock.now().since(Time::ZERO);
        let observed =
            Observed { ended: told.ended, bytes_sent: told.bytes_sent, events: None, digest: None };
        let result = trial.summarise(&told.recording, &observed, took);
        Ok(Ended::Done(Box::new((result, told.recording))))
    }
}

/// Where the tasks' logs go.
struct Logs {
    folder: PathBuf,
    /// Whether nobody asked for them: they stay only where a task fails.
    is_ours: bool,
}

impl Logs {
    fn new(out: Option<PathBuf>) -> Result<Self, Failure> {
        let is_ours = out.is_none();
        let folder = match out {
            Some(out) => out.join("logs"),
            None => Folder::private("trainyard-logs")?.keep(),
        };
        Ok(Self { folder, is_ours })
    }

    /// The folder for one run of several.
    fn of_run(&self, run: &str, runs: usize) -> Result<PathBuf, Failure> {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = run.chars().map(word).collect();
        let folder = if runs > 1 { self.folder.join(name) } else { self.folder.clone() };
        std::fs::create_dir_all(&folder).map_err(Failure::writing(folder.display().to_string()))?;
        Ok(folder)
    }

    /// All went well.
    fn remove(&self) {
        if self.is_ours {
            folder::remove(&self.folder);
        }
    }
}
