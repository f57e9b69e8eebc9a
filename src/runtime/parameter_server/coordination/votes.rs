//! Votes: the steps of workers whose gradients are on their way, and what becomes of them.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::LocalDevice;
    use crate::runtime::messages::{Origin, StepId};
    use crate::runtime::state::{Commit, VariableId};
    use crate::sync::Mode;
    use crate::tensor::Tensor;
    use crate::transport::PeerId;

    /// The vote of `worker`, one of two, which sets a variable of its own to `position`.
    fn vote(mode: Mode, worker: u32, position: i64) -> Commit {
        Commit {
            global_step: VariableId(0),
            replica: Replica { worker, workers: 2, mode },
            read: 0,
            version: Some(Version::default()),
            set: smallvec![(VariableId(1 + worker), Tensor::scalar(position))],
            taken: None,
        }
    }

    /// After the vote of each worker in turn: the number of answers, and what is set.
    fn votes(mode: Mode) -> [(usize, Vec<(u32, i64)>); 2] {
        let members = Membership::default();
        let mut coordination = Coordination::new(vote(mode, 0, 0).replica, &members, None);
        [0, 1].map(|worker| {
            let step = StepId { master: worker.into(), number: 0, trains: true };
            let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
            let position = 7 + i64::from(worker);
            let answers =
                coordination.commit(&members, ticket, 0, &vote(mode, worker, position), true).len();
            let set = coordination.take_set().into_iter();
            let set = set.map(|(variable, value)| (variable.0, value.item().unwrap()));
            (answers, set.collect())
        })
    }

    #[test]
    fn what_a_vote_sets_changes_with_the_verdict_and_not_while_the_vote_waits() {
        let waits = votes(Mode::KAsync { k: 2 });
        assert_eq!(waits, [(0, vec![]), (2, vec![(1, 7), (2, 8)])]);
    }

    #[test]
    fn a_vote_of_a_failed_step_sets_nothing_when_its_worker_is_lost() {
        let members = Membership::default();
        let commit = vote(Mode::KAsync { k: 2 }, 0, 7);
        let mut coordination = Coordination::new(commit.replica, &members, None);
        let step = StepId { master: 0, number: 0, trains: true };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        assert!(coordination.commit(&members, ticket, 0, &commit, true).is_empty(), "it waits");
        coordination.forget(step);
        coordination.answer_vote(0, None);
        assert!(coordination.take_set().is_empty());
    }

    /// The vote of `worker`, one of three, in the first step of the life with this `master`.
    fn vote_of_three(mode: Mode, worker: u32, master: u64) -> (Ticket, Commit) {
        let step = StepId { master, number: 0, trains: true };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        let origin = Origin { owner: None, training: 3, number: 0, is_again: false };
        let taken = Some(Taken { task: PeerId(worker), origin });
        let replica = Replica { worker, workers: 3, mode };
        (ticket, Commit { replica, taken, ..vote(mode, worker, 7) })
    }

    /// A training of three workers. A fence of worker 0 withholds the answers to the `voters`;
    /// worker 1 is lost, the fence is lifted, and worker 1 comes back.
    fn lost_behind_a_fence(mode: Mode, voters: &[u32]) -> (Coordination, Membership) {
        let mut members = Membership::default();
        let (owner, Commit { replica, .. }) = vote_of_three(mode, 0, 0);
        let mut coordination = Coordination::new(replica, &members, None);
        coordination.put_up_fence(&members, replica, owner);
        for worker in voters {
            let (ticket, commit) = vote_of_three(mode, *worker, u64::from(*worker));
            assert!(coordination.commit(&members, ticket, 0, &commit, true).is_empty(), "{mode}");
        }
        members.lose(Some(1), &[]);
        assert!(coordination.leave(&members, 1).is_empty(), "{mode}");
        let answers = coordination.lift_fence(replica, owner);
        assert_eq!(answers.len(), 1 + voters.len(), "{mode}");
        members.join(1, 3, 1, 0);
        coordination.rejoin(&members, 1);
        (coordination, members)
    }

    #[test]
    fn a_worker_that_was_lost_while_a_fence_withheld_its_place_is_not_given_it_again() {
        let mode = Mode::KAsync { k: 2 };
        let (mut coordination, members) = lost_behind_a_fence(mode, &[1, 2]);
        let (ticket, commit) = vote_of_three(mode, 1, 11);
        let answers = coordination.commit(&members, ticket, 1, &commit, true);
        assert!(answers.is_empty(), "its new life votes in the round under way");
    }

    #[test]
    fn a_withheld_place_that_has_gone_to_another_is_not_told_to_the_worker_that_was_lost() {
        let mode = Mode::KBatchAsync { k: 2 };
        let (mut coordination, members) = lost_behind_a_fence(mode, &[1]);
        for (worker, index) in [(2, 0), (1, 1)] {
            let (ticket, commit) = vote_of_three(mode, worker, u64::from(worker));
            assert_eq!(coordination.commit(&members, ticket, 0, &commit, true).len(), 1);
            assert_eq!(
                coordination.counted_votes[&worker].place,
                RoundPosition { round: 0, index }
            );
        }
    }

    #[test]
    fn a_step_that_has_counted_and_is_taken_again_after_later_rounds_keeps_its_place() {
        let (mode, members) = (Mode::Sync { backups: 2, cancel: true }, Membership::default());
        let (ticket, mut commit) = vote_of_three(mode, 1, 1);
        let mut coordination = Coordination::new(commit.replica, &members, None);
        assert_eq!(coordination.commit(&members, ticket, 0, &commit, true).len(), 1);
        let place = coordination.counted_votes[&1].place;
        coordination.forget(ticket.step);
        let of = |updates| Version { epoch: members.epoch(), updates };
        let (other, vote) = vote_of_three(mode, 0, 0);
        let vote = Commit { version: Some(of(1)), ..vote };
        assert_eq!(coordination.commit(&members, other, 1, &vote, true).len(), 1);
        let version = of(2);
        commit.version = Some(version);
        let (replica, taken) = (commit.replica, commit.taken);
        let begin = Begin { global_step: VariableId(0), replica, version, taken };
        let answers = coordination.begin(&members, ticket, &begin);
        assert!(answers.len() == 1 && answers[0].outcome.is_ok(), "it can't be stopped");
        assert_eq!(coordination.commit(&members, ticket, 2, &commit, true).len(), 1);
        assert_eq!(coordination.counted_votes[&1].place, place);
        assert_eq!(coordination.round().map(|round| round.updates), Some(2), "no round closes");
    }

    /// What `worker` is told as it begins and ends a step from the version of that number: the
    /// errors of any step.
    fn step(coordination: &mut Coordination, worker: u32, updates: u64, ends: bool) -> Vec<Code> {
        let (members, mode) = (Membership::default(), Mode::Sync { backups: 1, cancel: true });
        let version = Version { epoch: members.epoch(), updates };
        let step = StepId { master: worker.into(), number: updates, trains: true };
        let ticket = |node| Ticket { step, device: LocalDevice::cpu(0), node };
        let replica = Replica { worker, workers: 3, mode };
        let begin = Begin { global_step: VariableId(0), replica, version, taken: None };
        let mut answers = coordination.begin(&members, ticket(0), &begin);
        if ends {
            let commit = Commit { replica, version: Some(version), ..vote(mode, worker, 0) };
            answers.extend(coordination.commit(&members, ticket(1), 0, &commit, true));
        }
        answers.into_iter().filter_map(|answer| Some(answer.outcome.err()?.code)).collect()
    }

    #[test]
    fn a_chief_that_is_late_for_every_round_ends_a_step_now_and_then() {
        let mode = Mode::Sync { backups: 1, cancel: true };
        let replica = Replica { worker: 0, workers: 3, mode };
        let mut coordination = Coordination::new(replica, &Membership::default(), None);
        let mut rounds = 0..;
        for _ in 0..2 {
            let mut stops = 0;
            loop {
                let round = rounds.next().unwrap();
                let mut answers = step(&mut coordination, 0, round, false);
                for other in [1, 2] {
                    answers.extend(step(&mut coordination, other, round, true));
                }
                if answers.is_empty() {
                    break;
                }
                assert_eq!(answers, [Code::Late]);
                stops += 1;
            }
            assert_eq!(stops, MOST_STOPS);
            assert!(step(&mut coordination, 0, 0, true).is_empty(), "its vote is dropped");
        }
    }

    #[test]
    fn a_vote_that_is_dropped_sets_its_values_since_its_worker_goes_on_behind_the_step() {
        let late = votes(Mode::Sync { backups: 1, cancel: false });
        assert_eq!(late, [(1, vec![(1, 7)]), (1, vec![(2, 8)])]);
    }
}
