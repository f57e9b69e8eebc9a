//! The laws of workers' step times, fitted to the steps of earlier runs.
//!
//! A step's time here is that of its kernels on the worker: what a scenario's `step_time` draws, if
//! the worker holds no variables, whose updates would be among the kernels. Of the laws with two
//! parameters the likelier one is taken; where its distribution differs too much from what was
//! measured, the law is what was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::time_text;
use crate::cluster::TaskName;
use crate::operations::erfc;
use crate::simulation::Law;
use crate::units::LONGEST_SPAN;
use crate::user_file;

/// The share of each worker's steps at the beginning that warm up.
const WARM_UP: f64 = 0.1;
/// The fewest steps that a law is fitted to.
const FEWEST: usize = 30;
/// The number of values of a law that is what was measured.
const VALUES: usize = 50;
/// The greatest length of a table of steps \[bytes\].
const LONGEST: u64 = 1 << 30;

/// The law of one worker's steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLaw {
    /// The worker.
    pub worker: TaskName,
    /// The law of its steps' compute time \[s\].
    pub law: Law,
    /// The number of steps that it is fitted to.
    pub steps: usize,
    /// The greatest difference between the distributions of the law and of the steps (the
    /// statistic of Kolmogorov and Smirnov).
    pub distance: f64,
}

/// Errors of [`step_laws`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LawsError {
    /// A table of steps can't be read.
    #[error("{}: {why}; give the folder that `--out` of `launch`, `task` or `sim` has written",
            .path.display())]
    Unreadable {
        /// The table.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The tables have the steps of several runs, whose laws may differ.
    #[error("there are steps of several runs, pick one with --run: `{}`", .runs.join("`, `"))]
    SeveralRuns {
        /// The names of the runs.
        runs: Vec<String>,
    },
    /// The tables have no steps of the run that was picked.
    #[error("there is no run `{run}`; there are: `{}`", .runs.join("`, `"))]
    NoSuchRun {
        /// The name.
        run: String,
        /// The names of the runs.
        runs: Vec<String>,
    },
    /// No step has a compute time.
    #[error(
        "no step of {} has a compute time (`compute_s`), as where no worker runs kernels, and in a \
         replay, which does not measure small ones; give the folder of the run that was recorded",
        listed(.folders)
    )]
    NotMeasured {
        /// The folders with the tables.
        folders: Vec<PathBuf>,
    },
    /// No worker has taken enough steps.
    #[error(
        "no worker of {} has computed {FEWEST} steps after the first ones; let the run take longer",
        listed(.folders)
    )]
    TooFew {
        /// The folders with the tables.
        folders: Vec<PathBuf>,
    },
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The columns of `steps.csv` that are read.
#[derive(Deserialize)]
struct Row {
    run: String,
    worker: String,
    local_step: u64,
    compute_s: Option<f64>,
}

/// The laws of the workers in the results at `folders`, as `--out` wrote them, in the workers'
/// order. `run` picks one run of several.
///
/// # Errors
/// If a folder has no table of steps with their compute times, if there are several runs and none
/// is picked, or not the one that is, or too few steps.
pub fn step_laws(folders: &[PathBuf], run: Option<&str>) -> Result<Vec<StepLaw>, LawsError> {
    let mut times: BTreeMap<TaskName, Vec<f64>> = BTreeMap::new();
    let mut runs = BTreeSet::new();
    for folder in folders {
        let path = folder.join("steps.csv");
        let unreadable = |why: String| LawsError::Unreadable { path: path.clone(), why };
        let mut rows = read(&path).map_err(unreadable)?;
        runs.extend(rows.iter().map(|row| row.run.clone()));
        rows.retain(|row| run.is_none_or(|run| row.run == run));
        take(rows, &mut times).map_err(unreadable)?;
    }
    match run {
        Some(run) if !runs.is_empty() && !runs.contains(run) => {
            let (run, runs) = (run.to_owned(), runs.into_iter().collect());
            return Err(LawsError::NoSuchRun { run, runs });
        }
        None if runs.len() > 1 => {
            return Err(LawsError::SeveralRuns { runs: runs.into_iter().collect() });
        }
        _ => {}
    }
    if !times.is_empty() && times.values().all(Vec::is_empty) {
        return Err(LawsError::NotMeasured { folders: folders.to_vec() });
    }
    let enough = times.into_iter().filter(|(_, times)| times.len() >= FEWEST);
    let laws: Vec<StepLaw> = enough.map(|(worker, times)| law_of(worker, times)).collect();
    match laws.is_empty() {
        true => Err(LawsError::TooFew { folders: folders.to_vec() }),
        false => Ok(laws),
    }
}

