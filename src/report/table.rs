//! The comparison of an experiment's runs, as text for a terminal.

use super::estimate::Estimate;
use super::series::{Series, series};
use super::{Report, Run, Tuned, World};

const COLUMNS: [&str; 11] = [
    "run",
    "to target [s]",
    "seconds",
    "steps",
    "steps/s",
    "samples/s",
    "staleness (p99)",
    "dropped",
    "accuracy",
    "loss",
    "MB sent",
];

/// The columns of a report with several seeds.
const COLUMNS_OF_SEEDS: [&str; 9] = [
    "run",
    "seeds",
    "to target [s]",
    "steps/s",
    "samples/s",
    "staleness",
    "dropped",
    "accuracy",
    "loss",
];

/// The comparison table, one line for each run or, of several seeds, for their mean with its 95 %
/// interval; under it, how much faster the fastest run was than each other.
///
/// Steps are global steps; samples are those of applied gradients; rates leave the first step out;
/// accuracy and loss are the last ones; what was sent is of the training's steps; a missing value
/// is `-`. One that diverged comes last, and is not compared. Ends with a newline.
pub fn render(report: &Report) -> String {
    let mut text = format!("{}\n\n{}", title(report), aligned(&rows(report)));
    let remarks = remarks(report);
    if !remarks.is_empty() {
        text += &format!("\n{}\n", remarks.join("\n"));
    }
    let limits = limits(report);
    if !limits.is_empty() {
        text += &format!("\n{}\n", limits.join("\n"));
    }
    text
}

/// What limits each run, with one seed.
fn limits(report: &Report) -> Vec<String> {
    if has_seeds(report) {
        return Vec::new();
    }
    let line = |run: &Run| Some(format!("{} is {}", run.name, run.limit()?));
    report.runs.iter().filter_map(line).collect()
}

/// The scenario, its seeds, the size of the model, and the world.
pub(super) fn title(report: &Report) -> String {
    let clock = match report.world {
        World::Simulation => "simulation, virtual seconds",
        World::Deployment => "deployment, seconds of the wall clock",
    };
    let seed = match has_seeds(report) {
        true => "means and 95 % intervals over seeds".to_owned(),
        false => format!("seed {}", report.seed),
    };
    format!("{}, {seed}{}: {clock}", report.scenario, parameters(&report.runs))
}

/// The rows of the table; the first has the columns' names.
pub(super) fn rows(report: &Report) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if has_seeds(report) {
        rows.push(COLUMNS_OF_SEEDS.map(str::to_owned).into());
        rows.extend(series(report).iter().map(|series| cells_of_seeds(series).into()));
    } else {
        rows.push(COLUMNS.map(str::to_owned).into());
        rows.extend(report.runs.iter().map(|run| cells(run).into()));
    }
    rows
}

/// Which run was faster, which did not reach the target, and which diverged.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> =
        report.verdicts().iter().map(|verdict| verdict.render(report.target)).collect();
    lines.extend(report.tuned.iter().map(Tuned::render));
    let is_simulated = report.world == World::Simulation;
    let are_unsure = is_simulated && !has_seeds(report) && !lines.is_empty();
    lines.extend(report.target.iter().flat_map(|target| misses(*target, &series(report))));
    lines.extend(report.runs.iter().filter(|run| run.has_diverged()).map(|run| {
        format!("{} diverged: its loss is not finite at step {}", run.name, run.global_steps)
    }));
    if are_unsure {
        lines.push("(of one seed: `--seeds 10` says how sure that is)".to_owned());
    }
    lines
}

fn has_seeds(report: &Report) -> bool {
    series(report).iter().any(|series| series.runs.len() > 1)
}

/// A table with its columns aligned: the first to the left, the others to the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text += &format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text += "\n";
    }
    text
}

/// ", 9,610 parameters", if all runs train the same number.
fn parameters(runs: &[Run]) -> String {
    let same = |run: &&Run| run.parameters == runs[0].parameters;
    let Some(parameters) =
        runs.first().and_then(|run| run.parameters).filter(|_| runs.iter().all(|run| same(&run)))
    else {
        return String::new();
    };
    let digits = parameters.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| str::from_utf8(group).expect("digits"))
        .collect();
    format!(", {} parameters", groups.join(","))
}

fn cells(run: &Run) -> [String; COLUMNS.len()] {
    let number = |value: Option<f64>, decimals: usize| match value {
        Some(value) => format!("{value:.decimals$}"),
        None => "-".to_owned(),
    };
    let staleness = run
        .staleness
        .as_ref()
        .map(|staleness| format!("{:.2} ({})", staleness.mean, staleness.p99));
    let sent = run.step_bytes_sent.values().sum::<u64>() as f64 / 1e6;
    [
        run.name.clone(),
        number(run.seconds_to_target, 3),
        number(Some(run.seconds), 3),
        run.global_steps.to_string(),
        number(Some(run.steps_per_second), 1),
        number(Some(run.samples_per_second), 0),
        staleness.unwrap_or_else(|| "-".to_owned()),
        run.gradients.dropped.to_string(),
        number(run.test_accuracy, 4),
        number(run.final_loss, 4),
        number(Some(sent), 1),
    ]
}

fn cells_of_seeds(series: &Series<'_>) -> [String; COLUMNS_OF_SEEDS.len()] {
    let cell = |estimate: Option<Estimate>, decimals: usize| {
        estimate.map_or_else(|| "-".to_owned(), |estimate| estimate.render(decimals))
    };
    let summary = series.summary();
    let reached = match summary.seconds_to_target.map_or(0, |reached| reached.values) {
        reached if reached == 0 || reached == summary.seeds => String::new(),
        reached => format!(" ({reached} of {})", summary.seeds),
    };
    [
        series.name(),
        summary.seeds.to_string(),
        cell(summary.seconds_to_target, 3) + &reached,
        cell(summary.steps_per_second, 1),
        cell(summary.samples_per_second, 0),
        cell(summary.staleness, 2),
        cell(summary.dropped, 1),
        cell(summary.test_accuracy, 4),
        cell(summary.final_loss, 4),
    ]
}

/// The series that did not reach `target`, or not with each of their seeds.
fn misses(target: f64, all: &[Series<'_>]) -> Vec<String> {
    let line = |series: &Series<'_>| {
        let sound: Vec<&Run> = series.sound().collect();
        let reached = sound.iter().filter(|run| run.seconds_to_target.is_some()).count();
        let name = series.name();
        match sound[..] {
            [] => None,
            _ if reached == sound.len() => None,
            [only] => Some(format!(
                "{name} did not reach {target} accuracy in {} global steps",
                only.global_steps
            )),
            _ => Some(format!(
                "{name} reached {target} accuracy with {reached} of {} seeds",
                series.runs.len()
            )),
        }
    };
    all.iter().filter_map(line).collect()
}
