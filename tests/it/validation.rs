//! The simulation against published figures, one a scenario of `sims/validation`.
//!
//!     cargo test --test it validation:: -- --nocapture
//!
//! prints the tables of `docs/validation.md`.

mod backup_workers;
mod error_runtime;
mod null_step;

use std::collections::BTreeMap;
use std::fmt::Write;

use trainyard::experiment::{Experiment, Simulated};
use trainyard::prelude::*;
use trainyard::training::train;

/// A published number beside the simulated one.
struct Row {
    /// What was measured.
    what: String,
    published: String,
    simulated: String,
    /// Whether the simulated number is as near as it has to be.
    holds: bool,
}

impl Row {
    /// A number that is to be within `share` of the published one.
    fn near(what: impl Into<String>, published: f64, simulated: f64, share: f64) -> Self {
        let error = simulated / published - 1.0;
        Self {
            what: what.into(),
            published: shown(published),
            simulated: format!("{} ({:+.1} %)", shown(simulated), 100.0 * error),
            holds: error.abs() <= share,
        }
    }

    /// A number that is to be the published one.
    fn equal(what: impl Into<String>, published: usize, simulated: usize) -> Self {
        let holds = published == simulated;
        let (published, simulated) = (published.to_string(), simulated.to_string());
        Self { what: what.into(), published, simulated, holds }
    }
}

/// Three digits of a number.
fn shown(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints `rows` as a table; all of them are to hold.
#[track_caller]
fn assert_hold(figure: &str, rows: &[Row]) {
    let mut table = format!("\n| {figure} | published | simulated |\n|---|---|---|\n");
    for Row { what, published, simulated, .. } in rows {
        writeln!(table, "| {what} | {published} | {simulated} |").unwrap();
    }
    println!("{table}");
    let off: Vec<&str> = rows.iter().filter(|row| !row.holds).map(|row| &*row.what).collect();
    assert!(off.is_empty(), "further away than they may be: {off:?}{table}");
}

/// A scenario of `sims/validation`.
fn scenario(name: &str) -> Result<Experiment> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/validation");
    Ok(Experiment::load(format!("{folder}/{name}.toml"))?)
}

/// Simulates the first run of `experiment`.
fn simulate(experiment: &Experiment) -> Result<Simulated> {
    let simulated = experiment.trials()?.remove(0).simulate(&train);
    match &simulated.outcome.result {
        Ok(_) => Ok(simulated),
        Err(error) => Err(error.clone()),
    }
}

/// What `measure` makes of each item, each on a thread of its own.
fn of_each<I: Send, O: Send>(
    items: impl IntoIterator<Item = I>,
    measure: impl Fn(I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    std::thread::scope(|scope| {
        let measure = &measure;
        let begun: Vec<_> =
            items.into_iter().map(|item| scope.spawn(move || measure(item))).collect();
        begun.into_iter().map(|thread| thread.join().expect("a measurement panics")).collect()
    })
}

/// The median time from one global step to the next \[ms\].
fn median_step(simulated: &Simulated) -> f64 {
    let mut reached: BTreeMap<u64, f64> = BTreeMap::new();
    for step in simulated.recording.steps().filter(|step| step.applied) {
        let at = reached.entry(step.global_step).or_insert(f64::INFINITY);
        *at = at.min(1e3 * step.ended.as_secs_f64());
    }
    let reached: Vec<f64> = reached.into_values().collect();
    let mut steps: Vec<f64> = reached.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    steps[steps.len() / 2]
}
