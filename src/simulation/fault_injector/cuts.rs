//! The ways between tasks that partitions cut: since when, until when, and when that is noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::Time;

/// A sender and a receiver.
pub(super) type CutDirection = (usize, usize);

/// The ways that are cut at present.
#[derive(Default)]
pub(super) struct Cuts(BTreeMap<CutDirection, Cut>);

/// The time for which a way is cut, by one partition or by several that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    since: Time,
    until: Time,
}

impl Cuts {
    /// The cut of `direction`, if it is cut.
    pub(super) fn get(&self, direction: CutDirection) -> Option<Cut> {
        self.0.get(&direction).copied()
    }

    /// Another partition cuts `direction`, from `now` until `until`.
    pub(super) fn extend(&mut self, direction: CutDirection, now: Time, until: Time) {
        let cut = self.0.entry(direction).or_insert(Cut { since: now, until });
        cut.until = cut.until.max(until);
    }

    /// The last partition that cut `direction` has ended.
    pub(super) fn end(&mut self, direction: CutDirection) {
        self.0.remove(&direction);
    }
}

impl Cut {
    /// When the receiver notices: at the limit of `silence`, if the cut lasts longer.
    pub(super) fn receiver_notices(self, silence: Duration) -> Option<Time> {
        let limit = self.since.after(silence);
        (self.until > limit).then_some(limit)
    }

    /// When a sender notices that does not hear the receiver give up, by a cut of the other way:
    /// when that has been silent as long. Once packets get through again, they are answered with a
    /// reset.
    pub(super) fn sender_notices(self, silence: Duration) -> Option<Time> {
        let limit = self.receiver_notices(silence)?;
        Some(self.until.min(limit.after(silence)))
    }
}
