//! The comparison of an experiment's runs, as text for a terminal.

use super::{Report, Run, World};

const COLUMNS: [&str; 10] = [
    "run",
    "to target [s]",
    "seconds",
    "steps",
    "steps/s",
    "staleness (p99)",
    "dropped",
    "accuracy",
    "loss",
    "MB sent",
];

/// The comparison table, one line for each run; under it, how much faster the fastest run was than
/// each other.
///
/// Steps are global steps; accuracy and loss are the last ones; what was sent is of the training's
/// steps; a missing value is `-`. With
/// `target`, the scenario's target accuracy, the runs are compared by the time they took to reach
/// it; without it, by their global steps per second; one that diverged comes last, and is not
/// compared. Ends with a newline.
pub fn render(report: &Report, target: Option<f64>) -> String {
    let clock = match report.world {
        World::Simulation => "simulation, virtual seconds",
        World::Deployment => "deployment, seconds of the wall clock",
    };
    let mut text = format!(
        "{}, seed {}{}: {clock}\n\n",
        report.scenario,
        report.seed,
        parameters(&report.runs)
    );
    let rows: Vec<_> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(report.runs.iter().map(cells)).collect();
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    for row in &rows {
        text += &format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text += "\n";
    }
    let (diverged, sound): (Vec<&Run>, Vec<&Run>) =
        report.runs.iter().partition(|run| run.has_diverged());
    let mut comparison = match target {
        Some(target) => compare_times_to(target, &sound),
        None => compare_speeds(&sound),
    };
    comparison.extend(diverged.iter().map(|run| {
        format!("{} diverged: its loss is not finite at step {}", run.name, run.global_steps)
    }));
    if !comparison.is_empty() {
        text += &format!("\n{}\n", comparison.join("\n"));
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
        staleness.unwrap_or_else(|| "-".to_owned()),
        run.gradients.dropped.to_string(),
        number(run.test_accuracy, 4),
        number(run.final_loss, 4),
        number(Some(sent), 1),
    ]
}

/// "a reached 0.95 accuracy 1.83 times faster than b", and the runs that did not reach it.
fn compare_times_to(target: f64, runs: &[&Run]) -> Vec<String> {
    let mut reached: Vec<(&Run, f64)> =
        runs.iter().filter_map(|run| Some((*run, run.seconds_to_target?))).collect();
    reached.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut lines = Vec::new();
    if let Some(((fastest, least), others)) = reached.split_first() {
        for (other, seconds) in others {
            let times = faster(seconds / least);
            lines
                .push(format!("{} reached {target} accuracy {times} {}", fastest.name, other.name));
        }
    }
    let missed = runs.iter().filter(|run| run.seconds_to_target.is_none());
    lines.extend(missed.map(|run| {
        format!("{} did not reach {target} accuracy in {} global steps", run.name, run.global_steps)
    }));
    lines
}

/// "a made global steps 1.83 times faster than b".
fn compare_speeds(runs: &[&Run]) -> Vec<String> {
    let mut sorted: Vec<&Run> =
        runs.iter().copied().filter(|run| run.steps_per_second > 0.0).collect();
    sorted.sort_by(|a, b| b.steps_per_second.total_cmp(&a.steps_per_second));
    let Some((fastest, others)) = sorted.split_first() else { return Vec::new() };
    let line = |other: &&Run| {
        let times = faster(fastest.steps_per_second / other.steps_per_second);
        format!("{} made global steps {times} {}", fastest.name, other.name)
    };
    others.iter().map(line).collect()
}

/// "1.83 times faster than"; if that would be 1.00 times, "as fast as".
fn faster(ratio: f64) -> String {
    if ratio >= 1.005 { format!("{ratio:.2} times faster than") } else { "as fast as".to_owned() }
}
