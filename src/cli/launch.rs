//! `launch`: deploys a scenario's runs on this machine, one process a task, over QUIC.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::args::LaunchArgs;
use super::each::FailedRuns;
use super::failure::Failure;
use super::live::Live;
use super::output::{Out, caution, command, digests, exit_code, tell_of_earlier, tell_of_tapes};
use super::progress::Progress;
use super::{calibrate, chaos};
use crate::clock::{Clock, WallClock};
use crate::deployment::{
    Ended, ExitCode, Folder, StopRequest, Stopped, Tuning, event_loop, folder,
};
use crate::experiment::{
    EventLog, Experiment, ExperimentError, Launcher, Prediction, Predictor, Trainer, Trial,
    check_places, folder_of, model_of,
};
use crate::report::{Report, Run, World};
use crate::say::say;
use crate::training::Recording;

/// Runs the command.
pub(super) fn run(
    args: &LaunchArgs,
    quiet: bool,
    flags: Vec<String>,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let experiment = args.variants.of(args.scenario.experiment()?);
    if let Some(timelines) = args.chaos {
        let launcher = launcher(args, quiet, flags, &experiment)?;
        return chaos::launch(args, &experiment, launcher, timelines, quiet);
    }
    let trials = experiment.trials_in(World::Deployment)?;
    check_places(&trials, args.repeat.get())?;
    caution(&experiment, (&trials, World::Deployment), trainer, quiet)?;
    if !quiet && !args.compare {
        for wish in experiment.flags_without_effect(&trials) {
            say!("warning: {wish}");
        }
    }
    if !quiet && trials.iter().any(|trial| !trial.cluster.hardware.gpus.is_empty()) {
        say!(
            "`[gpus]` is for simulations: a deployed task runs on CPU:0 what asks for a GPU, and \
             runs that differ in their GPUs alone are the same here"
        );
    }
    let mut stop = StopRequest::listen(None)?;
    let predictor = match args.compare {
        true => Some(predictor(args, &experiment, &mut stop, quiet)?),
        false => None,
    };
    let mut launcher = launcher(args, quiet, flags, &experiment)?;
    let live = Live::start(args.metrics.address, args.dashboard.address)?;
    launcher.boards = live.as_ref().map(|live| Arc::clone(&live.boards));
    let runtime = event_loop()?;
    let predict = |at: usize| {
        let prediction = predictor.as_ref().map(|predictor| predictor.predict(at, trainer));
        Ok(prediction.transpose()?)
    };
    let model = model_of(&trials, trainer);
    let launch =
        Launch { args, quiet, experiment: &experiment, trials: &trials, launcher, model, predict };
    runtime.block_on(launch.run(stop))
}

/// A launcher of this program.
fn launcher(
    args: &LaunchArgs,
    quiet: bool,
    flags: Vec<String>,
    experiment: &Experiment,
) -> Result<Launcher, Failure> {
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let mut launcher = Launcher::new(experiment, program)?;
    launcher.flags = flags;
    launcher.record = args.record.clone();
    launcher.max_restarts = args.max_restarts;
    launcher.tells_of_status = !quiet && args.chaos.is_none();
    launcher.tuning = tuning(args);
    Ok(launcher)
}

/// How each task uses its cores.
fn tuning(args: &LaunchArgs) -> Tuning {
    Tuning { busy_poll: args.busy_poll.map(Into::into), lanes: args.lanes.threads }
}

/// A predictor of the runs of `experiment`, as they are launched.
fn predictor(
    args: &LaunchArgs,
    experiment: &Experiment,
    stop: &mut StopRequest,
    quiet: bool,
) -> Result<Predictor, Failure> {
    let mut experiment = experiment.clone();
    if let Some(path) = &args.calibration {
        if !path.is_file() {
            return Err(ExperimentError::Impossible(format!(
                "--calibration {}: there is no such file; `trainyard calibrate --out FILE` writes \
                 one",
                path.display()
            ))
            .into());
        }
        let path = std::path::absolute(path).map_err(Failure::system("find the calibration"))?;
        let Some(name) = path.to_str() else {
            return Err(ExperimentError::Impossible(format!(
                "--calibration {}: its path is not UTF-8, and so no scenario can name it; move it \
                 to a place with another name",
                path.display()
            ))
            .into());
        };
        experiment = experiment.set(&format!("calibration={name:?}"))?;
    }
    Predictor::new(&experiment, tuning(args), || Ok(calibrate::measure(stop, quiet)?.machine))
}

