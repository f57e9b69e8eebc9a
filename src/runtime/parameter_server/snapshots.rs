//! The values of variables that workers last read, for modes that compensate gradients for later
//! changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Replica;
use crate::tensor::Tensor;

use super::TRAININGS;
use crate::runtime::messages::Origin;
use crate::runtime::state::VariableId;

/// The value of each variable that the steps of each training last read. It is a reference: the
/// variable's next update leaves it as it is and goes into a copy.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The masters whose steps belong to such a training.
    masters: BTreeSet<u64>,
    /// By master and variable: what its trainings have read; the last one to read is at the end. Of
    /// more than [`TRAININGS`], the gradient of one that is forgotten is applied uncorrected.
    read: BTreeMap<(u64, VariableId), Vec<Read>>,
}

/// What the last step of a training has read of a variable.
#[derive(Debug)]
struct Read {
    training: Training,
    version: u64,
    value: Tensor,
}

/// A training of a master: its owner, and its number; none for steps of no training.
type Training = Option<(Option<u64>, u64)>;

/// The training that a step belongs to, with the master that has ordered the step.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    master: u64,
    training: Training,
}

impl Reader {
    /// The reader of a step of `master`, with this origin.
    pub(super) fn new(master: u64, origin: Option<Origin>) -> Self {
        let training = origin.map(|origin| (origin.owner, origin.training));
        Self { master, training }
    }
}

impl Snapshots {
    /// `master` is about to order steps of `replica`.
    pub(super) fn join(&mut self, master: u64, replica: Replica) {
        if replica.mode.needs().keeps_reads() {
            self.masters.insert(master);
        }
    }

    /// A step has read `version` of a variable.
    pub(super) fn keep(
        &mut self,
        Reader { master, training }: Reader,
        variable: VariableId,
        version: u64,
        value: &Tensor,
    ) {
        if !self.masters.contains(&master) {
            return;
        }
        let all = self.read.entry((master, variable)).or_default();
        // No gradient needs what a step outside of a training has read.
        all.retain(|read| read.training.is_some() && read.training != training);
        if all.len() == TRAININGS {
            all.remove(0);
        }
        all.push(Read { training, version, value: value.clone() });
    }

    /// The value that a gradient of `version` was computed from, if it is the last one that was
    /// read by its training.
    pub(super) fn take(
        &mut self,
        Reader { master, training }: Reader,
        variable: VariableId,
        version: u64,
    ) -> Option<Tensor> {
        let all = self.read.get_mut(&(master, variable))?;
        let at = all.iter().position(|read| read.training == training)?;
        let read = all.remove(at);
        (read.version == version).then_some(read.value)
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

    /// A step of training 1 of this master.
    fn of(master: u64) -> Reader {
        of_client(master, None)
    }

    fn of_client(master: u64, owner: Option<u64>) -> Reader {
        Reader::new(master, Some(Origin { owner, training: 1, number: 0, is_again: false }))
    }

    /// Masters 7 and 8 train in `mode`, and each has read version 5 of a variable.
    fn read(mode: Mode) -> (Snapshots, Tensor) {
        let (mut snapshots, value) = (Snapshots::default(), Tensor::scalar(1f32));
        for (master, worker) in [(7, 0), (8, 1)] {
            snapshots.join(master, Replica { worker, workers: 2, mode });
            snapshots.keep(of(master), V, 5, &value);
        }
        (snapshots, value)
    }

    #[test]
    fn a_gradient_gets_what_its_own_master_has_read_and_gets_it_once() {
        let (mut snapshots, value) = read(COMPENSATED);
        let newer = Tensor::scalar(2f32);
        snapshots.keep(of(7), V, 6, &newer);
        assert_eq!(snapshots.take(of(7), V, 6), Some(newer));
        assert_eq!(snapshots.take(of(7), V, 6), None);
        assert_eq!(snapshots.take(of(8), V, 5), Some(value));
    }

    #[test]
    fn programs_that_train_through_one_master_keep_each_its_own_snapshot() {
        let (mut snapshots, value) = read(COMPENSATED);
        let (first, second) = (of_client(7, Some(1)), of_client(7, Some(2)));
        snapshots.keep(first, V, 5, &value);
        let newer = Tensor::scalar(2f32);
        snapshots.keep(second, V, 6, &newer);
        assert_eq!(snapshots.take(first, V, 5), Some(value.clone()));
        assert_eq!(snapshots.take(second, V, 6), Some(newer));
        (0..1000).for_each(|client| snapshots.keep(of_client(7, Some(client)), V, 6, &value));
        assert_eq!(snapshots.read[&(7, V)].len(), TRAININGS);
    }

    #[test]
    fn what_an_evaluation_has_read_is_kept_no_longer_than_to_the_next_read_of_a_training() {
        let (mut snapshots, value) = read(COMPENSATED);
        snapshots.keep(Reader::new(7, None), V, 5, &value);
        snapshots.keep(of(7), V, 6, &value);
        let kept: Vec<Training> =
            snapshots.read[&(7, V)].iter().map(|read| read.training).collect();
        assert_eq!(kept, [of(7).training]);
    }

    #[test]
    fn a_gradient_of_another_version_than_the_last_read_gets_nothing() {
        assert_eq!(read(COMPENSATED).0.take(of(7), V, 4), None);
    }

    #[test]
    fn a_snapshot_shares_its_memory_with_the_variable() {
        let (mut snapshots, value) = read(COMPENSATED);
        let kept = snapshots.take(of(7), V, 5).unwrap();
        assert_eq!(kept.bytes().as_ptr(), value.bytes().as_ptr());
    }

    #[test]
    fn nothing_is_kept_in_other_modes_nor_after_a_loss_a_reset_or_the_end() {
        for other in [Mode::Async, Mode::StalenessAware, Mode::Sync { backups: 0, cancel: false }] {
            assert_eq!(read(other).0.take(of(7), V, 5), None, "{other}");
        }
        let (mut lost, value) = read(COMPENSATED);
        lost.lose(&[7]);
        lost.keep(of(7), V, 5, &value);
        assert_eq!((lost.take(of(7), V, 5), lost.take(of(8), V, 5)), (None, Some(value)));
        let (mut cleared, value) = read(COMPENSATED);
        cleared.clear(&[V]);
        assert_eq!(cleared.take(of(7), V, 5), None);
        cleared.keep(of(7), V, 0, &value);
        assert_eq!(cleared.take(of(7), V, 0), Some(value));
        let (mut over, value) = read(COMPENSATED);
        over.finish();
        over.keep(of(7), V, 5, &value);
        assert_eq!(over.take(of(7), V, 5), None);
    }
}
