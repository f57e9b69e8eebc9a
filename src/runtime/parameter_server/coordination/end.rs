//! The end of a training at the task that counts its steps.

use super::Coordination;
use crate::runtime::state::Served;
use crate::sync::Membership;

impl Coordination {
    /// The workers that wait for the answer to a step.
    pub(crate) fn waiting_workers(&self) -> impl Iterator<Item = u32> {
        self.votes.keys().chain(self.commits.keys()).copied()
    }

    /// Ends the training of `members`: answers those who wait for others. A fence stays, with those
    /// whom it holds.
    pub(crate) fn finish(&mut self, members: &Membership) -> Vec<Served> {
        let mut served = self.go_on();
        let effects = self.coordinator.finish(members);
        served.extend(self.answer(effects));
        served
    }
}
