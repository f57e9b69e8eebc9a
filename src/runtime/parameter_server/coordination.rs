//! The end of each worker's step at the task that holds the global step.
//!
//! Adapts [`Coordinator`], which decides who counts and who waits, to the operations `BeginStep`,
//! `CommitStep`, `Fence`, `LiftFence` and `AwaitDepartures`, which are answered.

mod departures;
mod end;
mod fences;
mod refusals;
mod resting;
mod votes;

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::graph::Replica;
use crate::sync::{Contributors, Coordinator, Counted, Effect, Ended, Membership, Version, Views};
use crate::tensor::Tensor;

use crate::runtime::error::Result;
use crate::runtime::messages::StepId;
use crate::runtime::parameter_server::done::Done;
use crate::runtime::state::{Commit, Served, StateValues, Ticket};

pub(super) use refusals::{check_round, taken_over, two_operations};
use resting::Resting;
use votes::{CountedVote, Sets, Vote, late};

/// One training's coordination, in one epoch.
pub(super) struct Coordination {
    coordinator: Coordinator,
    /// One of the training's replicas.
    training: Replica,
    /// The number of gradients in a round when a worker last left or came back; 0 without rounds.
    round_size: usize,
    /// The global step.
    global_step: i64,
    /// The steps that have been counted since they were last asked for.
    steps: i64,
    /// By worker that is stopped if it is late: the beginning of its step.
    begun: BTreeMap<u32, Ticket>,
    /// The number of times that the chief has been stopped since it last ended a step.
    chief_stops: u32,
    votes: BTreeMap<u32, Vote>,
    sets: Sets,
    commits: BTreeMap<u32, (Ticket, StateValues)>,
    /// The workers of a barrier that are held while another one is to be let in.
    resting: Resting,
    /// The last request for a fence, and whether it has been answered that the fence is up.
    fence: Option<(Ticket, bool)>,
    /// The requests of workers that wait for the others to leave, by worker.
    departures: BTreeMap<u32, Ticket>,
    /// By worker: the last of its votes that counts.
    counted_votes: BTreeMap<u32, CountedVote>,
    /// The contributors of those closed rounds that a variable may still wait for.
    closed: BTreeMap<u64, Contributors>,
    /// In a mode without votes, the answer to the last step of each training.
    committed: Done<Counted>,
}

/// The answers that follow from an operation, most often just its own.
type Answers = SmallVec<[Served; 1]>;

/// The values that answer a worker's step. Those of an earlier attempt have a staleness below 0:
/// -1 instead of 0, -2 instead of 1.
fn outputs(counted: Counted) -> StateValues {
    let Counted { staleness, is_earlier, .. } = counted;
    smallvec![
        Tensor::scalar(counted.global_step),
        Tensor::scalar(if is_earlier { !staleness } else { staleness }),
        Tensor::scalar(counted.applied)
    ]
}

impl Coordination {
    /// The coordination of the training of `replica`, in the current epoch of `members`, with the
    /// `views` of its rounds.
    pub(super) fn new(replica: Replica, members: &Membership, views: Option<&Views>) -> Self {
        let mut coordinator = Coordinator::new(replica.mode, replica.workers, members);
        let out = views.into_iter().flat_map(Views::out);
        out.for_each(|worker| coordinator.keep_out(members, worker));
        Self {
            round_size: coordinator.round_size(members).unwrap_or(0),
            coordinator,
            training: replica,
            global_step: 0,
            steps: 0,
            begun: BTreeMap::new(),
            chief_stops: 0,
            votes: BTreeMap::new(),
            sets: Sets::default(),
            commits: BTreeMap::new(),
            resting: Resting::default(),
            fence: None,
            departures: BTreeMap::new(),
            counted_votes: BTreeMap::new(),
            closed: BTreeMap::new(),
            committed: Done::default(),
        }
    }

    /// Takes the end of a worker's step at the global step `now`: its updates have been applied or,
    /// if the worker votes, are on their way. Rounds behind a barrier may wait for others, too
    /// (`has_others`).
    pub(super) fn commit(
        &mut self,
        members: &Membership,
        ticket: Ticket,
        now: i64,
        commit: &Commit,
        has_others: bool,
    ) -> Answers {
        self.global_step = now;
        if let Err(error) = self.check(commit.replica, commit.version.unwrap_or_default()) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        match commit.version {
            Some(version) => {
                let (read, taken) = (commit.read, commit.taken);
                let (has_failed, lost_in) = (false, None);
                let vote = Vote { ticket, version, read, taken, has_failed, lost_in };
                self.sets.hold(commit.replica.worker, commit.set.clone());
                self.vote(members, commit.replica, vote)
            }
            None => self.count(members, commit, ticket, has_others),
        }
    }

    /// The steps that have been counted since the last call.
    pub(super) fn take_steps(&mut self) -> i64 {
        std::mem::take(&mut self.steps)
    }

