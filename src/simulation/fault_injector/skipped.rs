//! The faults of a run that have not begun, and those that were skipped: a user learns of both.

use crate::simulation::faults::{Damage, Fault, FaultKind, SkipReason, SkippedFault, Trigger};
use crate::units::Time;

/// The faults of a run that have not happened.
pub(super) struct Skipped {
    to_come: Vec<Fault>,
    /// The damage to checkpoints that nobody has taken yet.
    damage: Vec<(Damage, Option<Fault>)>,
    skipped: Vec<SkippedFault>,
}

impl Skipped {
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self { to_come: faults.to_vec(), damage: Vec::new(), skipped: Vec::new() }
    }

    /// Takes the fault of this `kind` that begins `now` from those to come; none if the run was not
    /// given it.
    pub(super) fn begin(&mut self, now: Time, kind: &FaultKind) -> Option<Fault> {
        let begins = |fault: &Fault| match fault.at {
            Trigger::Time(at) => at == now && fault.kind == *kind,
            Trigger::Delivery(_) | Trigger::Event(_) => fault.kind == *kind,
        };
        let position = self.to_come.iter().position(begins)?;
        Some(self.to_come.remove(position))
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
        let missed = unseen.chain(&self.to_come);
        let missed = missed.map(|fault| SkippedFault { fault: fault.clone(), why });
        self.skipped.iter().cloned().chain(missed).collect()
    }
}
