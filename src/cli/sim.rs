//! `sim`: runs a scenario in simulation, run by run, and compares the runs.

use super::Trainer;
use super::args::SimArgs;
use super::exit_code::ExitCode;
use super::experiment::Experiment;
use super::failure::Failure;
use super::output::{Files, digests, print};
use super::progress::Progress;
use super::recording::{Recording, SharedRecording};
use super::summary::{self, Observed};
use crate::clock::{Clock, WallClock};
use crate::experiment::scenario;
use crate::report::{Report, Run, World};
use crate::runtime::Error;
use crate::simulation::{self, Host};
use crate::training::Task;
use crate::units::Time;

/// Runs the command.
pub(super) fn run(args: &SimArgs, trainer: &impl Trainer) -> Result<ExitCode, Failure> {
    let mut scenarios = scenario::expand(&args.scenario, &args.sets, &args.sweeps)?;
    if let Some(seed) = args.seed {
        scenarios.iter_mut().for_each(|(_, scenario)| scenario.seed = seed);
    }
    let first = &scenarios[0].1;
    let mut report = Report {
        scenario: first.name.clone(),
        seed: first.seed,
        world: World::Simulation,
        runs: vec![],
    };
    // Runs with different targets are compared by their speed.
    let targets = scenarios.iter().map(|(_, scenario)| scenario.stop.accuracy);
    let target = targets.reduce(|one, other| one.filter(|_| one == other)).flatten();
    let experiments = scenarios
        .iter()
        .map(|(_, scenario)| Experiment::new(scenario))
        .collect::<Result<Vec<_>, _>>()?;
    let mut is_target_missed = false;
    let mut files = args.out.as_deref().map(Files::create).transpose()?;
    for ((label, scenario), experiment) in scenarios.iter().zip(&experiments) {
        for run in &experiment.runs {
            let name =
                if label.is_empty() { run.name.clone() } else { format!("{} ({label})", run.name) };
            let run = scenario::Run { name, ..run.clone() };
            let (result, recording) = repeat(args, experiment, &run, trainer)?;
            is_target_missed |=
                scenario.stop.accuracy.is_some() && result.seconds_to_target.is_none();
            report.runs.push(result);
            if let Some(files) = &mut files {
                files.append(&report, &run.name, &recording)?;
            }
        }
    }
    print(args.json, &report, target).map_err(Failure::writing("the result"))?;
    Ok(match report.runs.as_slice() {
        [] => ExitCode::NothingToRun,
        _ if is_target_missed => ExitCode::TargetNotReached,
        _ => ExitCode::Done,
    })
}

/// Runs a run as often as was asked, and holds each repeat against the first.
fn repeat(
    args: &SimArgs,
    experiment: &Experiment,
    run: &scenario::Run,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let first = simulate(experiment, run, trainer)?;
    for _ in 1..args.repeat.get() {
        let (again, _) = simulate(experiment, run, trainer)?;
        let (was, is) = (digests(&first.0), digests(&again));
        if was != is {
            return Err(Failure::RepeatDiffered { run: run.name.clone(), was, is });
        }
    }
    Ok(first)
}

/// Runs a run once.
fn simulate(
    experiment: &Experiment,
    run: &scenario::Run,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let wall = WallClock::new();
    let progress = Progress::new(&*run.name, experiment.settings.stop.steps);
    let recording = SharedRecording::showing(progress);
    let checkpoints = experiment.simulated_checkpoints();
    let start = |host: Host| {
        let parts =
            experiment.task_parts(host.server, host.clock, run, checkpoints.clone(), &recording);
        let running = Task::new(parts).map(trainer);
        async { running?.await }
    };
    let outcome = simulation::run(&experiment.cluster_of(run), start);
    let recording = recording.finish();
    if let Err(error) = &outcome.result {
        return Err(Failure::Run { run: run.name.clone(), error: Error::clone(error) });
    }
    let took = wall.now().since(Time::ZERO);
    Ok((
        summary::of(run, &experiment.settings, &recording, &Observed::from(&outcome), took),
        recording,
    ))
}
