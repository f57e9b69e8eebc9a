//! The comparison of an experiment's runs, as text.

use super::estimate::Estimate;
use super::number;
use super::remarks::remarks;
use super::series::{Series, Summary, independent, series, told_apart_by};
use super::{Layout, Report, Run, TextTable, World};

/// The title of the column that a run's own target stands before.
const TO_TARGET: &str = "to target [s]";

/// What gives a run's cell of a column.
type Cell = fn(&Run) -> String;

/// By title, the cell of a run.
const COLUMNS: [(&str, Cell); 11] = [
    ("run", |run| run.name.clone()),
    (TO_TARGET, |run| cell(run.seconds_to_target, 3)),
    ("seconds", |run| cell(Some(run.seconds), 3)),
    ("steps", |run| run.global_steps.to_string()),
    ("steps/s", |run| rate(run, run.steps_per_second, 1)),
    ("samples/s", |run| rate(run, run.samples_per_second, 0)),
    ("staleness (p99)", |run| {
        let staleness = run.staleness.as_ref();
        staleness.map_or_else(missing, |it| format!("{:.2} ({})", it.mean, it.p99))
    }),
    ("dropped", |run| run.gradients.dropped.to_string()),
    ("accuracy", |run| cell(run.test_accuracy, ACCURACY_DECIMALS)),
    ("loss", |run| cell(run.final_loss, 4)),
    ("MB sent", |run| cell(Some(run.step_bytes() as f64 / 1e6), 1)),
];

/// What gives a cell of a column of means.
type MeanCell = fn(&Series<'_>, &Summary) -> String;

/// By title: what makes the cell of a series of runs, in a report of several seeds or launches.
const COLUMNS_OF_MEANS: [(&str, MeanCell); 10] = [
    ("run", |series, _| series.name()),
    (TO_TARGET, |series, summary| mean(summary.seconds_to_target, 3) + &reached(series, summary)),
    ("seconds", |_, summary| mean(summary.seconds, 3)),
    ("steps/s", |_, summary| mean_rate(summary.steps_per_second, 1)),
    ("samples/s", |_, summary| mean_rate(summary.samples_per_second, 0)),
    ("staleness", |_, summary| mean(summary.staleness, 2)),
    ("dropped", |_, summary| mean(summary.dropped, 1)),
    ("accuracy", |_, summary| mean(summary.test_accuracy, 3)),
    ("loss", |_, summary| mean(summary.final_loss, 3)),
    ("MB sent", |_, summary| {
        mean(summary.step_bytes_sent.map(|bytes| bytes.map(|bytes| bytes / 1e6)), 1)
    }),
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
        rows.push(COLUMNS_OF_MEANS.map(|(title, _)| title.to_owned()).into());
        rows.extend(series(report).iter().map(|series| {
            let summary = series.summary();
            COLUMNS_OF_MEANS.map(|(_, cell)| cell(series, &summary)).into()
        }));
        if same(series(report).iter().map(|series| series.runs.len())).is_none() {
            let counts = series(report).into_iter().map(|series| series.runs.len().to_string());
            add_column(&mut rows, 1, told_apart_by(report).to_owned(), counts);
        }
    } else {
        rows.push(COLUMNS.map(|(title, _)| title.to_owned()).into());
        rows.extend(report.runs.iter().map(|run| COLUMNS.map(|(_, cell)| cell(run)).into()));
    }
    if report.has_own_targets() {
        let firsts = if has_means(report) {
            series(report).iter().map(|series| series.runs[0]).collect()
        } else {
            report.runs.iter().collect::<Vec<_>>()
        };
        let target = |run: &&Run| report.own_target(run).map_or_else(missing, |it| it.to_string());
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

fn missing() -> String {
    "-".to_owned()
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(missing, |value| number::render(value, decimals))
}

/// A rate, if the run has one: one that found its training finished has taken no step that it could
/// be of.
fn rate(run: &Run, rate: f64, least: usize) -> String {
    let has_rates = run.gradients.computed > 0 || run.resumed_from.is_none();
    cell(has_rates.then_some(rate), decimals_of(rate).max(least))
}

fn mean(estimate: Option<Estimate>, decimals: usize) -> String {
    estimate.map_or_else(missing, |estimate| estimate.render(decimals))
}

fn mean_rate(estimate: Option<Estimate>, least: usize) -> String {
    mean(estimate, estimate.map_or(least, |rate| decimals_of(rate.mean).max(least)))
}

/// How many runs have reached the target, if some have and others have not.
fn reached(series: &Series<'_>, summary: &Summary) -> String {
    let reached = series.sound().filter(|run| run.seconds_to_target.is_some()).count() as u64;
    match reached {
        reached if reached == 0 || reached == summary.runs => String::new(),
        reached => format!(" ({reached} of {})", summary.runs),
    }
}
