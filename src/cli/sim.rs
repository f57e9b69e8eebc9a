//! `sim`: runs a scenario in simulation, run by run, and compares the runs.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::args::{Format, SimArgs, Steps};
use super::each::{FailedRuns, simulate_each};
use super::failure::Failure;
use super::live::Live;
use super::output::{Out, caution, command, digests, exit_code};
use super::progress::Several;
use super::results::{Results, on_stop};
use super::{chaos, weights};
use crate::deployment::ExitCode;
use crate::experiment::{Trainer, Trial, model_of, timeline_file};
use crate::live::Meter;
use crate::report::{Report, Run, World};
use crate::say::say;
use crate::simulation::TimelineSpec;
use crate::training::{Recording, SharedRecording};

/// The results are there before the runs begin.
const BEGUN: &str = "the runs have begun";

/// Runs the command. If it is asked to stop, it shows the runs that are over. A run that fails does
/// not keep the others from being compared; the command ends with the first one's error.
pub(super) fn run(
    args: &SimArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let experiment = args.variants.of(args.scenario.experiment()?);
    if let Some(seeds) = args.chaos {
        return chaos::run(args, &experiment, seeds, quiet, trainer);
    }
    let results = Results::new(None);
    on_stop(&results, stopped(args.format.format()))?;
    let (experiment, is_tuned) = experiment.tuned()?;
    let mut trials = experiment.trials_in(World::Simulation)?;
    caution(&experiment, (&trials, World::Simulation), trainer, quiet)?;
    if !quiet && trials.iter().any(Trial::names_an_unused_folder) {
        say!("`checkpoint.directory`: a simulation leaves no checkpoints there; `launch` does");
    }
    for trial in &mut trials {
        (trial.draws_graph, trial.keeps_weights) = (args.out.is_some(), args.weights.is_some());
        if let Some(folder) = &args.replay {
            trial.replay(folder)?;
        }
    }
    if let Some(folder) = &args.weights {
        weights::prepare(folder, &trials)?;
    }
    let mut report = experiment.report(&trials, World::Simulation)?;
    (report.command, report.model) = (command(), model_of(&trials, trainer));
    let all = trials.len();
    // At once: who asks to stop meanwhile would leave files without a run.
    results.with(|results| {
        let out = Out::create(args.out.as_deref(), quiet)?;
        *results = Some(SoFar { report, out, all });
        Ok::<_, Failure>(())
    })?;
    if let (Some(steps), Some(out)) = (args.timeline, &args.out) {
        ask_for_timelines(&mut trials, steps, out)?;
    }
    let live = Live::start(None, args.dashboard.address)?;
    let progress = Several::new(trials.len() * args.repeat.get() as usize, quiet);
    let failed = match add_each(args, &trials, &progress, live.as_ref(), &results, trainer) {
        Ok(failed) => failed,
        Err(failure) => {
            let SoFar { report, mut out, .. } = results.take().expect(BEGUN);
            out.finish(&report);
            return Err(failure);
        }
    };
    if args.repeat.get() > 1 && !quiet && failed.is_empty() {
        say!("each run was the same {} times, event by event", args.repeat);
    }
    let SoFar { mut report, mut out, .. } = results.take().expect(BEGUN);
    if is_tuned {
        report.keep_best_rates();
        out.rewrite(&report);
    }
    if failed.is_empty() || !report.runs.is_empty() {
        out.print(args.format.format(), &report)?;
    }
    Ok(failed.tell_or(|| exit_code(&report.runs)))
}

/// The results of a command whose runs have begun.
struct SoFar {
    report: Report,
    out: Out,
    /// The number of all runs.
    all: usize,
}

