//! The rendezvous of values from other devices with the steps that wait for them.
//!
//! Values are pushed, so they can arrive before the order to run their step. They are kept for it.
//! Values of a step that has been aborted are dropped: the last such steps are remembered for that
//! purpose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::runtime::error::Error;
use crate::runtime::messages::{AllReceived, Received, StepId, StepPart};

/// The number of aborted steps, and of lost masters, that are remembered: values that come for them
/// were on the way at the time.
const REMEMBERED: usize = 1024;

/// The most parts of steps for which values are kept before their order to run.
const MAX_EARLY: usize = 1 << 16;

/// Values that came before the order to run their step.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    early: BTreeMap<StepPart, Vec<Received>>,
    /// Parts that have lost values which came before their order to run, and the reason.
    refused: BTreeMap<StepPart, Error>,
    aborted: Latest<StepId>,
    /// Masters that are lost: none of their steps begins or goes on.
    lost: Latest<u64>,
}

/// A set of the latest values put into it.
#[derive(Debug)]
struct Latest<T> {
    all: BTreeSet<T>,
    /// The same values, oldest first.
    order: VecDeque<T>,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), order: VecDeque::new() }
    }
}

impl<T: Copy + Ord> Latest<T> {
    fn insert(&mut self, one: T) {
        if self.all.insert(one) {
            self.order.push_back(one);
        }
        if self.order.len() > REMEMBERED {
            let oldest = self.order.pop_front().expect("it is longer than nothing");
            self.all.remove(&oldest);
        }
    }

    fn remove(&mut self, one: T) {
        if self.all.remove(&one) {
            self.order.retain(|other| *other != one);
        }
    }
}

impl Rendezvous {
    /// Keeps values for a part of a step that has not begun; drops them if the step has been
    /// aborted. False, with nothing kept, if the part takes no more than `room` values, or too many
    /// parts wait already.
    pub(crate) fn offer(&mut self, part: StepPart, arrivals: AllReceived, room: usize) -> bool {
        if self.is_aborted(part.step) || arrivals.is_empty() {
            return true;
        }
        if self.early.len() >= MAX_EARLY && !self.early.contains_key(&part) {
            return false;
        }
        let kept = self.early.entry(part).or_default();
        let has_room = kept.len() + arrivals.len() <= room;
        if has_room {
            kept.extend(arrivals);
        }
        has_room
    }

    /// Notes that values for a part of a step that has not begun could not be kept. False if it
    /// can't: then the step will wait for them.
    pub(crate) fn refuse(&mut self, part: StepPart, error: Error) -> bool {
        if self.is_aborted(part.step) {
            return true;
        }
        let has_room = self.refused.len() < MAX_EARLY;
        if has_room {
            self.refused.entry(part).or_insert(error);
        }
        has_room
    }

    /// The reason why values for a part of a step that begins now were not kept, if any were not.
    pub(crate) fn refusal(&mut self, part: StepPart) -> Option<Error> {
        self.refused.remove(&part)
    }

    /// Takes out the values for a part of a step that begins now.
    pub(crate) fn take(&mut self, part: StepPart) -> Vec<Received> {
        self.early.remove(&part).unwrap_or_default()
    }

    /// Drops the values for `step`: those that have come, and those that will.
    pub(crate) fn abort(&mut self, step: StepId) {
        self.early.retain(|part, _| part.step != step);
        self.refused.retain(|part, _| part.step != step);
        self.aborted.insert(step);
    }

    /// Drops the values for the steps of `master`, those that have come and those that will: its
    /// task is lost, and in another life it would have another number.
    pub(crate) fn lose(&mut self, master: u64) {
        self.early.retain(|part, _| part.step.master != master);
        self.refused.retain(|part, _| part.step.master != master);
        self.lost.insert(master);
    }

    /// `master` orders something, so it only seemed to be lost.
    pub(crate) fn regain(&mut self, master: u64) {
        self.lost.remove(master);
    }

    /// Whether `step` has been aborted before it began here.
    pub(crate) fn is_aborted(&self, step: StepId) -> bool {
        self.aborted.all.contains(&step) || self.lost.all.contains(&step.master)
    }

    /// The steps for which values wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (StepId, usize)> {
        self.early.iter().map(|(part, arrivals)| (part.step, arrivals.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::LocalDevice;
    use crate::partition::CrossingId;
    use crate::runtime::error::Code;
    use smallvec::smallvec;

    const STEP: StepId = StepId { master: 1, number: 7, trains: true };
    const PART: StepPart = StepPart { step: STEP, device: LocalDevice::cpu(1) };

    #[test]
    fn values_that_come_before_their_step_wait_for_it_once() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 1);
        assert_eq!(rendezvous.take(PART).len(), 1);
        assert!(rendezvous.take(PART).is_empty());
    }

    #[test]
    fn a_part_of_a_step_keeps_no_more_values_than_it_receives() {
        let mut rendezvous = Rendezvous::default();
        assert!(rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 2));
        assert!(rendezvous.offer(PART, smallvec![(CrossingId(4), None)], 2));
        assert!(!rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 2));
        assert_eq!(rendezvous.take(PART).len(), 2);
    }

    #[test]
    fn values_of_an_aborted_step_are_dropped_before_and_after() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 1);
        rendezvous.abort(STEP);
        rendezvous.offer(PART, smallvec![(CrossingId(4), None)], 1);
        assert!(rendezvous.take(PART).is_empty());
        assert!(rendezvous.is_aborted(STEP));
    }

    #[test]
    fn the_refusal_of_an_early_value_waits_for_its_step_until_that_is_aborted() {
        let mut rendezvous = Rendezvous::default();
        let refused = || Error::new(Code::ResourceExhausted, "too large");
        rendezvous.refuse(PART, refused());
        assert_eq!((rendezvous.refusal(PART), rendezvous.refusal(PART)), (Some(refused()), None));
        rendezvous.refuse(PART, refused());
        rendezvous.abort(STEP);
        rendezvous.refuse(PART, refused());
        assert_eq!(rendezvous.refusal(PART), None);
    }

    #[test]
    fn values_for_steps_of_a_lost_master_are_dropped_until_it_is_back() {
        let mut rendezvous = Rendezvous::default();
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 1);
        rendezvous.lose(STEP.master);
        assert!(rendezvous.take(PART).is_empty() && rendezvous.is_aborted(STEP));
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 1);
        assert!(rendezvous.take(PART).is_empty());
        rendezvous.regain(STEP.master);
        rendezvous.offer(PART, smallvec![(CrossingId(3), None)], 1);
        assert_eq!(rendezvous.take(PART).len(), 1);
    }

    #[test]
    fn memory_of_aborted_steps_and_of_lost_masters_is_bounded() {
        let mut rendezvous = Rendezvous::default();
        for number in 0..3 * REMEMBERED as u64 {
            rendezvous.abort(StepId { number, ..STEP });
            rendezvous.lose(number);
        }
        assert_eq!(rendezvous.aborted.all.len(), REMEMBERED);
        assert_eq!(
            (rendezvous.lost.all.len(), rendezvous.lost.order.len()),
            (REMEMBERED, REMEMBERED)
        );
        assert!(rendezvous.is_aborted(StepId { master: 3 * REMEMBERED as u64 - 1, ..STEP }));
    }
}
