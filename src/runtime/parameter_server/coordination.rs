//! The end of each worker's step at the task that holds the global step.
//!
//! Adapts [`Coordinator`], which decides who counts and who waits, to the operations `CommitStep`,
//! `Fence` and `LiftFence`, which are answered.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::graph::Replica;
use crate::sync::{
    Contribution, Coordinator, Counted, Effect, Ended, Membership, Place, Verdict, Version,
};
use crate::tensor::Tensor;

use crate::runtime::codec::verdict_to_tensor;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::{StepId, Values};
use crate::runtime::parameter_server::done::Done;
use crate::runtime::state::{Begin, Commit, Served, Taken, Ticket};

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
    votes: BTreeMap<u32, Vote>,
    commits: BTreeMap<u32, (Ticket, Values)>,
    /// The last request for a fence, and whether it has been answered that the fence is up.
    fence: Option<(Ticket, bool)>,
    /// By worker: the last of its votes that counts.
    told: BTreeMap<u32, Told>,
    /// The contributors of those closed rounds that a variable may still wait for.
    closed: BTreeMap<u64, Vec<u32>>,
    /// In a mode without votes, the answer to the last step of each training.
    committed: Done<Counted>,
}

/// The answers that follow from an operation, most often just its own.
type Answers = SmallVec<[Served; 1]>;

/// A worker's vote.
#[derive(Clone, Copy, Debug)]
struct Vote {
    ticket: Ticket,
    /// The least version of a variable that its gradients were computed from.
    version: Version,
    /// The global step that its step began at.
    read: i64,
    taken: Option<Taken>,
    /// Whether the step has failed or its worker was lost: the gradient may not have come to every
    /// variable.
    has_failed: bool,
}

/// A vote that counts, with its answer.
#[derive(Clone, Copy, Debug)]
struct Told {
    vote: Vote,
    place: Place,
    counted: Counted,
}

/// The values that answer a worker's step.
fn outputs(counted: Counted) -> Values {
    smallvec![
        Tensor::scalar(counted.global_step),
        Tensor::scalar(counted.staleness),
        Tensor::scalar(counted.applied)
    ]
}

impl Coordination {
    /// The coordination of the training of `replica`, in the current epoch of `members`.
    pub(super) fn new(replica: Replica, members: &Membership) -> Self {
        let coordinator = Coordinator::new(replica.mode, replica.workers, members);
        Self {
            round_size: coordinator.round_size(members).unwrap_or(0),
            coordinator,
            training: replica,
            global_step: 0,
            steps: 0,
            begun: BTreeMap::new(),
            votes: BTreeMap::new(),
            commits: BTreeMap::new(),
            fence: None,
            told: BTreeMap::new(),
            closed: BTreeMap::new(),
            committed: Done::default(),
        }
    }