/// Simulates all of `trials`, and adds each to `results` as it is over.
///
/// # Errors
/// As [`simulate_each`].
fn add_each(
    args: &SimArgs,
    trials: &[Trial],
    progress: &Several,
    live: Option<&Live>,
    results: &Results<Option<SoFar>>,
    trainer: &impl Trainer,
) -> Result<FailedRuns, Failure> {
    simulate_each(
        trials,
        |trial| repeat(args, trial, progress, live, trainer),
        |trial, over| {
            let Some(Over { mut run, recording, unwritten }) = over else {
                if args.weights.is_some() {
                    say!("{}: no weights are written, since it failed", trial.name);
                }
                return;
            };
            if args.replay.is_some() {
                // It waits for the order of its tapes, whatever the cluster is like.
                run.critical_path = None;
            }
            tell_of_no_timeline(args.timeline, &run);
            results.with(|so_far| {
                let SoFar { report, out, all } = so_far.as_mut().expect(BEGUN);
                report.add(run, *all);
                out.append(report, trial, &recording, None);
                if let Some(failure) = unwritten {
                    out.fail_with(failure);
                }
            });
        },
    )
}

/// Shows the results of a command that was asked to stop; of one that still reads its scenario and
/// data there are none.
fn stopped(format: Format) -> impl FnOnce(Option<SoFar>) -> Result<(), Failure> + Send + 'static {
    move |so_far| match so_far {
        Some(SoFar { report, out, all }) => out.print_so_far(format, &report, all),
        None => {
            say!("stopped: no run has begun");
            Ok(())
        }
    }
}

/// Has each of `trials` write its timeline from one global step to another into the folder `out`.
fn ask_for_timelines(trials: &mut [Trial], steps: Steps, out: &Path) -> Result<(), Failure> {
    let is_only = trials.len() == 1;
    for trial in trials {
        let path = timeline_file(out, &trial.name, is_only);
        let file = File::create(&path).map_err(Failure::writing(path.display().to_string()))?;
        let Steps { first, last } = steps;
        trial.cluster.timeline = Some(TimelineSpec { file: Arc::new(file), first, last });
    }
    Ok(())
}

/// Tells if a run was over before the stretch whose timeline was asked for.
fn tell_of_no_timeline(asked: Option<Steps>, run: &Run) {
    if let Some(Steps { first, last }) = asked.filter(|steps| steps.first >= run.global_steps) {
        say!(
            "{}: nothing of the steps {first}..{last} is in its timeline: it ended with step {}",
            run.name,
            run.global_steps
        );
    }
}

/// A run that is over.
struct Over {
    run: Run,
    recording: Recording,
    /// Why its weights could not be written.
    unwritten: Option<Failure>,
}

/// Runs a run as many times as was asked, compares each repeat with the first, and writes the
/// weights of that, if they are wanted.
fn repeat(
    args: &SimArgs,
    trial: &Trial,
    progress: &Several,
    live: Option<&Live>,
    trainer: &impl Trainer,
) -> Result<Over, Failure> {
    let (run, mut recording) = simulate(trial, progress, live, trainer)?;
    for _ in 1..args.repeat.get() {
        let (again, _) = simulate(trial, progress, live, trainer)?;
        let (was, is) = (digests(&run), digests(&again));
        if was != is {
            return Err(Failure::RepeatDiffered { run: trial.name.clone(), was, is });
        }
    }
    // Why not when its result is added: many runs may wait for their turn, each with its weights.
    let written = args.weights.as_ref().map(|to| weights::write(to, &run, &mut recording));
    Ok(Over { run, recording, unwritten: written.and_then(Result::err) })
}

/// Runs a run once; `live` shows it.
pub(super) fn simulate(
    trial: &Trial,
    progress: &Several,
    live: Option<&Live>,
    trainer: &impl Trainer,
) -> Result<(Run, Recording), Failure> {
    let mut recording = SharedRecording::showing(progress.next(trial));
    let mut trial = trial.clone();
    if let Some(live) = live {
        let board = trial.open_board();
        live.boards.add(Arc::clone(&board));
        recording = recording.also_showing(Meter::new(board, trial.settings.batch));
    }
    let simulated = trial.simulate_on_servers(recording, |_, task| trainer(task));
    Ok((trial.report(&simulated)?, simulated.recording))
}