/// The launch of an experiment's runs.
struct Launch<'a, Predict> {
    args: &'a LaunchArgs,
    quiet: bool,
    experiment: &'a Experiment,
    trials: &'a [Trial],
    launcher: Launcher,
    /// The model that the runs train, if it is the built-in trainer's.
    model: Option<String>,
    /// Predicts the trial of this number, if it is to be compared.
    predict: Predict,
}

impl<Predict> Launch<'_, Predict>
where
    Predict: Fn(usize) -> Result<Option<Prediction>, Failure>,
{
    /// Launches all runs. One that fails does not keep the others from being launched; its failure
    /// is told at the end, however that comes, and the exit code is its.
    async fn run(&self, stop: StopRequest) -> Result<ExitCode, Failure> {
        let mut failed = FailedRuns::default();
        let ended = self.run_each(stop, &mut failed).await;
        if failed.is_empty() {
            return ended;
        }
        let code = ended.unwrap_or_else(|failure| {
            failed.add(failure);
            ExitCode::Done
        });
        Ok(failed.tell_or(|| code))
    }

    /// Launches all runs, one after the other; each is in the report's files as soon as it is over,
    /// or its failure in `failed`.
    async fn run_each(
        &self,
        mut stop: StopRequest,
        failed: &mut FailedRuns,
    ) -> Result<ExitCode, Failure> {
        let Self { args, experiment, trials, .. } = self;
        let (repeats, format) = (args.repeat.get(), args.format.format());
        let mut report = experiment.report(trials, World::Deployment)?;
        (report.command, report.model) = (command(), self.model.clone());
        let began = WallClock::new().date();
        let mut out = Out::beside_earlier(args.out.as_deref(), began, self.quiet)?;
        let all = trials.len() * repeats as usize;
        let logs = Logs::new(args.out.clone())?;
        let (mut differing, mut cut_tapes) = (None, Vec::new());
        for (at, trial) in trials.iter().enumerate() {
            let mut launches = Launches::default();
            let prediction = (self.predict)(at)?;
            for repeat in 1..=repeats {
                let trial = if repeats > 1 { trial.repeated(repeat) } else { trial.clone() };
                let place = logs.of_run(&trial.name, all)?;
                let events = args.out.as_ref();
                let events = events.map(|out| EventLog::new(out, &trial.name, began));
                // If this fails, the logs are kept, and the events so far.
                let launched = match self.launch(&trial, place, events.as_ref(), &mut stop).await {
                    Ok(launched) => launched,
                    Err(error) => {
                        let failure = Failure::from(error);
                        if failure.is_of_one_launch() {
                            failed.add(failure);
                            continue;
                        }
                        out.print_before_error(format, &report, all)?;
                        return Err(failure);
                    }
                };
                let (mut result, recording) = match launched {
                    Ended::Done(done) => done,
                    Ended::Stopped(stopped) => {
                        if stopped.failed.is_empty() && failed.is_empty() {
                            logs.remove();
                        }
                        return self.report_stopped(&trial, stopped, (report, all), out, events);
                    }
                };
                let compare = |it: &Prediction| it.compare(&result, &recording);
                result.comparison = prediction.as_ref().map(compare);
                launches.add(&result);
                cut_tapes.extend_from_slice(&recording.cut_tapes);
                report.add(result, all);
                out.append(&report, &trial, &recording, events);
                out.finish(&report);
            }
            if repeats > 1 && !launches.0.is_empty() {
                say!("{}: {}", trial.name, launches.in_words());
            }
            differing = differing.or(launches.judge(trial));
        }
        if failed.is_empty() {
            logs.remove();
            out.print(format, &report)?;
        } else {
            out.print_before_error(format, &report, all)?;
        }
        let code = tell_of_tapes(&cut_tapes, exit_code(&report.runs));
        differing.map_or(Ok(code), Err)
    }

    /// Reports the runs of `all` that are over, and what the one of `trial` had come to when it was
    /// stopped, if it had begun. Returns the exit code of the command.
    fn report_stopped(
        &self,
        trial: &Trial,
        stopped: Stopped<(Run, Recording)>,
        (mut report, all): (Report, usize),
        mut out: Out,
        events: Option<EventLog>,
    ) -> Result<ExitCode, Failure> {
        let Stopped { code, failed, so_far: (run, recording) } = stopped;
        for failed in &failed {
            say!("run `{}`: {failed}", trial.name);
        }
        self.tell_of_checkpoint(trial);
        if recording.log.iter().next().is_some() || !recording.evaluations.is_empty() {
            report.add(run, all);
            out.append(&report, trial, &recording, events);
        }
        out.print_so_far(self.args.format.format(), &report, all)?;
        Ok(code)
    }

    /// Tells where a run that was stopped goes on from, if it has checkpoints that outlive it.
    fn tell_of_checkpoint(&self, trial: &Trial) {
        if let Some((step, folder)) = trial.newest_checkpoint().filter(|_| !self.quiet) {
            say!(
                "{}: its last checkpoint is of step {step}, in {}; the same command goes on",
                trial.name,
                folder.display()
            );
        }
    }

    async fn launch(
        &self,
        trial: &Trial,
        logs: PathBuf,
        events: Option<&EventLog>,
        stop: &mut StopRequest,
    ) -> Result<Ended<(Run, Recording)>, ExperimentError> {
        tell_of_earlier(trial, false, self.quiet);
        let progress = Box::new(Progress::of(trial, self.quiet));
        self.launcher.launch(self.experiment, trial, logs, Some(progress), events, stop).await
    }
}

