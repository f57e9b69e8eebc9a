//! The comparison of an experiment's runs, as text.

use super::estimate::Estimate;
use super::number;
use super::remarks::remarks;
use super::series::{Series, independent, series, told_apart_by};
use super::{Layout, Report, Run, TextTable, World};

/// The title of the column that a run's own target stands before.
const TO_TARGET: &str = "to target [s]";

const COLUMNS: [&str; 11] = [
    "run",
    TO_TARGET,
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

/// The columns of a report with several seeds or launches.
const COLUMNS_OF_MEANS: [&str; 10] = [
    "run",
    TO_TARGET,
    "seconds",
    "steps/s",
    "samples/s",
    "staleness",
    "dropped",
    "accuracy",
    "loss",
    "MB sent",
];

/// The decimals of a run's accuracy.
pub(super) const ACCURACY_DECIMALS: usize = 4;

/// The comparison table, one line for each run or, of several seeds or launches, for their mean
/// with its 95 % interval; under it, how much faster the fastest run was than each other.
///
/// Steps are global steps; samples are those of applied gradients; rates are sums over the workers,
/// of each from the end of its first step to that of its last; accuracy and loss are the last ones;
/// what was sent is of the training's steps; a missing value is `-`. One that diverged comes last,
/// and is not compared. Ends with a newline.
pub fn render(report: &Report, layout: Layout) -> String {
    let table = TextTable::new(rows(report)).render(layout);
    let under = layout.lines(&remarks(report)) + &layout.lines(&limits(report));
    format!("{}\n{table}{under}", layout.title(&title(report)))
}

/// What limits each run, of one seed and one launch.
fn limits(report: &Report) -> Vec<String> {
    if has_means(report) {
        return Vec::new();
    }
    let line = |run: &Run| Some(format!("{} is {}", run.name, run.limit()?));
    report.runs.iter().filter_map(line).collect()
}

/// The scenario, its seed or its seeds, the size of the model, and the world.
pub(super) fn title(report: &Report) -> String {
    let clock = match report.world {
        World::Simulation => "simulation, virtual seconds",
        World::Deployment => "deployment, seconds of the wall clock",
    };
    let means = |over: &str| {
        let all = series(report);
        let of_each = |one: &Series<'_>| if over == "seeds" { one.seeds() } else { one.runs.len() };
        let count = same(all.iter().map(of_each));
        let count = count.map_or_else(String::new, |count| format!("{count} "));
        format!("means and 95 % intervals over {count}{over}")
    };
    let seed = match (has_means(report), told_apart_by(report)) {
        (false, _) => format!("seed {}", report.seed),
        (true, "launches") => format!("seed {}, {}", report.seed, means("launches")),
        (true, "runs") => means(independent("runs")) + ", of each the mean of its launches",
        (true, over) => means(over),
    };
    let model = report.model.as_ref().map_or_else(String::new, |model| format!(", {model}"));
    format!("{}, {seed}{model}{}: {clock}", report.scenario, parameters(&report.runs))
}

/// The rows of the table; the first has the columns' names.
pub(super) fn rows(report: &Report) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if has_means(report) {
        rows.push(COLUMNS_OF_MEANS.map(str::to_owned).into());
        rows.extend(series(report).iter().map(|series| means(series).into()));
        if same(series(report).iter().map(|series| series.runs.len())).is_none() {
            let counts = series(report).into_iter().map(|series| series.runs.len().to_string());
            add_column(&mut rows, 1, told_apart_by(report).to_owned(), counts);
        }
    } else {
        rows.push(COLUMNS.map(str::to_owned).into());
        rows.extend(report.runs.iter().map(|run| cells(run).into()));
    }
    if report.has_own_targets() {
        let firsts = if has_means(report) {
            series(report).iter().map(|series| series.runs[0]).collect()
        } else {
            report.runs.iter().collect::<Vec<_>>()
        };
        let target =
            |run: &&Run| report.own_target(run).map_or_else(|| "-".to_owned(), |it| it.to_string());
        let at = rows[0].iter().position(|title| title == TO_TARGET);
        let at = at.expect("both kinds of tables have this column");
        add_column(&mut rows, at, "target".to_owned(), firsts.iter().map(target));
    }
    rows
}

/// Adds a column of `cells` at an index.
fn add_column(
    rows: &mut [Vec<String>],
    at: usize,
    title: String,
    cells: impl Iterator<Item = String>,
) {
    for (row, cell) in rows.iter_mut().zip(std::iter::once(title).chain(cells)) {
        row.insert(at, cell);
    }
}

pub(super) fn has_means(report: &Report) -> bool {
    series(report).iter().any(|series| series.runs.len() > 1)
}

/// What all `counts` are, if they are the same.
fn same(mut counts: impl Iterator<Item = usize>) -> Option<usize> {
    let first = counts.next()?;
    counts.all(|count| count == first).then_some(first)
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

/// The decimals of a rate: none from 10 on, three digits of a smaller one.
pub(super) fn decimals_of(rate: f64) -> usize {
    match rate {
        rate if rate <= 0.0 || rate >= 10.0 => 0,
        rate => (2.0 - rate.log10().floor()).min(9.0) as usize,
    }
}

fn cells(run: &Run) -> [String; COLUMNS.len()] {
    let cell = |value: Option<f64>, decimals: usize| match value {
        Some(value) => number::render(value, decimals),
        None => "-".to_owned(),
    };
    let staleness = run
        .staleness
        .as_ref()
        .map(|staleness| format!("{:.2} ({})", staleness.mean, staleness.p99));
    // A run that found its training finished has taken no step that a rate could be of.
    let has_rates = run.gradients.computed > 0 || run.resumed_from.is_none();
    let rate = |rate: f64| has_rates.then_some(rate);
    let sent = run.step_bytes() as f64 / 1e6;
    [
        run.name.clone(),
        cell(run.seconds_to_target, 3),
        cell(Some(run.seconds), 3),
        run.global_steps.to_string(),
        cell(rate(run.steps_per_second), decimals_of(run.steps_per_second).max(1)),
        cell(rate(run.samples_per_second), decimals_of(run.samples_per_second)),
        staleness.unwrap_or_else(|| "-".to_owned()),
        run.gradients.dropped.to_string(),
        cell(run.test_accuracy, ACCURACY_DECIMALS),
        cell(run.final_loss, 4),
        cell(Some(sent), 1),
    ]
}

/// The row of a series of several runs.
fn means(series: &Series<'_>) -> [String; COLUMNS_OF_MEANS.len()] {
    let cell = |estimate: Option<Estimate>, decimals: usize| {
        estimate.map_or_else(|| "-".to_owned(), |estimate| estimate.render(decimals))
    };
    let rate = |estimate: Option<Estimate>, least: usize| {
        cell(estimate, estimate.map_or(least, |rate| decimals_of(rate.mean).max(least)))
    };
    let summary = series.summary();
    let reached = series.sound().filter(|run| run.seconds_to_target.is_some()).count() as u64;
    let reached = match reached {
        reached if reached == 0 || reached == summary.runs => String::new(),
        reached => format!(" ({reached} of {})", summary.runs),
    };
    [
        series.name(),
        cell(summary.seconds_to_target, 3) + &reached,
        cell(summary.seconds, 3),
        rate(summary.steps_per_second, 1),
        rate(summary.samples_per_second, 0),
        cell(summary.staleness, 2),
        cell(summary.dropped, 1),
        cell(summary.test_accuracy, 3),
        cell(summary.final_loss, 3),
        cell(summary.step_bytes_sent.map(|bytes| bytes.map(|bytes| bytes / 1e6)), 1),
    ]
}
