//! The remarks under the table: verdicts, and what a reader has to know to read the figures.

use super::number;
use super::series::{Series, independent, series, told_apart_by};
use super::table::{ACCURACY_DECIMALS, decimals_of, has_means};
use super::verdict::Measure;
use super::{Report, Run, Tuned, World};
use crate::cluster::Role;

/// The time between two looks at the test split is told where it is more than this share of the
/// time to the target.
const COARSE: f64 = 0.1;

/// The start is told where it is more than this share of the time to the target.
const LONG_START: f64 = 0.05;

/// The remarks on a report: the faster runs, those that are not compared or only with each other,
/// those that missed the target, and those that diverged.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let over = told_apart_by(report);
    let verdicts = report.verdicts();
    let mut lines: Vec<String> =
        verdicts.iter().map(|verdict| verdict.render(independent(over))).collect();
    lines.extend(report.left_out(over));
    lines.extend(report.tuned.iter().map(Tuned::render));
    lines.extend((!report.tuned.is_empty()).then(|| Tuned::REMARK.to_owned()));
    let are_unsure = !has_means(report) && !lines.is_empty();
    lines.extend(report.kept_apart());
    let all = series(report);
    lines.extend(all.iter().filter_map(|series| misses(report, series, over)));
    lines.extend(all.iter().filter_map(|series| falls_back(report, series, over)));
    lines.extend(coarse_looks(&all));
    let are_by_time = verdicts.iter().any(|verdict| verdict.by == Measure::TimeToTarget);
    lines.extend(long_starts(&all).filter(|_| are_by_time));
    lines.extend(report.runs.iter().filter(|run| run.has_diverged()).map(|run| {
        let since = run.diverged_at.unwrap_or(run.global_steps);
        format!("{} diverged: its loss is not finite from step {since} on", run.name)
    }));
    lines.extend(
        report
            .of_task
            .iter()
            .map(|task| format!("samples, gradients, waits and MB sent are those of {task} alone")),
    );
    lines.extend(report.runs.iter().filter(|run| run.is_unfinished()).map(is_not_finished));
    if !report.complete && !matches!(&report.runs[..], [only] if only.is_unfinished()) {
        lines.push(format!(
            "not complete: {} runs are there, and others are not over, or have failed",
            report.runs.len()
        ));
    }
    if over == "launches" && !verdicts.is_empty() {
        lines.push("(launches of one seed: how sure that is of others, `--seeds 10` says)".into());
    }
    if are_unsure {
        let how = match report.world {
            World::Simulation => "(of one seed: `--seeds 10` says how sure that is)",
            World::Deployment => "(of one launch: `--repeat 5` says how sure that is)",
        };
        lines.push(how.to_owned());
    }
    lines
}

/// Remark on a run that stopped before its end, and from which step it would go on if that is
/// another: others may have gone on while the last checkpoint was written.
fn is_not_finished(run: &Run) -> String {
    let stopped = format!("{} is not finished: it stopped at step {}", run.name, run.global_steps);
    match run.last_saved.filter(|_| !run.is_end_saved()) {
        Some(saved) => format!("{stopped}; its last checkpoint has step {saved}"),
        None => stopped,
    }
}

/// Remark on a series that missed its target with all or some of its runs. `over` is the word for
/// these: seeds, launches or runs.
fn misses(report: &Report, series: &Series<'_>, over: &str) -> Option<String> {
    let target = report.own_target(series.runs[0]).or(report.target)?;
    let has_time = |run: &&Run| !run.had_nothing_to_do() && !run.has_unknown_time();
    let sound: Vec<&Run> = series.sound().filter(has_time).collect();
    let reached = sound.iter().filter(|run| run.seconds_to_target.is_some()).count();
    let name = series.name();
    match sound[..] {
        [] => None,
        _ if reached == sound.len() => None,
        [only] => {
            let steps = only.global_steps;
            Some(format!("{name} did not reach {target} accuracy in {steps} global steps"))
        }
        _ => {
            let those = match reached {
                0 => "",
                _ => ": its time to it is the mean of those alone, which is too short",
            };
            let all = series.runs.iter().copied().filter(has_time).count();
            Some(format!("{name} reached {target} accuracy with {reached} of {all} {over}{those}"))
        }
    }
}

