//! `sim --chaos N`: runs a scenario under drawn faults, and prints which broke a promise.

use std::io::{self, Write};

use super::args::SimArgs;
use super::failure::Failure;
use super::progress::Progress;
use crate::deployment::ExitCode;
use crate::experiment::chaos::{Broken, ChaosReport, ChaosRun};
use crate::experiment::{Experiment, Trainer};

/// Tries `seeds` timelines on each run. A promise that was broken is a bug of this program.
pub(super) fn run(
    args: &SimArgs,
    experiment: &Experiment,
    (seeds, quiet): (u64, bool),
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let counter = Progress::counter("timelines", seeds, quiet);
    let report = experiment.chaos(trainer, seeds, |run, done| counter.show(run, done))?;
    counter.finish();
    print(args, &report).map_err(Failure::writing("the result"))?;
    Ok(if report.is_clean() { ExitCode::Done } else { ExitCode::Internal })
}

fn print(args: &SimArgs, report: &ChaosReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    let width = report.runs.iter().map(|run| run.run.chars().count()).max().unwrap_or(0).max(3);
    writeln!(out, "{:width$}  tried  to the end  with an error  broken", "run")?;
    for run in &report.runs {
        let ChaosRun { run: name, tried, reached_the_end, broken, .. } = run;
        let failed: u64 = run.failed.values().sum();
        let broken = broken.len();
        writeln!(out, "{name:width$}  {tried:5}  {reached_the_end:10}  {failed:13}  {broken:6}")?;
    }
    for run in &report.runs {
        for broken in &run.broken {
            print_broken(&mut out, args, (&run.run, broken))?;
        }
    }
    Ok(())
}

/// One timeline: what it breaks, and the command that replays it.
fn print_broken(
    out: &mut impl Write,
    args: &SimArgs,
    (run, broken): (&str, &Broken),
) -> io::Result<()> {
    match broken.seed {
        Some(seed) => write!(out, "\n{run}, seed {seed}, {} faults", broken.drawn)?,
        None => write!(out, "\n{run}, the scenario's own faults")?,
    }
    writeln!(out, " broke:")?;
    for breach in &broken.breaches {
        writeln!(out, "  {breach}")?;
    }
    let named = args.scenario.scenario.as_deref();
    let scenario = named.map(|path| format!("{} ", path.display())).unwrap_or_default();
    let faults = &broken.faults;
    writeln!(out, "  to replay it:")?;
    writeln!(out, "    trainyard sim {scenario}--run '{run}' --set 'fault={faults}' --chaos 0")
}
