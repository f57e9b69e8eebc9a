//! The faults that last for a time: what those in force do together to tasks, links and the disk.

use crate::simulation::faults::FaultKind;

/// The faults in force, in the order of their beginnings, each with the tasks that it names. No
/// factor is ever divided by: once all have ended, a product is 1 again.
#[derive(Default)]
pub(super) struct InForce(Vec<(Vec<usize>, FaultKind)>);

impl InForce {
    pub(super) fn begin(&mut self, tasks: Vec<usize>, kind: FaultKind) {
        self.0.push((tasks, kind));
    }

    /// Ends one fault of exactly this `kind`.
    pub(super) fn end(&mut self, kind: &FaultKind) {
        if let Some(own) = self.0.iter().position(|(_, one)| one == kind) {
            self.0.remove(own);
        }
    }

    /// Whether one of them fills the disk.
    pub(super) fn fill_disk(&self) -> bool {
        self.0.iter().any(|(_, kind)| matches!(kind, FaultKind::FullDisk { .. }))
    }

    /// The factor on the time of what the processor of `task` does.
    pub(super) fn slowdown(&self, task: usize) -> f64 {
        self.product(task, task, |kind| match kind {
            FaultKind::SlowTask { factor, .. } => Some(*factor),
            _ => None,
        })
    }

    /// The factor on the time of messages: on their latency and on that of their bytes.
    pub(super) fn link_slowness(&self, from: usize, to: usize) -> f64 {
        self.product(from, to, |kind| match kind {
            FaultKind::SlowLink { factor, .. } => Some(*factor),
            _ => None,
        })
    }

    /// The chance that a packet gets through.
    pub(super) fn getting_through(&self, from: usize, to: usize) -> f64 {
        self.product(from, to, |kind| match kind {
            FaultKind::Loss { rate, .. } => Some(1.0 - rate),
            _ => None,
        })
    }

    /// The product of what `factor` gives for the faults that name both tasks.
    fn product(&self, one: usize, other: usize, factor: fn(&FaultKind) -> Option<f64>) -> f64 {
        let theirs =
            self.0.iter().filter(|(tasks, _)| tasks.contains(&one) && tasks.contains(&other));
        theirs.filter_map(|(_, kind)| factor(kind)).product()
    }
}