/// Remark on a series whose shown accuracy is below the target that it reached: its last look at
/// the test split, after the steps that were under way, measured less than an earlier one.
fn falls_back(report: &Report, series: &Series<'_>, over: &str) -> Option<String> {
    let target = report.own_target(series.runs[0]).or(report.target)?;
    let is_below = |run: &&Run| {
        run.target_reached_at.is_some() && run.test_accuracy.is_some_and(|last| last < target)
    };
    let below: Vec<&Run> = series.sound().filter(is_below).collect();
    let (name, all) = (series.name(), series.runs.len());
    match below[..] {
        [] => None,
        [only] if all == 1 => {
            let (reached, last) = (only.target_reached_at?, only.last_look_at?);
            let accuracy = number::render(only.test_accuracy?, ACCURACY_DECIMALS);
            Some(format!(
                "{name} reached {target} accuracy at step {reached}; the last look, at step \
                 {last}, has {accuracy}"
            ))
        }
        _ => {
            let count = below.len();
            Some(format!(
                "{name} reached {target} accuracy, but the last look of {count} of {all} {over} \
                 has less"
            ))
        }
    }
}

/// Remark on runs whose start is a large part of the time to the target, which is compared
/// without it.
fn long_starts(all: &[Series<'_>]) -> Option<String> {
    let long = |series: &Series<'_>| {
        let seconds = series.estimate(|run| run.seconds_to_target)?.mean;
        let start = series.estimate(|run| Some(run.start_seconds))?.mean;
        let decimals = decimals_of(start);
        (start > LONG_START * seconds)
            .then(|| format!("{start:.decimals$} s (`{}`)", series.name()))
    };
    let long: Vec<String> = all.iter().filter_map(long).collect();
    (!long.is_empty()).then(|| {
        let long = long.join(", ");
        format!(
            "times to the target are compared from the first step on: without the start, {long}"
        )
    })
}

/// Remark on runs whose time to target is imprecise because evaluations were far apart.
fn coarse_looks(all: &[Series<'_>]) -> Option<String> {
    let coarse = |series: &Series<'_>| {
        let seconds = series.estimate(|run| run.seconds_to_target)?.mean;
        let between = series.estimate(|run| run.seconds_to_target_resolution)?.mean;
        let decimals = decimals_of(between);
        (between > COARSE * seconds)
            .then(|| format!("{between:.decimals$} s (`{}`)", series.name()))
    };
    let coarse: Vec<String> = all.iter().filter_map(coarse).collect();
    (!coarse.is_empty()).then(|| {
        let (coarse, keys) = (coarse.join(", "), keys_of_looks(all).join(", "));
        format!(
            "looks at the test split were far apart ({keys}); the target may have been reached \
             earlier than shown, by up to {coarse}"
        )
    })
}

/// The keys of a scenario that say how often its runs are looked at: an evaluator looks at
/// checkpoints.
fn keys_of_looks(all: &[Series<'_>]) -> Vec<&'static str> {
    let has_evaluator =
        |run: &&Run| run.bytes_sent.keys().any(|task| task.role() == Role::Evaluator);
    let runs = || all.iter().flat_map(|series| series.runs.iter().copied());
    let mut keys = Vec::new();
    if !runs().all(|run| has_evaluator(&run)) {
        keys.extend(["`stop.evaluate_every`", "`stop.evaluate_every_samples`"]);
    }
    if runs().any(|run| has_evaluator(&run)) {
        keys.push("`checkpoint.every_steps`");
    }
    keys
}
