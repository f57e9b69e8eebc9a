//! `sim`: runs a scenario in simulation, run by run, and compares the runs.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use tokio::runtime;

use super::args::{SimArgs, Steps};
use super::chaos;
use super::failure::Failure;
use super::output::{Out, command, digests, exit_code};
use super::progress::Several;
use crate::deployment::{ExitCode, StopRequest};
use crate::experiment::{Trainer, Trial, folder_of, simulate_all};
use crate::report::{Report, Run, World};
use crate::simulation::TimelineSpec;
use crate::training::{Recording, SharedRecording};

/// Runs the command. If it is asked to stop, it shows the runs that are over.
pub(super) fn run(
    args: &SimArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let experiment = args.variants.of(args.scenario.experiment()?);
    if let Some(seeds) = args.chaos {
        return chaos::run(args, &experiment, (seeds, quiet), trainer);
    }
    let (experiment, is_tuned) = experiment.tuned()?;
    let mut trials = experiment.trials_in(World::Simulation)?;
    let mut report = experiment.report(&trials, World::Simulation)?;
    report.command = command();
    let results = Results { report, out: Out::create(args.out.as_deref())? };
    if let (Some(steps), Some(out)) = (args.timeline, &args.out) {
        ask_for_timelines(&mut trials, steps, out)?;
    }
    let results = Arc::new(Mutex::new(Some(results)));
    show_when_stopped(&results, args.json, trials.len())?;
    let progress = Several::new(trials.len() * args.repeat.get() as usize, quiet);
    simulate_all(
        &trials,
        |trial| repeat(args, trial, &progress, trainer),
        |trial, result| {
            let (run, recording) = result?;
            let mut results = locked(&results);
            let Results { report, out } = results.as_mut().expect(ENDED);
            report.runs.push(run);
            out.append(report, trial, &recording);
            Ok::<_, Failure>(())
        },
    )?;
    let Results { mut report, mut out } = locked(&results).take().expect(ENDED);
    if is_tuned {
        report.keep_best_rates();
        out.rewrite(&report);
    }
    out.print(args.json, &report)?;
    Ok(exit_code(&report.runs))
}

/// The runs that are over, and where they are shown.
struct Results {
    report: Report,
    out: Out,
}

/// Who takes the results away while runs go on ends the process.
const ENDED: &str = "the process has ended";

fn locked(results: &Mutex<Option<Results>>) -> MutexGuard<'_, Option<Results>> {
    results.lock().expect("nobody panics while a result is noted")
}

/// Shows `results` of `all` runs and ends the process if it is asked to stop: a simulation is not
/// interrupted, so that those under way are lost.
fn show_when_stopped(
    results: &Arc<Mutex<Option<Results>>>,
    as_json: bool,
    all: usize,
) -> Result<(), Failure> {
    let (stop, results) = (StopRequest::on_signals()?, Arc::clone(results));
    let failed = || Failure::system("listen for signals");
    let runtime = runtime::Builder::new_current_thread().build().map_err(failed())?;
    let show = move || {
        let code = runtime.block_on(stop);
        let mut results = locked(&results);
        let Some(Results { report, out }) = results.take() else { return };
        let shown = out.print_so_far(as_json, &report, all);
        let code = shown.map_or_else(|failure| failure.report(), |()| code);
        std::process::exit(code as i32);
    };
    thread::Builder::new().name("stopped".into()).spawn(show).map_err(failed())?;
    Ok(())
}

/// Has each of `trials` write its timeline from one global step to another into the folder `out`.
fn ask_for_timelines(trials: &mut [Trial], steps: Steps, out: &Path) -> Result<(), Failure> {
    let is_only = trials.len() == 1;
    for trial in trials {
        let name = match is_only {
            true => "timeline.json".to_owned(),
            false => format!("timeline-{}.json", folder_of(&trial.name)),
        };
        let path = out.join(name);
        let file = File::create(&path).map_err(Failure::writing(path.display().to_string()))?;
        let Steps { first, last } = steps;
        trial.cluster.timeline = Some(TimelineSpec { file: Arc::new(file), first, last });
    }
    Ok(())
}

/// Runs a run as many times as was asked, and compares each repeat with the first.
fn repeat(
    args: &SimArgs,
    trial: &Trial,
    progress: &Several,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let first = simulate(trial, progress, trainer)?;
    for _ in 1..args.repeat.get() {
        let (again, _) = simulate(trial, progress, trainer)?;
        let (was, is) = (digests(&first.0), digests(&again));
        if was != is {
            return Err(Failure::RepeatDiffered { run: trial.name.clone(), was, is });
        }
    }
    Ok(first)
}

/// Runs a run once.
fn simulate(
    trial: &Trial,
    progress: &Several,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let recording = SharedRecording::showing(progress.next(trial));
    let simulated = trial.simulate_hosted(recording, |_, task| trainer(task));
    Ok((trial.report(&simulated)?, simulated.recording))
}
