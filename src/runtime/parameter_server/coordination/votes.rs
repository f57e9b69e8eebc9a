//! Votes: the steps of workers whose gradients are on their way, and what becomes of them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use smallvec::smallvec;

use super::{Answers, Coordination, outputs};
use crate::graph::Replica;
use crate::planted::{self, Bug};
use crate::runtime::codec::verdict_to_tensor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::state::{Begin, Served, SetValues, StateValues, Taken, Ticket};
use crate::sync::{Contribution, Counted, Membership, RoundPosition, Verdict, Version};

/// How often the chief is stopped, one time after the other, before it ends a step in any case.
const MOST_STOPS: u32 = 32;

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
    /// The round under way when its worker left or was lost, if a fence withheld the answer.
    pub(super) lost_in: Option<u64>,
}

/// A vote that counts, with its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedVote {
    pub(super) vote: Vote,
    pub(super) place: RoundPosition,
    pub(super) counted: Counted,
    /// Whether the worker was lost since its vote: variables no longer wait for its gradient.
    pub(super) is_lost: bool,
}

/// What votes set. Before the verdict the step has not ended: a checkpoint that is written
/// meanwhile has the values as they were.
#[derive(Default)]
pub(super) struct Sets {
    /// By worker whose vote has no verdict yet.
    held: BTreeMap<u32, SetValues>,
    due: SetValues,
}

impl Sets {
    pub(super) fn hold(&mut self, worker: u32, set: SetValues) {
        self.held.insert(worker, set);
    }

    /// The worker's step has failed: it, or its next life, takes the step again.
    fn forget(&mut self, worker: u32) {
        self.held.remove(&worker);
    }

    fn release(&mut self, worker: u32) {
        self.due.extend(self.held.remove(&worker).unwrap_or_default());
    }
}

impl Coordination {
    /// What the votes set that have had their verdict since the last call.
    pub(crate) fn take_set(&mut self) -> SetValues {
        std::mem::take(&mut self.sets.due)
    }

    /// Takes the beginning of a worker's step, which is answered with its end. It comes before the
    /// step's vote, which waits for the same versions and follows it in the graph.
    ///
    /// After many stops a step of the chief is answered at once, so that it is not stopped: the
    /// chief saves, evaluates and ends the training between two of its steps. So is one that has
    /// counted: stopped, it would begin anew as another step.
    pub(crate) fn begin(&mut self, members: &Membership, ticket: Ticket, begin: &Begin) -> Answers {
        let Begin { replica, version, taken, .. } = *begin;
        if let Err(error) = self.check(replica, version) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        if self.earlier_attempt(replica.worker, ticket, taken).is_some() {
            return smallvec![Served { ticket, outcome: Ok(StateValues::new()) }];
        }
        let before = self.begun.insert(replica.worker, ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        let effects =
            self.coordinator.begin(members, Contribution { worker: replica.worker, version });
        answers.extend(self.answer(effects));
        if replica.worker == 0 && self.chief_stops >= MOST_STOPS {
            answers.extend(self.end_begun(0, Ok(StateValues::new())));
        }
        answers
    }

    /// Takes a vote: decides what becomes of its gradients, at once or later.
    pub(super) fn vote(&mut self, members: &Membership, replica: Replica, vote: Vote) -> Answers {
        let (ticket, version, worker) = (vote.ticket, vote.version, replica.worker);
        if worker == 0 {
            self.chief_stops = 0;
        }
        let is_again =
            || self.counted_votes.get(&worker).is_some_and(|before| before.vote.has_failed);
        if planted::is_in(Bug::LosesVotes) && is_again() {
            return Answers::new();
        }
        if self.coordinator.is_current(version) {
            // All variables have had as many updates.
            self.closed.retain(|round, _| *round >= version.updates);
        }
        if let Some(before) = self.counted_before(worker, &vote) {
            self.counted_votes.insert(worker, CountedVote { vote, ..before });
            self.sets.release(worker);
            // Unless the variables have yet to make the round, and take this gradient for it.
            let is_earlier = before.place.round < version.updates;
            let counted = Counted { is_earlier, ..before.counted };
            let mut answers: Answers = smallvec![self.tell(ticket, Some(before.place), counted)];
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
    fn counted_before(&self, worker: u32, vote: &Vote) -> Option<CountedVote> {
        if let Some(before) = self.earlier_attempt(worker, vote.ticket, vote.taken) {
            return Some(before);
        }
        let before = *self.counted_votes.get(&worker)?;
        let has_restarted = before.vote.ticket.step.master != vote.ticket.step.master;
        let is_awaited = (before.vote.has_failed || has_restarted)
            && !before.is_lost
            && self.coordinator.is_current(vote.version)
            && before.place.round >= vote.version.updates;
        is_awaited.then_some(before)
    }

    /// The worker's vote that counts, if it is of an earlier attempt at the step `taken`.
    fn earlier_attempt(
        &self,
        worker: u32,
        ticket: Ticket,
        taken: Option<Taken>,
    ) -> Option<CountedVote> {
        let before = *self.counted_votes.get(&worker)?;
        let is_of_life = before.vote.ticket.step.master == ticket.step.master;
        let is_same = before.vote.taken.zip(taken).is_some_and(|(one, other)| one.is_same(other));
        (is_of_life && is_same && !planted::is_in(Bug::CountsAgain)).then_some(before)
    }

    /// The answer to the beginning of the worker's step, if it waits for one.
    pub(super) fn end_begun(
        &mut self,
        worker: u32,
        outcome: Result<StateValues>,
    ) -> Option<Served> {
        self.begun.remove(&worker).map(|ticket| Served { ticket, outcome })
    }

    pub(super) fn answer_vote(
        &mut self,
        worker: u32,
        place: Option<RoundPosition>,
    ) -> Option<Served> {
        let vote = self.votes.remove(&worker)?;
        // Also if it is dropped: the worker ends the step and goes on behind it, unless the step
        // has failed.
        match place {
            None if vote.has_failed => self.sets.forget(worker),
            _ => self.sets.release(worker),
        }
        let Some(place) = place else {
            let counted = Counted::dropped(self.global_step, vote.read);
            return Some(self.tell(vote.ticket, None, counted));
        };
        let staleness = place.round.saturating_sub(vote.version.updates) as i64;
        let global_step = self.global_step;
        let (is_ahead, is_earlier) = (false, false);
        let counted = Counted { global_step, staleness, applied: true, is_ahead, is_earlier };
        // In a K-batch round that was under way, a lost worker's place is another's.
        if vote.lost_in != Some(place.round) {
            let is_lost = vote.lost_in.is_some();
            self.counted_votes.insert(worker, CountedVote { vote, place, counted, is_lost });
        }
        Some(self.tell(vote.ticket, Some(place), counted))
    }

    /// Notes that `worker` has left or is lost.
    pub(super) fn note_departure(&mut self, members: &Membership, worker: u32) {
        let open = self.coordinator.round().map(|round| round.updates);
        if let Some(vote) = self.votes.get_mut(&worker) {
            vote.lost_in = open;
        }
        // A place in a round that has closed stays the worker's: its gradient may be in variables.
        let keeps =
            |before: &CountedVote| !members.has_left(worker) && open != Some(before.place.round);
        match self.counted_votes.get_mut(&worker).filter(|before| keeps(before)) {
            Some(before) => before.is_lost = true,
            None => drop(self.counted_votes.remove(&worker)),
        }
    }

    fn tell(&self, ticket: Ticket, place: Option<RoundPosition>, counted: Counted) -> Served {
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
