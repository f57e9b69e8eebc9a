//! Votes: the steps of workers whose gradients are on their way, and what becomes of them.

use smallvec::smallvec;

use super::{Answers, Coordination, outputs};
use crate::graph::Replica;
use crate::planted::{self, Bug};
use crate::runtime::codec::verdict_to_tensor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::state::{Begin, Served, StateValues, Taken, Ticket};
use crate::sync::{Contribution, Counted, Membership, Place, Verdict, Version};

/// A worker's vote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vote {
    pub(super) ticket: Ticket,
    /// The least version of a variable that its gradients were computed from.
    pub(super) version: Version,
    /// The global step that its step began at.
    pub(super) read: i64,
    pub(super) taken: Option<Taken>,
    /// Whether the step has failed or its worker was lost: the gradient may not have come to every
    /// variable.
    pub(super) has_failed: bool,
}

/// A vote that counts, with its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) vote: Vote,
    pub(super) place: Place,
    pub(super) counted: Counted,
    /// Whether the worker was lost since: variables no longer wait for its gradient.
    pub(super) is_lost: bool,
}

impl Coordination {
    /// Takes the beginning of a worker's step, which is answered with its end. It comes before the
    /// step's vote, which waits for the same versions and follows it in the graph.
    pub(crate) fn begin(&mut self, members: &Membership, ticket: Ticket, begin: &Begin) -> Answers {
        let Begin { replica, version, .. } = *begin;
        if let Err(error) = self.check(replica, version) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        let before = self.begun.insert(replica.worker, ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        let effects =
            self.coordinator.begin(members, Contribution { worker: replica.worker, version });
        answers.extend(self.answer(effects));
        answers
    }

    /// Takes a vote: decides what becomes of its gradients, at once or later.
    pub(super) fn vote(&mut self, members: &Membership, replica: Replica, vote: Vote) -> Answers {
        let (ticket, version, worker) = (vote.ticket, vote.version, replica.worker);
        let is_again = || self.told.get(&worker).is_some_and(|told| told.vote.has_failed);
        if planted::is_in(Bug::LosesVotes) && is_again() {
            return Answers::new();
        }
        if self.coordinator.is_current(version) {
            // All variables have had as many updates.
            self.closed.retain(|round, _| *round >= version.updates);
        }
        if let Some(told) = self.told_before(members, worker, &vote) {
            self.told.insert(worker, Told { vote, ..told });
            let mut answers: Answers = smallvec![self.tell(ticket, Some(told.place), told.counted)];
            answers.extend(self.end_begun(worker, Ok(StateValues::new())));
            return answers;
        }
        let before = self.votes.insert(worker, vote).map(|vote| vote.ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        let effects = self.coordinator.vote(members, Contribution { worker, version });
        answers.extend(self.answer(effects));
        answers
    }

    /// The answer that the worker's vote was given before, if it must not be decided anew. A step
    /// that is taken again does not count twice. If the earlier step has failed, or the worker has
    /// restarted, the worker keeps its place, since variables may wait for its gradient there.
    fn told_before(&self, members: &Membership, worker: u32, vote: &Vote) -> Option<Told> {
        let told = *self.told.get(&worker).filter(|_| !members.is_over())?;
        let has_restarted = told.vote.ticket.step.master != vote.ticket.step.master;
        let is_same = |taken: Taken| told.vote.taken.is_some_and(|before| before.is_same(taken));
        let is_taken_again = !has_restarted && vote.taken.is_some_and(is_same);
        let is_done = is_taken_again && !self.coordinator.takes_steps_again();
        let is_awaited = (told.vote.has_failed || has_restarted || is_taken_again)
            && !told.is_lost
            && self.coordinator.is_current(vote.version)
            && told.place.round >= vote.version.updates;
        (is_done || is_awaited).then_some(told)
    }

    /// The answer to the beginning of the worker's step, if it waits for one.
    pub(super) fn end_begun(
        &mut self,
        worker: u32,
        outcome: Result<StateValues>,
    ) -> Option<Served> {
        self.begun.remove(&worker).map(|ticket| Served { ticket, outcome })
    }

    pub(super) fn answer_vote(&mut self, worker: u32, place: Option<Place>) -> Option<Served> {
        let vote = self.votes.remove(&worker)?;
        let Some(place) = place else {
            let counted = Counted::dropped(self.global_step, vote.read);
            return Some(self.tell(vote.ticket, None, counted));
        };
        let staleness = place.round.saturating_sub(vote.version.updates) as i64;
        let global_step = self.global_step;
        let counted = Counted { global_step, staleness, applied: true, is_ahead: false };
        self.told.insert(worker, Told { vote, place, counted, is_lost: false });
        Some(self.tell(vote.ticket, Some(place), counted))
    }

    fn tell(&self, ticket: Ticket, place: Option<Place>, counted: Counted) -> Served {
        let closed = self
            .closed
            .iter()
            .map(|(round, contributors)| (*round, contributors.clone()))
            .collect();
        let verdict = Verdict { epoch: self.coordinator.epoch(), place, closed };
        let mut values = outputs(counted);
        values.push(verdict_to_tensor(&verdict));
        Served { ticket, outcome: Ok(values) }
    }
}

/// The error of a step that is stopped because its round has closed without it.
pub(super) fn late(worker: u32) -> Error {
    let message = format!(
        "the step of worker {worker} is too late: its round has closed without it; take it again, \
         from the variables as they are now"
    );
    Error::new(Code::Late, message)
}
