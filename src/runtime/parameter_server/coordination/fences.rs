//! Fences, as operations that are answered.

use smallvec::smallvec;

use super::{Answers, Coordination};
use crate::graph::Replica;
use crate::runtime::error::{Code, Error};
use crate::runtime::state::{Served, StateValues, Ticket};
use crate::sync::{Membership, Version};

impl Coordination {
    /// Puts up a fence: all other workers stop between two steps.
    pub(crate) fn put_up_fence(
        &mut self,
        members: &Membership,
        replica: Replica,
        ticket: Ticket,
    ) -> Answers {
        let refuse = |error| smallvec![Served { ticket, outcome: Err(error) }];
        if let Err(error) = self.check(replica, Version::default()) {
            return refuse(error);
        }
        let effects = match self.coordinator.put_up_fence(members, replica.worker) {
            Ok(effects) => effects,
            Err(owner) => {
                let message =
                    format!("worker {owner} has a fence here; try again once it is lifted");
                return refuse(Error::new(Code::FailedPrecondition, message));
            }
        };
        let waiting = self.fence.replace((ticket, false)).filter(|(_, is_told)| !is_told);
        let mut answers: Answers =
            Self::taken_over(replica, ticket, waiting.map(|(ticket, _)| ticket)).collect();
        answers.extend(self.answer(effects));
        answers
    }

    /// Lifts a worker's fence.
    pub(crate) fn lift_fence(&mut self, replica: Replica, ticket: Ticket) -> Answers {
        let outcome = self.check(replica, Version::default());
        let lifted =
            if outcome.is_ok() { self.coordinator.lift_fence(replica.worker) } else { None };
        let outcome = match outcome {
            Ok(()) if lifted.is_none() => {
                let message = format!(
                    "the fence of worker {} is gone, for it seemed to be lost, or went on to \
                     train; what it has read since may be of different steps: put up another and \
                     read again",
                    replica.worker
                );
                Err(Error::new(Code::Aborted, message))
            }
            outcome => outcome.map(|()| StateValues::new()),
        };
        let mut answers: Answers = smallvec![Served { ticket, outcome }];
        answers.extend(self.answer(lifted.unwrap_or_default()));
        answers
    }

    /// Takes down the fence of `worker`, if it has one: it is missed, and others wait.
    pub(crate) fn take_down_fence(&mut self, worker: u32) -> Vec<Served> {
        let lifted = self.coordinator.lift_fence(worker);
        self.answer(lifted.unwrap_or_default())
    }

    /// `replica` makes ready to train, perhaps a step that it takes again. If it has to wait for a
    /// fence to be lifted, returns the answers that follow.
    pub(crate) fn hold_off(
        &mut self,
        members: &Membership,
        replica: Replica,
        is_again: bool,
    ) -> Option<Vec<Served>> {
        let is_of_it = replica.check_trains_with(&self.training).is_ok();
        if !is_of_it || !self.coordinator.holds_off(replica.worker, is_again) {
            return None;
        }
        let effects = self.coordinator.rest(members, replica.worker);
        Some(self.answer(effects))
    }

    pub(super) fn answer_fence(&mut self) -> Option<Served> {
        let (ticket, is_told) = self.fence.as_mut()?;
        let was_told = std::mem::replace(is_told, true);
        (!was_told).then(|| Served { ticket: *ticket, outcome: Ok(StateValues::new()) })
    }
}