/// The rows of the table at `path`.
fn read(path: &Path) -> Result<Vec<Row>, String> {
    let bytes = user_file::read(path, LONGEST).map_err(|error| error.to_string())?;
    let rows: Result<Vec<Row>, _> = csv::Reader::from_reader(&bytes[..]).deserialize().collect();
    let rows = rows.map_err(|error| error.to_string())?;
    let times = 0.0..=LONGEST_SPAN.as_secs_f64();
    for (index, row) in rows.iter().enumerate() {
        if let Some(seconds) = row.compute_s.filter(|seconds| !times.contains(seconds)) {
            let most = times.end();
            return Err(format!(
                "row {}: compute_s = {seconds:?} is not from 0 to {most}",
                index + 1
            ));
        }
    }
    Ok(rows)
}

/// Adds the compute times of `rows`, without those of each worker's first steps.
fn take(rows: Vec<Row>, times: &mut BTreeMap<TaskName, Vec<f64>>) -> Result<(), String> {
    let mut of_worker: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        of_worker.entry(row.worker.clone()).or_default().push(row);
    }
    for (worker, rows) in of_worker {
        let worker: TaskName = worker.parse().map_err(|_| format!("`{worker}` is no task"))?;
        let last = rows.iter().map(|row| row.local_step).max().unwrap_or(0);
        let warm = rows.iter().filter(|row| row.local_step as f64 >= WARM_UP * last as f64);
        let computed = warm.filter_map(|row| row.compute_s).filter(|seconds| *seconds > 0.0);
        times.entry(worker).or_default().extend(computed);
    }
    Ok(())
}

/// The law that fits `times` best.
fn law_of(worker: TaskName, mut times: Vec<f64>) -> StepLaw {
    times.sort_by(f64::total_cmp);
    let steps = times.len();
    let (law, distance) = parametric(&times);
    // A sample of a law differs this much from it once in a thousand times, by chance.
    let by_chance = 1.95 / (steps as f64).sqrt();
    if distance <= by_chance.max(0.03) {
        return StepLaw { worker, law, steps, distance };
    }
    let middle = |part: usize| times[(2 * part + 1) * steps / (2 * VALUES)];
    let values = (0..VALUES).map(middle).collect();
    StepLaw { worker, law: Law::Empirical { values }, steps, distance: 0.5 / VALUES as f64 }
}

/// The likelier of the laws with two parameters, and its distance from `times`, which are sorted.
fn parametric(times: &[f64]) -> (Law, f64) {
    let n = times.len() as f64;
    let (least, mean) = (times[0], times.iter().sum::<f64>() / n);
    // The estimates of greatest likelihood, less their bias: the least of n is above the shift.
    let beyond = (mean - least) * n / (n - 1.0);
    let shift = (least - beyond / n).max(0.0);
    if beyond <= 1e-9 * mean {
        return (Law::Constant { value: mean }, 0.0);
    }
    let log = |time: &f64| time.ln();
    let mu = times.iter().map(log).sum::<f64>() / n;
    let variance = times.iter().map(|time| (time.ln() - mu).powi(2)).sum::<f64>() / n;
    let sigma = variance.sqrt();
    let of_exponential = -beyond.ln() - 1.0;
    let of_lognormal = -mu - sigma.ln() - 0.5 * (std::f64::consts::TAU.ln() + 1.0);
    if of_exponential >= of_lognormal {
        let law = Law::ShiftedExponential { shift, mean: mean - shift };
        let below = |time: f64| 1.0 - (-(time - shift).max(0.0) / (mean - shift)).exp();
        return (law, distance(times, below));
    }
    let law = Law::Lognormal { mean: (mu + variance / 2.0).exp(), sigma };
    (law, distance(times, |time| normal((time.ln() - mu) / sigma)))
}

/// The greatest difference between the share of `times` up to one and `below` of it.
fn distance(times: &[f64], below: impl Fn(f64) -> f64) -> f64 {
    let n = times.len() as f64;
    let differs = |(at, time): (usize, &f64)| {
        let (share, below) = (at as f64 / n, below(*time));
        (below - share).abs().max((below - share - 1.0 / n).abs())
    };
    times.iter().enumerate().map(differs).fold(0.0, f64::max)
}

/// The standard normal distribution.
fn normal(x: f64) -> f64 {
    erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0
}

/// The sections `[compute.tasks."worker:N"]` of a scenario with these laws.
pub fn laws_to_toml(laws: &[StepLaw]) -> String {
    let mut text = String::new();
    for StepLaw { worker, law, steps, distance } in laws {
        append!(
            text,
            "# {steps} steps of {:.4} ms on average; the law differs by {:.1} % at most\n\
             [compute.tasks.\"{worker}\"]\nstep_time = {}\n",
            1e3 * law.mean(),
            100.0 * distance,
            written(law)
        );
    }
    text
}

