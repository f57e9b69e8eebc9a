//! Where values from other tasks meet the steps that wait for them.
//!
//! Values are pushed, so they can be here before the order to run their step is. They are kept for
//! it; those of a step that has ended are not, and the last of those are remembered for that
//! purpose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::runtime::messages::{Arrival, Arrivals, StepId, StepPart};

/// How many steps that were aborted are remembered.
const REMEMBERED: usize = 1024;

/// Values that came before their step.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    early: BTreeMap<StepPart, Vec<Arrival>>,
    aborted: BTreeSet<StepId>,
    /// The aborted steps, oldest first.
    order: VecDeque<StepId>,
    /// Masters that are lost: no step of theirs begins or goes on.
    lost: BTreeSet<u64>,
}

impl Rendezvous {
    /// Keeps values for a part of a step that has not begun; drops them where the step has been
    /// aborted.
    pub(crate) fn offer(&mut self, part: StepPart, arrivals: Arrivals) {
        if !self.is_aborted(part.step) {
            self.early.entry(part).or_default().extend(arrivals);
        }
    }

    /// What has come for a part of a step that begins now.
    pub(crate) fn take(&mut self, part: StepPart) -> Vec<Arrival> {
        self.early.remove(&part).unwrap_or_default()
    }

    /// Drops what comes for `step` from now on, and what has come.
    pub(crate) fn abort(&mut self, step: StepId) {
        self.early.retain(|part, _| part.step != step);
        if self.aborted.insert(step) {
            self.order.push_back(step);
        }
        if self.order.len() > REMEMBERED {
            let oldest = self.order.pop_front().expect("it is longer than nothing");
            self.aborted.remove(&oldest);
        }
    }

    /// Drops what comes for the steps of `master` from now on, and what has come: its task is lost,
    /// and with another life it would have another number.
    pub(crate) fn lose(&mut self, master: u64) {
        self.early.retain(|part, _| part.step.master != master);
        self.lost.insert(master);
    }

    /// A master orders something: it has only seemed to be lost.
    pub(crate) fn regain(&mut self, master: u64) {
        self.lost.remove(&master);
    }

    /// Whether `step` has been aborted before it began here.
    pub(crate) fn is_aborted(&self, step: StepId) -> bool {
        self.aborted.contains(&step) || self.lost.contains(&step.master)
    }

    /// The steps for which values wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (StepId, usize)> {
        self.early.iter().map(|(part, arrivals)| (part.step, arrivals.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::CrossingId;
    use smallvec::smallvec;

    const STEP: StepId = StepId { master: 1, number: 7 };
    const PART: StepPart = StepPart { step: STEP, device: 1 };

    #[test]
    fn values_that_come_before_their_step_wait_for_it_once() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)]);
        assert_eq!(rendezvous.take(PART).len(), 1);
        assert!(rendezvous.take(PART).is_empty());
    }

    #[test]
    fn values_of_an_aborted_step_are_dropped_before_and_after() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)]);
        rendezvous.abort(STEP);
        rendezvous.offer(PART, smallvec![(CrossingId(4), None)]);
        assert!(rendezvous.take(PART).is_empty());
        assert!(rendezvous.is_aborted(STEP));
    }

    #[test]
    fn values_for_steps_of_a_lost_master_are_dropped_until_it_is_back() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)]);
        rendezvous.lose(STEP.master);
        assert!(rendezvous.take(PART).is_empty() && rendezvous.is_aborted(STEP));
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)]);
        assert!(rendezvous.take(PART).is_empty());
        rendezvous.regain(STEP.master);
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)]);
        assert_eq!(rendezvous.take(PART).len(), 1);
    }

    #[test]
    fn memory_of_aborted_steps_is_bounded() {
        let mut rendezvous = Rendezvous::default();
        for number in 0..3 * REMEMBERED as u64 {
            rendezvous.abort(StepId { master: 1, number });
        }
        assert_eq!(rendezvous.aborted.len(), REMEMBERED);
    }
}