    /// Takes the beginning of a worker's step, which is answered with its end.
    pub(super) fn begin(&mut self, members: &Membership, ticket: Ticket, begin: &Begin) -> Answers {
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

    /// Takes the end of a worker's step at the global step `now`: its updates have been applied or,
    /// if the worker votes, are on their way.
    pub(super) fn commit(
        &mut self,
        members: &Membership,
        ticket: Ticket,
        now: i64,
        commit: &Commit,
    ) -> Answers {
        self.global_step = now;
        if let Err(error) = self.check(commit.replica, commit.version.unwrap_or_default()) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        let taken = commit.taken.filter(|_| !self.coordinator.takes_steps_again());
        match commit.version {
            Some(version) => {
                let vote = Vote { ticket, version, read: commit.read, taken, has_failed: false };
                self.vote(members, commit.replica, vote)
            }
            None => self.count(members, commit, ticket, taken),
        }
    }

    /// The steps that have been counted since the last call.
    pub(super) fn take_steps(&mut self) -> i64 {
        std::mem::take(&mut self.steps)
    }

    fn vote(&mut self, members: &Membership, replica: Replica, vote: Vote) -> Answers {
        let (ticket, version, worker) = (vote.ticket, vote.version, replica.worker);
        if self.coordinator.is_current(version) {
            // All variables have had as many updates.
            self.closed.retain(|round, _| *round >= version.updates);
        }
        if let Some(told) = self.told_before(members, worker, &vote) {
            self.told.insert(worker, Told { vote, ..told });
            let mut answers: Answers = smallvec![self.tell(ticket, Some(told.place), told.counted)];
            answers.extend(self.end_begun(worker, Ok(Values::new())));
            return answers;
        }
        let before = self.votes.insert(worker, vote).map(|vote| vote.ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        let effects = self.coordinator.vote(members, Contribution { worker, version });
        answers.extend(self.answer(effects));
        answers
    }

    /// The answer that the worker's vote was given before, if it must not be decided anew. A step
    /// that is taken again does not count twice. If the earlier step has failed, or the worker was
    /// lost, the worker keeps its place, since variables may wait for its gradient there.
    fn told_before(&self, members: &Membership, worker: u32, vote: &Vote) -> Option<Told> {
        let told = *self.told.get(&worker).filter(|_| !members.is_over())?;
        let (master, before) = (vote.ticket.step.master, told.vote.ticket.step.master);
        let is_same_step =
            vote.taken.is_some() && (before, told.vote.taken) == (master, vote.taken);
        let is_awaited = (told.vote.has_failed || before != master)
            && self.coordinator.is_current(vote.version)
            && told.place.round >= vote.version.updates;
        (is_same_step || is_awaited).then_some(told)
    }

    /// Counts a step whose updates have been applied, and holds its worker as the mode does. A step
    /// that is taken again has been counted before.
    fn count(
        &mut self,
        members: &Membership,
        commit: &Commit,
        ticket: Ticket,
        taken: Option<Taken>,
    ) -> Answers {
        let replica = commit.replica;
        if let Some(before) = taken.and_then(|taken| self.committed.done(ticket, taken)) {
            return smallvec![Served { ticket, outcome: Ok(outputs(before)) }];
        }
        let before = self.global_step;
        let step = Ended {
            worker: replica.worker,
            is_again: commit.taken.is_some_and(|taken| taken.origin.is_again),
            read: commit.read,
        };
        let counted = self.coordinator.count(members, &mut self.global_step, &step);
        self.steps += self.global_step - before;
        if let Some(taken) = taken {
            self.committed.note(ticket, taken, counted);
        }
        if self.coordinator.releases_at_once(members) && self.commits.is_empty() {
            return smallvec![Served { ticket, outcome: Ok(outputs(counted)) }];
        }
        let before = self.commits.get(&replica.worker).map(|(ticket, _)| *ticket);
        let mut answers: Answers = Self::taken_over(replica, ticket, before).collect();
        self.commits.insert(replica.worker, (ticket, outputs(counted)));
        let effects = self.coordinator.commit(members, replica.worker);
        answers.extend(self.answer(effects));
        answers
    }

    /// Puts up a fence: all other workers stop between two steps.
    pub(super) fn put_up_fence(
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
    pub(super) fn lift_fence(
        &mut self,
        members: &Membership,
        replica: Replica,
        ticket: Ticket,
    ) -> Answers {
        let outcome = self.check(replica, Version::default());
        let lifted =
            if outcome.is_ok() { self.coordinator.lift_fence(replica.worker) } else { None };
        let outcome = match outcome {
            Ok(()) if lifted.is_none() && !members.is_over() => {
                let message = format!(
                    "the fence of worker {} is gone, for it seemed to be lost, or went on to \
                     train; what it has read since may be of different steps: put up another and \
                     read again",
                    replica.worker
                );
                Err(Error::new(Code::Aborted, message))
            }
            outcome => outcome.map(|()| Values::new()),
        };
        let mut answers: Answers = smallvec![Served { ticket, outcome }];
        answers.extend(self.answer(lifted.unwrap_or_default()));
        answers
    }

    /// Forgets a step that has failed, and takes down its fence.
    pub(super) fn forget(&mut self, step: StepId) -> Vec<Served> {
        let told = self.told.values_mut().map(|told| &mut told.vote);
        for vote in self.votes.values_mut().chain(told) {
            vote.has_failed |= vote.ticket.step == step;
        }
        self.begun.retain(|_, ticket| ticket.step != step);
        let is_forgotten = self.fence.is_some_and(|(ticket, _)| ticket.step == step);
        let owner = self.coordinator.fence_owner().filter(|_| is_forgotten);
        let lifted = owner.and_then(|owner| self.coordinator.lift_fence(owner));
        self.answer(lifted.unwrap_or_default())
    }

    /// Takes down the fence of `worker`, if it has one: it is missed, and others wait.
    pub(super) fn take_down_fence(&mut self, worker: u32) -> Vec<Served> {
        let lifted = self.coordinator.lift_fence(worker);
        self.answer(lifted.unwrap_or_default())
    }

    /// `replica` makes ready to train. If it has to wait for a fence to be lifted, returns the
    /// answers that follow.
    pub(super) fn hold_off(
        &mut self,
        members: &Membership,
        replica: Replica,
    ) -> Option<Vec<Served>> {
        let owner = self.coordinator.fence_owner()?;
        if owner == replica.worker || replica.check_trains_with(&self.training).is_err() {
            return None;
        }
        let effects = self.coordinator.rest(members, replica.worker);
        Some(self.answer(effects))
    }

    pub(super) fn has_fence(&self) -> bool {
        self.coordinator.fence_owner().is_some()
    }

    /// Stops waiting for `worker`.
    pub(super) fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Served> {
        if let Some(told) = self.told.get_mut(&worker) {
            told.vote.has_failed = true;
        }
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
        self.answer(effects)
    }

    /// Waits for `worker` again.
    pub(super) fn rejoin(&mut self, members: &Membership, worker: u32) {
        self.coordinator.rejoin(worker);
        self.round_size = self.coordinator.round_size(members).unwrap_or(0);
    }

    /// Ends the training: answers all who wait.
    pub(super) fn finish(&mut self) -> Vec<Served> {
        let effects = self.coordinator.finish();
        self.answer(effects)
    }

    /// The operations that wait for others.
    pub(super) fn waiting(self) -> impl Iterator<Item = Ticket> {
        let commits = self.commits.into_values().map(|(ticket, _)| ticket);
        let fence = self.fence.filter(|(_, is_told)| !is_told).map(|(ticket, _)| ticket);
        let votes = self.votes.into_values().map(|vote| vote.ticket);
        self.begun.into_values().chain(votes).chain(commits).chain(fence)
    }

    /// Checks that `replica` is of this training, and `version` a version of its variables.
    fn check(&self, replica: Replica, version: Version) -> Result<()> {
        replica
            .check_trains_with(&self.training)
            .map_err(|problem| Error::new(Code::InvalidArgument, problem))?;
        let updates = version.updates;
        let round = self.coordinator.round().unwrap_or(u64::MAX);
        if !self.coordinator.is_current(version) || updates <= round {
            return Ok(());
        }
        let message = format!(
            "the variables have had {updates} updates, but the rounds of the training are at \
             {round}: they were updated from outside of it; reset their container and initialize \
             them"
        );
        Err(Error::new(Code::FailedPrecondition, message))
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

    /// The things that the waiting workers wait for.
    pub(super) fn waiting_for(&self, members: &Membership) -> Vec<String> {
        let step_of = |worker: &u32| format!("the step of worker {worker}");
        match self.coordinator.fence_owner() {
            _ if self.votes.is_empty() && self.commits.is_empty() && self.fence.is_none() => {
                Vec::new()
            }
            None => self.coordinator.waiting_for(members).iter().map(step_of).collect(),
            Some(owner) if self.fence.is_some_and(|(_, is_told)| is_told) => {
                vec![format!("worker {owner} to lift its fence")]
            }
            Some(owner) => {
                let behind = |worker: &u32| {
                    format!("{}, to put up the fence of worker {owner}", step_of(worker))
                };
                self.coordinator.fence_waits_for(members).iter().map(behind).collect()
            }
        }
    }

    /// The answers in `effects`.
    fn answer(&mut self, effects: Vec<Effect>) -> Vec<Served> {
        let mut served = Vec::new();
        for effect in effects {
            match effect {
                Effect::Close { round, contributors } => {
                    self.closed.insert(round, contributors);
                    self.global_step += 1;
                    self.steps += 1;
                }
                Effect::Count { worker, place } => {
                    served.extend(self.answer_vote(worker, Some(place)));
                    served.extend(self.end_begun(worker, Ok(Values::new())));
                }
                Effect::Drop { worker } => {
                    served.extend(self.answer_vote(worker, None));
                    served.extend(self.end_begun(worker, Ok(Values::new())));
                }
                Effect::Stop { worker } => {
                    served.extend(self.end_begun(worker, Err(late(worker))));
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

    /// The answer to the beginning of the worker's step, if it waits for one.
    fn end_begun(&mut self, worker: u32, outcome: Result<Values>) -> Option<Served> {
        self.begun.remove(&worker).map(|ticket| Served { ticket, outcome })
    }

    fn answer_fence(&mut self) -> Option<Served> {
        let (ticket, is_told) = self.fence.as_mut()?;
        let was_told = std::mem::replace(is_told, true);
        (!was_told).then(|| Served { ticket: *ticket, outcome: Ok(Values::new()) })
    }

    fn answer_vote(&mut self, worker: u32, place: Option<Place>) -> Option<Served> {
        let vote = self.votes.remove(&worker)?;
        let Some(place) = place else {
            let counted = Counted::dropped(self.global_step, vote.read);
            return Some(self.tell(vote.ticket, None, counted));
        };
        let staleness = place.round.saturating_sub(vote.version.updates) as i64;
        let counted = Counted { global_step: self.global_step, staleness, applied: true };
        self.told.insert(worker, Told { vote, place, counted });
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
fn late(worker: u32) -> Error {
    let message = format!(
        "the step of worker {worker} is too late: its round has closed without it; take it again, \
         from the variables as they are now"
    );
    Error::new(Code::Late, message)
}

/// The error of `older`, which gives way to the `newer` request of `replica`.
pub(super) fn taken_over(replica: Replica, newer: Ticket, older: Ticket) -> Error {
    if newer.step == older.step {
        return two_operations(replica);
    }
    let worker = replica.worker;
    let message = format!("worker {worker} has begun another step, which takes its place");
    Error::new(Code::Aborted, message)
}

/// The error of a worker's second part in one round.
pub(super) fn two_operations(replica: Replica) -> Error {
    let Replica { worker, mode, .. } = replica;
    let message = format!(
        "worker {worker} runs two training operations in one step, but in the mode {mode} it has \
         one part in a round; run them in steps of their own"
    );
    Error::new(Code::InvalidArgument, message)
}
