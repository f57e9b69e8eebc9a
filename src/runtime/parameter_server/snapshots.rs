//! The values of variables that workers last read, for modes that compensate gradients for later
//! changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Replica;
use crate::tensor::Tensor;

use crate::runtime::state::VariableId;

/// The value of each variable that each master's steps last read. It is a reference: the variable's
/// next update leaves it as it is and goes into a copy.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The masters whose steps belong to such a training.
    masters: BTreeSet<u64>,
    /// By master and variable: the version and the value.
    read: BTreeMap<(u64, VariableId), (u64, Tensor)>,
}

impl Snapshots {
    /// `master` is about to order steps of `replica`.
    pub(super) fn join(&mut self, master: u64, replica: Replica) {
        if replica.mode.needs().snapshot {
            self.masters.insert(master);
        }
    }

    /// A step of `master` has read `version` of a variable.
    pub(super) fn keep(&mut self, master: u64, variable: VariableId, version: u64, value: &Tensor) {
        if self.masters.contains(&master) {
            self.read.insert((master, variable), (version, value.clone()));
        }
    }

    /// The value that a gradient of `version` was computed from, if it is the last one that was
    /// read.
    pub(super) fn take(
        &mut self,
        master: u64,
        variable: VariableId,
        version: u64,
    ) -> Option<Tensor> {
        let (read, value) = self.read.remove(&(master, variable))?;
        (read == version).then_some(value)
    }

    /// These masters are lost.
    pub(super) fn lose(&mut self, masters: &[u64]) {
        self.masters.retain(|master| !masters.contains(master));
        self.read.retain(|(master, _), _| !masters.contains(master));
    }

    /// These variables have lost their values.
    pub(super) fn clear(&mut self, variables: &[VariableId]) {
        self.read.retain(|(_, variable), _| !variables.contains(variable));
    }

    /// The training is over.
    pub(super) fn finish(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mode;

    const COMPENSATED: Mode = Mode::DelayCompensated { lambda: 0.04 };
    const V: VariableId = VariableId(3);

    /// Masters 7 and 8 train in `mode`, and each has read version 5 of a variable.
    fn read(mode: Mode) -> (Snapshots, Tensor) {
        let (mut snapshots, value) = (Snapshots::default(), Tensor::scalar(1f32));
        for (master, worker) in [(7, 0), (8, 1)] {
            snapshots.join(master, Replica { worker, workers: 2, mode });
            snapshots.keep(master, V, 5, &value);
        }
        (snapshots, value)
    }

    #[test]
    fn a_gradient_gets_what_its_own_master_has_read_and_gets_it_once() {
        let (mut snapshots, value) = read(COMPENSATED);
        let newer = Tensor::scalar(2f32);
        snapshots.keep(7, V, 6, &newer);
        assert_eq!(snapshots.take(7, V, 6), Some(newer));
        assert_eq!(snapshots.take(7, V, 6), None);
        assert_eq!(snapshots.take(8, V, 5), Some(value));
    }

    #[test]
    fn a_gradient_of_another_version_than_the_last_read_gets_nothing() {
        assert_eq!(read(COMPENSATED).0.take(7, V, 4), None);
    }

    #[test]
    fn a_snapshot_shares_its_memory_with_the_variable() {
        let (mut snapshots, value) = read(COMPENSATED);
        let kept = snapshots.take(7, V, 5).unwrap();
        assert_eq!(kept.bytes().as_ptr(), value.bytes().as_ptr());
    }

    #[test]
    fn nothing_is_kept_in_other_modes_nor_after_a_loss_a_reset_or_the_end() {
        for other in [Mode::Async, Mode::StalenessAware, Mode::Sync { backups: 0, cancel: false }] {
            assert_eq!(read(other).0.take(7, V, 5), None, "{other}");
        }
        let (mut lost, value) = read(COMPENSATED);
        lost.lose(&[7]);
        lost.keep(7, V, 5, &value);
        assert_eq!((lost.take(7, V, 5), lost.take(8, V, 5)), (None, Some(value)));
        let (mut cleared, value) = read(COMPENSATED);
        cleared.clear(&[V]);
        assert_eq!(cleared.take(7, V, 5), None);
        cleared.keep(7, V, 0, &value);
        assert_eq!(cleared.take(7, V, 0), Some(value));
        let (mut over, value) = read(COMPENSATED);
        over.finish();
        over.keep(7, V, 5, &value);
        assert_eq!(over.take(7, V, 5), None);
    }
}
