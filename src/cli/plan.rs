//! `plan`: simulates the points of a sweep, and says which is the fastest, which the cheapest, and
//! where more stops paying.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::{Format, PlanArgs, Shard};
use super::each::{FailedRuns, simulate_each};
use super::failure::Failure;
use super::output::{caution, command};
use super::progress::Several;
use super::results::{Results, on_stop};
use super::stdout::{fitted, raw_stdout, stdout};
use crate::deployment::ExitCode;
use crate::experiment::{Trainer, Trial};
use crate::report::World;
use crate::report::plan::Plan;
use crate::say::say;
use crate::training::SharedRecording;
use crate::user_file;

const JSON: &str = "plan.json";
const PAGE: &str = "plan.html";
/// A plan is there before its points are.
const BEGUN: &str = "the plan has begun";

/// Runs the command. If it is asked to stop, it shows the points that are there. So it does if runs
/// fail, and ends with the first one's error.
pub(super) fn run(
    args: &PlanArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let (plan, failed) = match args.merge.is_empty() {
        true => simulated(args, quiet, trainer)?,
        false => (merged(&args.merge)?, FailedRuns::default()),
    };
    if failed.is_empty() || !plan.points.is_empty() {
        shown(&plan, args.out.as_deref(), args.format.format())?;
    }
    Ok(failed.tell_or(|| exit_code(&plan, args.shard)))
}

/// The plan, or the part of it that was asked for, by simulations; and the runs that failed.
fn simulated(
    args: &PlanArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<(Plan, FailedRuns), Failure> {
    let plan = Results::new(None);
    let (out, format) = (args.out.clone(), args.format.format());
    on_stop(&plan, move |so_far: Option<(Plan, usize)>| {
        let (points, all) = so_far.as_ref().map_or((0, 0), |(plan, all)| (plan.points.len(), *all));
        say!("stopped: {points} of {all} points are there");
        match so_far {
            Some((plan, _)) if points > 0 => shown(&plan, out.as_deref(), format),
            _ => Ok(()),
        }
    })?;
    let experiment = args.variants.of(args.scenario.experiment()?).planned()?;
    let mut trials = experiment.trials_in(World::Simulation)?;
    caution(&experiment, (&trials, World::Simulation), trainer, quiet)?;
    trials.iter_mut().for_each(|trial| trial.draws_graph = false);
    let mut empty = experiment.plan(&trials)?;
    empty.command = command();
    let question = empty.question.clone();
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let (numbers, wanted): (Vec<usize>, Vec<Trial>) =
        trials.into_iter().enumerate().filter(|(number, _)| shard.has(*number)).unzip();
    let progress = Several::new(wanted.len(), quiet);
    plan.with(|plan| *plan = Some((empty, wanted.len())));
    let mut numbers = numbers.into_iter();
    let failed = simulate_each(
        &wanted,
        |trial| {
            let recording = SharedRecording::showing(progress.next(trial));
            Ok(trial.report(&trial.simulate_on_servers(recording, |_, task| trainer(task)))?)
        },
        |trial, run| {
            let number = numbers.next().expect("each trial has a number");
            let Some(run) = run else { return };
            let point = trial.point(number, &run, &question);
            plan.with(|plan| {
                let (plan, _) = plan.as_mut().expect(BEGUN);
                plan.points.push(point);
            });
        },
    )?;
    Ok((plan.take().expect(BEGUN).0, failed))
}

/// The plan whose parts are in `folders`.
fn merged(folders: &[PathBuf]) -> Result<Plan, Failure> {
    let parts: Result<Vec<Plan>, Failure> = folders.iter().map(|folder| read(folder)).collect();
    let plan = Plan::merge(parts?).map_err(|error| Failure::Merge(error.to_string()))?;
    Ok(Plan { command: command(), ..plan })
}

fn read(folder: &Path) -> Result<Plan, Failure> {
    let path = folder.join(JSON);
    let unreadable = |why: &dyn std::fmt::Display| {
        Failure::Merge(format!("{}: {why}; `plan --shard` writes it", path.display()))
    };
    let bytes = user_file::read(&path, user_file::GRAPH).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
}

/// Writes the files of `plan` into `out`, and prints it.
fn shown(plan: &Plan, out: Option<&Path>, format: Format) -> Result<(), Failure> {
    let written = out.map_or(Ok(()), |folder| {
        write_files(plan, folder).map_err(Failure::writing(folder.display().to_string()))
    });
    let printed = match format {
        Format::Json => plan.write_json(raw_stdout()),
        Format::Text(layout) => write!(stdout(), "{}", plan.render(fitted(layout))),
    };
    printed.map_err(Failure::writing("the plan"))?;
    // A full disk loses no result.
    written
}

fn write_files(plan: &Plan, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    plan.write_json(File::create(folder.join(JSON))?)?;
    plan.write_page(io::BufWriter::new(File::create(folder.join(PAGE))?))
}

/// Whether there is an answer to each question that was asked. A part of a plan answers nothing.
fn exit_code(plan: &Plan, shard: Option<Shard>) -> ExitCode {
    let answers = plan.answers(&plan.candidates());
    match shard.is_some() || answers.iter().all(|answer| answer.best.is_some()) {
        true => ExitCode::Done,
        false => ExitCode::TargetNotReached,
    }
}