/// The launches of one run, in their order.
#[derive(Default)]
struct Launches(Vec<Run>);

impl Launches {
    fn add(&mut self, run: &Run) {
        self.0.push(run.clone());
    }

    /// Fails a synchronous run without faults if two of its launches took equally many steps to
    /// different weights.
    fn judge(&self, trial: &Trial) -> Option<Failure> {
        if !trial.mode.needs().is_barrier() || !trial.cluster.faults.list.is_empty() {
            return None;
        }
        // A limit of time ends each launch at another step.
        let mut firsts = BTreeMap::new();
        self.0.iter().find_map(|run| {
            let first = *firsts.entry(run.global_steps).or_insert(run);
            (run.weights_digest != first.weights_digest).then(|| {
                let (was, is) = (digests(first), digests(run));
                Failure::RepeatDiffered { run: trial.name.clone(), was, is }
            })
        })
    }

    /// How long each took, and how many came to other weights than the first.
    fn in_words(&self) -> String {
        let differs = |run: &&Run| run.weights_digest != self.0[0].weights_digest;
        let weights = match self.0.iter().filter(differs).count() {
            0 => "the same weights each time".to_owned(),
            others => format!("{others} with other weights than the first"),
        };
        let seconds: Vec<String> = self.0.iter().map(|run| format!("{:.3}", run.seconds)).collect();
        format!("launched {} times, {weights}; seconds: {}", self.0.len(), seconds.join(", "))
    }
}

/// The folder of the tasks' logs.
struct Logs {
    folder: PathBuf,
    /// Whether the user asked for no logs: they are then kept only if a task fails.
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
        let folder = if runs > 1 { self.folder.join(folder_of(run)) } else { self.folder.clone() };
        std::fs::create_dir_all(&folder).map_err(Failure::writing(folder.display().to_string()))?;
        Ok(folder)
    }

    /// Removes the logs, after a success, if the user did not ask for them.
    fn remove(&self) {
        if self.is_ours {
            folder::remove(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure of launches of `mode` that took so many steps to these weights.
    fn judged(mode: &str, ends: &[(u64, &str)]) -> Option<Failure> {
        let text = format!(
            "[cluster]\nps = 1\nworker = 2\n[compute]\nnumerics = 'shapes'\n[stop]\nsteps = 1\n\
             [[run]]\nname = 'r'\nmode = {mode}"
        );
        let experiment = Experiment::parse(&text).unwrap();
        let report = experiment.simulate(crate::training::train).unwrap();
        let trial = &experiment.trials_in(World::Deployment).unwrap()[0];
        let mut launches = Launches::default();
        for &(steps, digest) in ends {
            let mut run = report.runs[0].clone();
            (run.weights_digest, run.global_steps) = (Some(digest.to_owned()), steps);
            launches.add(&run);
        }
        let others = format!("{} with other weights than the first", ends.len() - 1);
        assert!(launches.in_words().contains(&others));
        launches.judge(trial)
    }

    #[test]
    fn synchronous_launches_of_as_many_steps_have_the_same_weights_and_others_may_differ() {
        let twice = [(10, "a"), (10, "b")];
        assert!(matches!(judged("'sync'", &twice), Some(Failure::RepeatDiffered { .. })));
        assert!(judged("'sync'", &[(10, "a"), (11, "b")]).is_none(), "a limit of time ended them");
        assert!(judged("'async'", &twice).is_none());
    }

    #[test]
    fn a_launch_is_held_against_the_first_of_as_many_steps_and_not_against_the_first_of_all() {
        let thrice = |last| judged("'sync'", &[(100, "a"), (101, "b"), (101, last)]);
        assert!(thrice("b").is_none());
        let failure = thrice("c").expect("two of 101 steps differ");
        let Failure::RepeatDiffered { was, is, .. } = failure else { panic!("{failure}") };
        assert!(was.ends_with("=b") && is.ends_with("=c"), "{was} became {is}");
    }
}
