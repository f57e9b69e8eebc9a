//! `check`: simulates a scenario, and holds its runs against a file of expectations.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::args::CheckArgs;
use super::each::{FailedRuns, simulate_each};
use super::failure::Failure;
use super::output::caution;
use super::progress::Several;
use super::sim::simulate;
use super::stdout::stdout;
use crate::deployment::ExitCode;
use crate::experiment::Trainer;
use crate::report::{Checked, Expectations, Report, World, write_junit};
use crate::say::say;
use crate::user_file;

/// Runs the command. A run that fails is not as expected, and does not keep the others from being
/// looked at; the command ends with the first one's error.
pub(super) fn run(
    args: &CheckArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    // A mistake in the file is told before anything is simulated.
    let is_new = args.update && !args.expect.exists();
    let expected = if is_new { None } else { Some(read(&args.expect)?) };
    let (report, failed) = simulated(args, quiet, trainer)?;
    let code = match expected {
        Some(expected) if !args.update => check(args, &expected, &report, &failed)?,
        before => update(args, before.as_ref(), &report, &failed)?,
    };
    Ok(failed.tell_or(|| code))
}

fn read(path: &Path) -> Result<Expectations, Failure> {
    let mistaken = |problem| Failure::Expectations { path: path.display().to_string(), problem };
    let unreadable = |error: io::Error| {
        let next = match error.kind() {
            io::ErrorKind::IsADirectory => "name a file in it",
            _ => "`--update` writes one",
        };
        mistaken(format!("can't read it: {error}; {next}"))
    };
    Expectations::parse(&user_file::read_text(path).map_err(unreadable)?).map_err(mistaken)
}

/// The report of all runs, in simulation; and those that failed.
fn simulated(
    args: &CheckArgs,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<(Report, FailedRuns), Failure> {
    let (experiment, is_tuned) = args.variants.of(args.scenario.experiment()?).tuned()?;
    let trials = experiment.trials_in(World::Simulation)?;
    caution(&experiment, (&trials, World::Simulation), trainer, quiet)?;
    let mut report = experiment.report(&trials, World::Simulation)?;
    let progress = Several::new(trials.len(), quiet);
    let failed = simulate_each(
        &trials,
        |trial| simulate(trial, &progress, None, trainer),
        |_, over| report.runs.extend(over.map(|(run, _)| run)),
    )?;
    if is_tuned {
        report.keep_best_rates();
    }
    Ok((report, failed))
}

/// Holds `report` against what is expected.
fn check(
    args: &CheckArgs,
    expected: &Expectations,
    report: &Report,
    failed: &FailedRuns,
) -> Result<ExitCode, Failure> {
    let failed = failed.all().map(|(run, error)| (run.to_owned(), error.to_string())).collect();
    let all = expected.check(report, &failed, args.scenario.runs.is_empty());
    print(&all).map_err(Failure::writing("the findings"))?;
    if let Some(path) = &args.junit {
        let write = || write_junit(&report.scenario, &all, BufWriter::new(File::create(path)?));
        write().map_err(Failure::writing(path.display().to_string()))?;
    }
    Ok(match all.iter().all(|one| one.differences.is_empty()) {
        true => ExitCode::Done,
        false => ExitCode::NotAsExpected,
    })
}

/// Writes what `report` has as what is expected.
fn update(
    args: &CheckArgs,
    before: Option<&Expectations>,
    report: &Report,
    failed: &FailedRuns,
) -> Result<ExitCode, Failure> {
    if report.runs.is_empty() && !failed.is_empty() {
        return Ok(ExitCode::Done); // nothing is known that could be expected
    }
    let mut expected = Expectations::of(report, before);
    // Of runs that were not asked for, nothing has changed; of those that failed, nothing is known.
    let stays = |name: &str| {
        !args.scenario.runs.is_empty() || failed.all().any(|(failed, _)| failed == name)
    };
    for (name, kept) in before.into_iter().flat_map(|before| &before.run) {
        if stays(name) {
            expected.run.entry(name.clone()).or_insert_with(|| kept.clone());
        }
    }
    let shown = args.expect.display().to_string();
    fs::write(&args.expect, expected.text()).map_err(Failure::writing(shown.clone()))?;
    say!("{shown} has what is expected of {} runs", expected.run.len());
    Ok(ExitCode::Done)
}

fn print(all: &[Checked]) -> io::Result<()> {
    let mut out = stdout();
    for Checked { name, differences, .. } in all {
        match differences.is_empty() {
            true => writeln!(out, "{name}: as expected")?,
            false => writeln!(out, "{name}: not as expected")?,
        }
        for difference in differences {
            writeln!(out, "  {difference}")?;
        }
    }
    Ok(())
}
