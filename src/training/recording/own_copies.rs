//! The steps of workers that train copies of their own: which of them are lost with the copy.

use std::collections::BTreeMap;

use super::Recording;
use crate::cluster::TaskName;

/// A worker's own copy, while the rows of a recording are read.
#[derive(Default)]
struct OwnCopy {
    /// The number of the worker's last step.
    last: u64,
    /// Whether that was not applied, so that the next row tells whether the copy is kept.
    is_in_doubt: bool,
    /// The rows of the steps that no exchange has brought to the others.
    rows: Vec<usize>,
}

impl Recording {
    /// By row: whether it is of a worker's own copy, and no exchange of this copy was applied
    /// since. Empty if there is no such row.
    ///
    /// A row that is not applied is either an exchange that came too late, with which the worker
    /// drops its copy, or an attempt at a step that the worker takes again, with the same copy. Its
    /// next row tells which: it has the number of the attempt's step. After an attempt that was
    /// applied there is nothing to keep.
    pub(super) fn lost_with_their_copy(&self) -> Vec<bool> {
        if !self.log.has_local() {
            return Vec::new();
        }
        let mut lost = vec![false; self.log.len()];
        let mut copies: BTreeMap<TaskName, OwnCopy> = BTreeMap::new();
        for (row, step) in self.log.iter().enumerate() {
            let copy = copies.entry(step.worker.clone()).or_default();
            let is_kept = match copy.is_in_doubt {
                true => step.local_step == copy.last,
                false => step.local_step > copy.last,
            };
            if !is_kept {
                copy.rows.clear(); // also where another life of the worker has another copy
            }
            (copy.last, copy.is_in_doubt) = (step.local_step, false);
            if step.is_local {
                lost[row] = true;
                copy.rows.push(row);
            } else if step.applied && !self.has_undone(&step) {
                copy.rows.drain(..).for_each(|row| lost[row] = false);
            } else {
                copy.is_in_doubt = true;
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::step;
    use crate::training::{Fact, SharedRecording, StepStats};

    #[test]
    fn a_gradient_of_a_workers_own_copy_is_applied_with_the_exchange_that_brings_it() {
        let local = |number| StepStats { is_local: true, ..step(number) };
        let dropped = |number| StepStats { applied: false, ..step(number) };
        let applied = |steps: &[StepStats]| -> Vec<bool> {
            let shared = SharedRecording::default();
            steps.iter().for_each(|step| shared.record(Fact::Step(step.clone())));
            shared.finish().steps().map(|step| step.applied).collect()
        };
        let exchanged = [local(0), step(1), local(2), dropped(3), local(4)];
        assert_eq!(applied(&exchanged), [true, true, false, false, false]);
        let in_two_lives = [local(0), local(1), local(0), step(1)];
        assert_eq!(applied(&in_two_lives), [false, false, true, true]);
        let taken_again =
            [local(0), dropped(1), dropped(1), step(1), local(2), dropped(2), local(2)];
        assert_eq!(applied(&taken_again), [true, false, false, true, false, false, false]);
        let then_exchanged = [local(0), dropped(1), local(1), step(2)];
        assert_eq!(applied(&then_exchanged), [true, false, true, true], "a local attempt");
    }
}