/// A law of lengths of time, as a scenario has it.
fn written(law: &Law) -> String {
    let (name, parameters) = match law {
        Law::ShiftedExponential { shift, mean } => (
            "shifted_exponential",
            format!("shift = {}, mean = {}", time_text(*shift), time_text(*mean)),
        ),
        Law::Lognormal { mean, sigma } => {
            ("lognormal", format!("mean = {}, sigma = {sigma:.5}", time_text(*mean)))
        }
        Law::Empirical { values } => {
            let values: Vec<String> = values.iter().map(|value| time_text(*value)).collect();
            ("empirical", format!("values = [{}]", values.join(", ")))
        }
        law => ("constant", format!("value = {}", time_text(law.mean()))),
    };
    format!("{{ law = \"{name}\", {parameters} }}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    /// `count` draws of `law`.
    fn drawn(law: &Law, count: usize) -> Vec<f64> {
        let mut rng = stream(7, &["law"]);
        (0..count).map(|_| law.sample(&mut rng)).collect()
    }

    fn fitted(law: &Law) -> Law {
        law_of(TaskName::new("worker", 0), drawn(law, 4_000)).law
    }

    #[track_caller]
    fn assert_near(found: &[f64], expected: &[f64]) {
        let are_near = found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 0.05);
        assert!(are_near, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn the_law_of_a_sample_comes_back_with_its_parameters() {
        let law = fitted(&Law::ShiftedExponential { shift: 0.02, mean: 0.005 });
        let Law::ShiftedExponential { shift, mean } = law else { panic!("{law:?}") };
        assert_near(&[shift, mean], &[0.02, 0.005]);
        let law = fitted(&Law::Lognormal { mean: 0.1, sigma: 0.4 });
        let Law::Lognormal { mean, sigma } = law else { panic!("{law:?}") };
        assert_near(&[mean, sigma], &[0.1, 0.4]);
        assert_eq!(fitted(&Law::Constant { value: 0.5 }), Law::Constant { value: 0.5 });
    }

    #[test]
    fn steps_of_no_such_law_are_drawn_as_they_were_measured() {
        let slow = |at: usize| if at.is_multiple_of(5) { 0.3 } else { 0.1 };
        let times: Vec<f64> = (0..1_000).map(|at| slow(at) + 1e-6 * at as f64).collect();
        let law = law_of(TaskName::new("worker", 0), times.clone()).law;
        assert!(matches!(law, Law::Empirical { .. }), "{law:?}");
        assert_near(&[law.mean()], &[times.iter().sum::<f64>() / 1_000.0]);
    }

    /// What is said of a table with the steps of one worker in the run `async`, 40 that took a
    /// millisecond and one that took `last`.
    fn said_of(last: &str, run: Option<&str>) -> String {
        said_of_times("0.001", last, run)
    }

    /// The same, of 40 steps that took `time`.
    fn said_of_times(time: &str, last: &str, run: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let times = std::iter::repeat_n(time, 40).chain([last]);
        let rows = times.enumerate().map(|(at, time)| format!("async,worker:0,{at},{time}\n"));
        let table = format!("run,worker,local_step,compute_s\n{}", rows.collect::<String>());
        std::fs::write(folder.path().join("steps.csv"), table).unwrap();
        let laws = step_laws(&[folder.path().to_owned()], run);
        laws.map_or_else(|error| error.to_string(), |laws| format!("{} steps", laws[0].steps))
    }

    #[test]
    fn a_time_that_no_scenario_can_have_is_told_with_its_row() {
        assert_eq!(said_of("0.001", None), "37 steps");
        for time in ["inf", "NaN", "1e300", "-1"] {
            let error = said_of(time, None);
            assert!(error.contains(&format!("steps.csv: row 41: compute_s = {time}")), "{error}");
        }
    }

    #[test]
    fn steps_without_compute_times_as_those_of_a_replay_are_no_steps_that_are_too_few() {
        for time in ["", "0"] {
            let error = said_of_times(time, time, None);
            assert!(error.contains("give the folder of the run that was recorded"), "{error}");
        }
        assert!(said_of_times("", "0.001", None).contains("let the run take longer"));
    }

    #[test]
    fn a_run_that_is_not_there_is_told_with_those_that_are() {
        assert_eq!(said_of("0.001", Some("async")), "37 steps");
        assert_eq!(said_of("0.001", Some("z")), "there is no run `z`; there are: `async`");
    }

    #[test]
    fn the_normal_distribution_is_that_of_its_tables() {
        for (x, expected) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.959_963_985, 0.025)] {
            assert!((normal(x) - expected).abs() < 1e-7, "{x}");
        }
    }
}
