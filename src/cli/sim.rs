//! `sim`: runs a scenario in simulation, run by run, and compares the runs.

use super::args::SimArgs;
use super::chaos;
use super::failure::Failure;
use super::output::{Out, command, digests, exit_code};
use super::progress::Several;
use crate::deployment::ExitCode;
use crate::experiment::{Trainer, Trial, simulate_all};
use crate::report::{Run, World};
use crate::training::{Recording, SharedRecording};

/// Runs the command.
pub(super) fn run(args: &SimArgs, trainer: &impl Trainer) -> Result<ExitCode, Failure> {
    let experiment = args.scenario.experiment()?.sweeps(&args.sweeps).seeds(args.seeds.get());
    if let Some(seeds) = args.chaos {
        return chaos::run(args, &experiment, seeds, trainer);
    }
    let trials = experiment.trials_in(World::Simulation)?;
    let mut report = experiment.report(&trials, World::Simulation)?;
    report.command = command();
    let mut out = Out::create(args.out.as_deref())?;
    let progress = Several::new(trials.len() * args.repeat.get() as usize);
    simulate_all(
        &trials,
        |trial| repeat(args, trial, &progress, trainer),
        |trial, result| {
            let (run, recording) = result?;
            report.runs.push(run);
            out.append(&report, trial, &recording);
            Ok::<_, Failure>(())
        },
    )?;
    out.print(args.json, &report)?;
    Ok(exit_code(&report.runs))
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
