//! The faults of a run that have not begun, and those that were skipped: a user learns of both.

use crate::simulation::faults::{Damage, Fault, SkipReason, SkippedFault};

/// The faults of a run that have not happened.
pub(super) struct Skipped {
    /// By their numbers: the faults to come.
    to_come: Vec<Option<Fault>>,
    /// The damage to checkpoints that nobody has taken yet.
    damage: Vec<(Damage, Option<Fault>)>,
    skipped: Vec<SkippedFault>,
}

impl Skipped {
    pub(super) fn new(faults: &[Fault]) -> Self {
        let to_come = faults.iter().cloned().map(Some).collect();
        Self { to_come, damage: Vec::new(), skipped: Vec::new() }
    }

    /// Takes the fault of this `number` from those to come; none if the run was not given it.
    pub(super) fn begin(&mut self, number: usize) -> Option<Fault> {
        self.to_come.get_mut(number)?.take()
    }

    /// Notes that `fault` was skipped.
    pub(super) fn skip(&mut self, fault: Option<Fault>, why: SkipReason) {
        self.skipped.extend(fault.map(|fault| SkippedFault { fault, why }));
    }

    /// Damages the checkpoints once somebody looks at them.
    pub(super) fn damage(&mut self, damage: Damage, fault: Option<Fault>) {
        self.damage.push((damage, fault));
    }

    /// Takes the damage since the last call. It is skipped unless there `is_checkpoint` to damage.
    pub(super) fn take_damage(&mut self, is_checkpoint: bool) -> Vec<Damage> {
        let mut taken = Vec::new();
        for (damage, fault) in std::mem::take(&mut self.damage) {
            match is_checkpoint {
                true => taken.push(damage),
                false => self.skip(fault, SkipReason::NoCheckpoint),
            }
        }
        taken
    }

    /// The faults that did not happen in a run that has ended, in the order in which they were
    /// skipped; last the damage that nobody came to see, and those that it did not come to.
    pub(super) fn at_the_end(&self) -> Vec<SkippedFault> {
        let why = SkipReason::RunEnded;
        let unseen = self.damage.iter().filter_map(|(_, fault)| fault.as_ref());
        let missed = unseen.chain(self.to_come.iter().flatten());
        let missed = missed.map(|fault| SkippedFault { fault: fault.clone(), why });
        self.skipped.iter().cloned().chain(missed).collect()
    }
}