    /// Counts a step whose updates have been applied, and holds its worker as the mode does. A step
    /// that is taken again has been counted before.
    fn count(
        &mut self,
        members: &Membership,
        commit: &Commit,
        ticket: Ticket,
        has_others: bool,
    ) -> Answers {
        let Commit { replica, taken, .. } = *commit;
        if let Some(before) = taken.and_then(|taken| self.committed.done(ticket, taken)) {
            return self.answer_again(replica, ticket, before);
        }
        let before = self.global_step;
        let step = Ended {
            worker: replica.worker,
            master: ticket.step.master,
            is_again: commit.taken.is_some_and(|taken| taken.origin.is_again),
            has_others,
            read: commit.read,
        };
        let counted = self.coordinator.count(members, &mut self.global_step, &step);
        self.steps += self.global_step.saturating_sub(before);
        if counted.is_ahead {
            self.resting.ended_ahead(self.global_step);
        }
        if let Some(taken) = taken {
            self.committed.note(ticket, taken, counted);
        }
        let rests = self.resting.holds(self.global_step);
        if !rests && self.coordinator.releases_at_once(members) && self.commits.is_empty() {
            return smallvec![Served { ticket, outcome: Ok(outputs(counted)) }];
        }
        let before = self.commits.get(&replica.worker).map(|(ticket, _)| *ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        self.commits.insert(replica.worker, (ticket, outputs(counted)));
        let effects = self.coordinator.commit(members, replica.worker);
        let effects = self.resting.keep(self.global_step, effects);
        answers.extend(self.answer(effects));
        answers
    }

    /// Answers a step that was counted before: with the release of its worker if that is still
    /// held, so that no worker escapes by taking a step again.
    fn answer_again(&mut self, replica: Replica, ticket: Ticket, counted: Counted) -> Answers {
        let told = outputs(Counted { is_earlier: true, ..counted });
        let Some(held) = self.commits.get_mut(&replica.worker) else {
            return smallvec![Served { ticket, outcome: Ok(told) }];
        };
        let (before, _) = std::mem::replace(held, (ticket, told));
        Self::taken_over(replica, ticket, Some(before)).collect()
    }

    /// Has the workers of a barrier rest between two steps, from the next round on that nobody has
    /// ended at the global step `now`.
    pub(super) fn rest(&mut self, now: i64) {
        if self.coordinator.is_barrier() {
            self.resting.begin(now);
        }
    }

    /// Lets the workers that rest go on.
    pub(super) fn go_on(&mut self) -> Vec<Served> {
        let held = self.resting.end();
        self.answer(held)
    }

    /// The round under way, if workers vote.
    pub(super) fn round(&self) -> Option<Version> {
        self.coordinator.round()
    }

    /// Whether `worker` is held between two steps.
    pub(super) fn is_at_rest(&self, worker: u32) -> bool {
        self.commits.contains_key(&worker)
    }

    /// Forgets a step that has failed, and takes down its fence.
    pub(super) fn forget(&mut self, step: StepId) -> Vec<Served> {
        let counted = self.counted_votes.values_mut().map(|counted| &mut counted.vote);
        for vote in self.votes.values_mut().chain(counted) {
            vote.has_failed |= vote.ticket.step == step;
        }
        self.begun.retain(|_, ticket| ticket.step != step);
        self.departures.retain(|_, ticket| ticket.step != step);
        let is_forgotten = self.fence.is_some_and(|(ticket, _)| ticket.step == step);
        let owner = self.coordinator.fence_owner().filter(|_| is_forgotten);
        let lifted = owner.and_then(|owner| self.coordinator.lift_fence(owner));
        self.answer(lifted.unwrap_or_default())
    }

    /// Stops waiting for `worker`.
    pub(super) fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Served> {
        self.note_departure(members, worker);
        let effects = self.coordinator.leave(members, worker);
        let now = self.coordinator.round_size(members).unwrap_or(0);
        let before = std::mem::replace(&mut self.round_size, now);
        if now < before && !members.is_over() {
            let mode = self.training.mode;
            tracing::info!(
                worker, %mode, before, now,
                "fewer gradients make an update, as a worker is gone"
            );
        }
        let mut served = self.answer(effects);
        served.extend(self.end_departures(members, worker));
        served
    }

    /// Waits for `worker` again.
    pub(super) fn rejoin(&mut self, members: &Membership, worker: u32) {
        self.coordinator.rejoin(worker);
        self.round_size = self.coordinator.round_size(members).unwrap_or(0);
    }

    /// The operations that wait for others.
    pub(super) fn waiting(self) -> impl Iterator<Item = Ticket> {
        let commits = self.commits.into_values().map(|(ticket, _)| ticket);
        let fence = self.fence.filter(|(_, is_told)| !is_told).map(|(ticket, _)| ticket);
        let votes = self.votes.into_values().map(|vote| vote.ticket);
        let departures = self.departures.into_values();
        self.begun.into_values().chain(votes).chain(commits).chain(fence).chain(departures)
    }

    /// Checks that `replica` is of this training, and `version` a version of its variables.
    fn check(&self, replica: Replica, version: Version) -> Result<()> {
        let round = self.coordinator.round().filter(|_| self.coordinator.is_current(version));
        let round = round.map(|round| round.updates);
        check_round(replica, &self.training, version.updates, round, "the variables")
    }

    /// The answer to an operation of a worker that has restarted, or has given up that step.
    fn taken_over(
        replica: Replica,
        newer: Ticket,
        older: Option<Ticket>,
    ) -> impl Iterator<Item = Served> {
        let answer = move |older: Ticket| {
            let error = taken_over(replica, newer, older);
            Served { ticket: older, outcome: Err(error) }
        };
        older.map(answer).into_iter()
    }

    /// The workers that the waiting ones wait for.
    pub(super) fn awaited(&self, members: &Membership) -> Vec<u32> {
        match self.coordinator.fence_owner() {
            _ if self.votes.is_empty() && self.commits.is_empty() && self.fence.is_none() => {
                Vec::new()
            }
            None => self.coordinator.waiting_for(members),
            Some(owner) if self.is_fence_told() => vec![owner],
            Some(_) => self.coordinator.fence_waits_for(members),
        }
    }

    /// The things that the waiting workers wait for.
    pub(super) fn waiting_for(&self, members: &Membership) -> Vec<String> {
        let owner = self.coordinator.fence_owner();
        let told = |worker| match owner {
            None => format!("the step of worker {worker}"),
            Some(owner) if self.is_fence_told() => format!("worker {owner} to lift its fence"),
            Some(owner) => {
                format!("the step of worker {worker}, to put up the fence of worker {owner}")
            }
        };
        let departure = |worker| format!("worker {worker} to leave the training");
        let departures = self.awaited_departures(members).into_iter().map(departure);
        self.awaited(members).into_iter().map(told).chain(departures).collect()
    }

    /// Whether a fence is up, and its owner knows.
    fn is_fence_told(&self) -> bool {
        self.fence.is_some_and(|(_, is_told)| is_told)
    }

    /// The answers in `effects`.
    fn answer(&mut self, effects: Vec<Effect>) -> Vec<Served> {
        let mut served = Vec::new();
        for effect in effects {
            match effect {
                Effect::Close { round, contributors } => {
                    self.closed.insert(round, contributors.into_iter().collect());
                    self.global_step = self.global_step.saturating_add(1);
                    self.steps += 1;
                }
                Effect::Count { worker, place } => {
                    served.extend(self.answer_vote(worker, Some(place)));
                    served.extend(self.end_begun(worker, Ok(StateValues::new())));
                }
                Effect::Drop { worker } => {
                    served.extend(self.answer_vote(worker, None));
                    served.extend(self.end_begun(worker, Ok(StateValues::new())));
                }
                Effect::Stop { worker } => {
                    let stopped = self.end_begun(worker, Err(late(worker)));
                    self.chief_stops += u32::from(worker == 0 && stopped.is_some());
                    served.extend(stopped);
                }
                Effect::Fenced { .. } => served.extend(self.answer_fence()),
                Effect::Release { worker } => {
                    let released = self.commits.remove(&worker);
                    served.extend(
                        released.map(|(ticket, outputs)| Served { ticket, outcome: Ok(outputs) }),
                    );
                }
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::LocalDevice;
    use crate::runtime::messages::Origin;
    use crate::runtime::state::{SetValues, Taken, VariableId};
    use crate::sync::Mode;
    use crate::transport::PeerId;

    fn ticket(worker: u32, number: u64) -> Ticket {
        let step = StepId { master: worker.into(), number, trains: true };
        Ticket { step, device: LocalDevice::cpu(0), node: 0 }
    }

    /// The end of step `number` of `worker`, which is one of two.
    fn commit(worker: u32, number: u64) -> Commit {
        let mode = Mode::BoundedStaleness { slack: 1 };
        let origin = Origin { owner: None, training: 3, number, is_again: false };
        Commit {
            global_step: VariableId(0),
            replica: Replica { worker, workers: 2, mode },
            read: 0,
            version: None,
            set: SetValues::new(),
            taken: Some(Taken { task: PeerId(worker), origin }),
        }
    }

    /// The tickets of `answers`, each with whether it succeeds.
    fn told(answers: &[Served]) -> Vec<(Ticket, bool)> {
        answers.iter().map(|served| (served.ticket, served.outcome.is_ok())).collect()
    }

    #[test]
    fn a_held_worker_that_takes_its_step_again_is_held_until_the_slowest_has_caught_up() {
        let members = Membership::default();
        let mut coordination = Coordination::new(commit(0, 0).replica, &members, None);
        let mut end = |worker, attempt, number, now| {
            let commit = commit(worker, number);
            told(&coordination.commit(&members, ticket(worker, attempt), now, &commit, true))
        };
        assert_eq!(end(0, 0, 0, 0), [(ticket(0, 0), true)]);
        assert!(end(0, 1, 1, 1).is_empty(), "it is two steps ahead");
        assert_eq!(end(0, 2, 1, 2), [(ticket(0, 1), false)], "the step is taken again");
        assert_eq!(end(1, 0, 0, 2), [(ticket(0, 2), true), (ticket(1, 0), true)]);
        assert_eq!(end(0, 3, 1, 3), [(ticket(0, 3), true)], "nothing holds it any longer");
    }
}
