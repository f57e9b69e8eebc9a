//! `sim`: runs a scenario in simulation, run by run, and compares the runs.

use super::args::SimArgs;
use super::chaos;
use super::failure::Failure;
use super::output::{Out, digests, exit_code};
use super::progress::Progress;
use crate::deployment::ExitCode;
use crate::experiment::{Trainer, Trial, report_of};
use crate::report::{Run, World};
use crate::training::{Recording, SharedRecording};

/// Runs the command.
pub(super) fn run(args: &SimArgs, trainer: &impl Trainer) -> Result<ExitCode, Failure> {
    let experiment = args.scenario.experiment()?.sweeps(&args.sweeps);
    if let Some(seeds) = args.chaos {
        return chaos::run(args, &experiment, seeds, trainer);
    }
    let trials = experiment.trials_in(World::Simulation)?;
    let mut report = report_of(&trials, World::Simulation);
    // Runs with different targets are compared by their speed.
    let targets = trials.iter().map(|trial| trial.settings.stop.accuracy);
    let target = targets.reduce(|one, other| one.filter(|_| one == other)).flatten();
    let mut out = Out::create(args.out.as_deref())?;
    for trial in &trials {
        let (result, recording) = repeat(args, trial, trainer)?;
        report.runs.push(result);
        out.append(&report, trial, &recording);
    }
    out.print(args.json, &report, target)?;
    Ok(exit_code(&trials, &report.runs))
}

/// Runs a run as many times as was asked, and compares each repeat with the first.
fn repeat(
    args: &SimArgs,
    trial: &Trial,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let first = simulate(trial, trainer)?;
    for _ in 1..args.repeat.get() {
        let (again, _) = simulate(trial, trainer)?;
        let (was, is) = (digests(&first.0), digests(&again));
        if was != is {
            return Err(Failure::RepeatDiffered { run: trial.name.clone(), was, is });
        }
    }
    Ok(first)
}

/// Runs a run once.
fn simulate(trial: &Trial, trainer: &impl Trainer) -> Result<(Run, Recording), Failure> {
    let progress = Progress::of(trial);
    let recording = SharedRecording::showing(progress);
    let simulated = trial.simulate_hosted(recording, |_, task| trainer(task));
    Ok((trial.report(&simulated)?, simulated.recording))
}
