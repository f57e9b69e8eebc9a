//! The part of a cluster that limits a run, in words: what to make faster first.

use super::{Run, Usage};
use crate::cluster::TaskName;

/// The share of the time from which on a part is busy all the time, but for pauses between steps.
const BUSY: f64 = 0.75;

impl Run {
    /// What limits the run: the busiest part of any task, or that workers wait though nothing is
    /// busy all the time. None where nothing was counted, as in a deployment.
    pub fn limit(&self) -> Option<String> {
        let parts = self.usage.iter().flat_map(|(task, usage)| parts(task, usage));
        let (what, share) = parts.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let percent = 100.0 * share;
        if share >= BUSY {
            return Some(format!("limited by {what}, busy for {percent:.0} % of the time"));
        }
        let waiting = 100.0 * (1.0 - self.computing()?);
        Some(format!(
            "limited by waiting, for messages and for each other, in which workers spend \
             {waiting:.0} % of the time: nothing is busy all the time; the most is {what}, with \
             {percent:.0} %"
        ))
    }

    /// The share of the time in which the workers' devices computed, on average. None where it was
    /// not counted, as in a deployment.
    pub fn computing(&self) -> Option<f64> {
        let workers = self.waiting_seconds.keys().filter_map(|worker| self.usage.get(worker));
        let shares: Vec<f64> = workers.map(|usage| usage.compute).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

/// The parts of `task`, in words, each with the share of the time in which it was busy.
fn parts(task: &TaskName, usage: &Usage) -> [(String, f64); 4] {
    [
        (format!("{task}'s kernels"), usage.compute),
        (format!("{task}'s message thread"), usage.messages),
        (format!("{task}'s network card (sending)"), usage.card_out),
        (format!("{task}'s network card (receiving)"), usage.card_in),
    ]
}
