//! A result as one line of JSON, with the fields that the peers' scripts print.

use serde::Serialize;

use super::FIGURES;

/// The durations of steps \[ms\].
#[derive(Serialize)]
pub(crate) struct Times {
    p10_ms: f64,
    median_ms: f64,
    p90_ms: f64,
}

impl Times {
    /// The summary of steps that took `times` \[ms\].
    pub(crate) fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let [p10_ms, median_ms, p90_ms] = [10, 50, 90].map(|percent| percentile(&times, percent));
        Self { p10_ms, median_ms, p90_ms }
    }
}

/// The percentile `percent` of `sorted`, interpolated linearly, rounded to 0.1 us.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() - 1) as f64 * percent as f64 / 100.0;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    ((below + (above - below) * rank.fract()) * 1e4).round() / 1e4
}

/// One of this program's results, with its name.
#[derive(Serialize)]
struct Ours<'a, T> {
    peer: &'static str,
    #[serde(flatten)]
    line: &'a T,
}

/// A result as JSON.
pub(crate) fn json(line: &impl Serialize) -> String {
    serde_json::to_string(&Ours { peer: "trainyard", line }).expect("numbers and names are JSON")
}

/// Prints a result, and adds it to the figures.
pub(crate) fn print(json: &str) {
    FIGURES.note(&serde_json::from_str(json).expect("a result is JSON"));
}
