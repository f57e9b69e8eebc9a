//! The end of each worker's step at the task that holds the global step: who counts, who waits.
//!
//! Adapts [`Coordinator`], which decides, to the operations `Vote` and `CommitStep`, which are
//! answered, and to those of a fence.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::graph::Replica;
use crate::sync::{Coordinator, Effect, Mode, Place};
use crate::tensor::Tensor;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::{Commit, Origin, Served, StepId, Ticket, Values, Verdict};
use crate::runtime::parameter_server::done::Done;

/// One training's coordination.
pub(super) struct Coordination {
    coordinator: Coordinator,
    /// One of those who train.
    training: Replica,
    votes: BTreeMap<u32, Vote>,
    commits: BTreeMap<u32, (Ticket, Values)>,
    /// Who has asked for a fence last, and whether it has been told that it is up.
    fence: Option<(Ticket, bool)>,
    /// Where each worker was told that its gradient counts, until it commits.
    counted: BTreeMap<u32, (Place, Vote)>,
    /// The contributors of those rounds that a variable may still wait for.
    closed: BTreeMap<u64, Vec<u32>>,
    /// Where workers vote: the rounds that the global step has counted.
    rounds: u64,
    /// What the last step of each training master was told.
    committed: Done<Counted>,
    is_over: bool,
}

/// The answers that follow from an operation: most often its own.
type Answers = SmallVec<[Served; 1]>;

/// A worker's gradients, on their way.
#[derive(Clone, Copy, Debug)]
struct Vote {
    ticket: Ticket,
    /// The least version of a variable that they were computed from.
    version: u64,
    origin: Option<Origin>,
}

/// What a worker is told of its step.
#[derive(Clone, Copy, Debug)]
struct Counted {
    global_step: i64,
    staleness: i64,
    applied: bool,
}

impl Counted {
    fn outputs(self) -> Values {
        smallvec![
            Tensor::scalar(self.global_step),
            Tensor::scalar(self.staleness),
            Tensor::scalar(self.applied)
        ]
    }
}

impl Coordination {
    /// The coordination of the training of `replica`, which those of `begun` have made ready for.
    pub(super) fn new(replica: Replica, begun: impl Iterator<Item = u32>) -> Self {
        let mut coordinator = Coordinator::new(replica.mode, replica.workers);
        begun.for_each(|worker| coordinator.begin(worker));
        Self {
            coordinator,
            training: replica,
            votes: BTreeMap::new(),
            commits: BTreeMap::new(),
            fence: None,
            counted: BTreeMap::new(),
            closed: BTreeMap::new(),
            rounds: 0,
            committed: Done::default(),
            is_over: false,
        }
    }

    /// A worker's gradients of `versions` are on their way.
    pub(super) fn vote(
        &mut self,
        replica: Replica,
        ticket: Ticket,
        versions: &[i64],
        origin: Option<Origin>,
    ) -> Answers {
        let version = versions.iter().copied().min().unwrap_or(0) as u64;
        if let Err(error) = self.check(replica, version) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        // All variables have had as many updates.
        self.closed.retain(|round, _| *round >= version);
        let origin = origin.filter(|_| !matches!(replica.mode, Mode::Sync { .. }));
        let vote = Vote { ticket, version, origin };
        if let Some(place) = self.told_before(replica.worker, &vote) {
            return smallvec![self.tell(ticket, place)];
        }
        let before = self.votes.insert(replica.worker, vote);
        let mut answers: Answers =
            Self::taken_over(replica, before.map(|vote| vote.ticket)).collect();
        let effects = self.coordinator.vote(replica.worker, version);
        answers.extend(self.answer(effects));
        answers
    }

    /// What a worker was told of a step that is taken again: it does not count twice. And what it
    /// was told of one that it has not taken, for that was lost, or the worker itself: variables
    /// may wait for its gradient in that place.
    fn told_before(&self, worker: u32, vote: &Vote) -> Option<Option<Place>> {
        if self.is_over {
            return None;
        }
        let master = vote.ticket.step.master;
        if vote.origin.is_some_and(|origin| self.committed.done(master, origin).is_some()) {
            return Some(None);
        }
        let (place, before) = self.counted.get(&worker)?;
        let is_same_step = vote.origin.is_some()
            && (before.ticket.step.master, before.origin) == (master, vote.origin);
        (is_same_step || place.round >= vote.version).then_some(Some(*place))
    }

    /// A worker's updates have been applied or dropped. A step that is taken again has been counted
    /// before, unless it is a part in another round by now.
    pub(super) fn commit(
        &mut self,
        ticket: Ticket,
        global_step: &mut i64,
        commit: &Commit,
    ) -> Answers {
        let replica = commit.replica;
        if let Err(error) = self.check(replica, 0) {
            return smallvec![Served { ticket, outcome: Err(error) }];
        }
        let origin = commit.origin.filter(|_| !matches!(replica.mode, Mode::Sync { .. }));
        let committed = origin.and_then(|origin| self.committed.done(ticket.step.master, origin));
        if let Some(before) = committed {
            return smallvec![Served { ticket, outcome: Ok(before.outputs()) }];
        }
        let counted = self.count(replica, global_step, commit);
        if let Some(origin) = origin {
            self.committed.note(ticket.step.master, origin, counted);
        }
        if self.coordinator.releases_at_once() && self.commits.is_empty() {
            return smallvec![Served { ticket, outcome: Ok(counted.outputs()) }];
        }
        let before = self.commits.get(&replica.worker).map(|(ticket, _)| *ticket);
        let mut answers: Answers = Self::taken_over(replica, before).collect();
        self.commits.insert(replica.worker, (ticket, counted.outputs()));
        let effects = self.coordinator.commit(replica.worker);
        answers.extend(self.answer(effects));
        answers
    }

    /// Counts a step: each one by itself, or where gradients make rounds the first of its round.
    fn count(&mut self, replica: Replica, now: &mut i64, commit: &Commit) -> Counted {
        let (before, read) = (*now, commit.read);
        let dropped = Counted { global_step: before, staleness: before - read, applied: false };
        if self.is_over {
            return dropped;
        }
        let voted = self.counted.remove(&replica.worker).map(|(_, vote)| vote);
        match (replica.mode, &commit.verdict) {
            (_, Some(Verdict { place: None, .. })) => dropped,
            (mode, Some(Verdict { place: Some(place), closed })) => {
                let is_closed = closed.iter().any(|(round, _)| *round == place.round);
                let done = place.round + u64::from(is_closed);
                *now += done.saturating_sub(self.rounds) as i64;
                self.rounds = self.rounds.max(done);
                let rounds_since = if mode.goes_on() { 0 } else { (self.rounds - done) as i64 };
                let staleness =
                    voted.map_or(0, |vote| place.round.saturating_sub(vote.version)) as i64;
                Counted { global_step: *now - rounds_since, staleness, applied: true }
            }
            (Mode::Sync { .. }, None) => {
                *now += i64::from(before == read);
                Counted { global_step: *now, staleness: *now - 1 - read, applied: true }
            }
            (_, None) => {
                *now += 1;
                Counted { global_step: *now, staleness: before - read, applied: true }
            }
        }
    }

    /// A worker wants all others to stop between two steps.
    pub(super) fn put_up_fence(&mut self, replica: Replica, ticket: Ticket) -> Answers {
        let refuse = |error| smallvec![Served { ticket, outcome: Err(error) }];
        if let Err(error) = self.check(replica, 0) {
            return refuse(error);
        }
        let effects = match self.coordinator.put_up_fence(replica.worker) {
            Ok(effects) => effects,
            Err(owner) => {
                let message =
                    format!("worker {owner} has a fence here; try again once it is lifted");
                return refuse(Error::new(Code::FailedPrecondition, message));
            }
        };
        let waiting = self.fence.replace((ticket, false)).filter(|(_, is_told)| !is_told);
        let mut answers: Answers =
            Self::taken_over(replica, waiting.map(|(ticket, _)| ticket)).collect();
        answers.extend(self.answer(effects));
        answers
    }

    /// A worker has done what it put up a fence for.
    pub(super) fn lift_fence(&mut self, replica: Replica, ticket: Ticket) -> Answers {
        let outcome = self.check(replica, 0);
        let lifted =
            if outcome.is_ok() { self.coordinator.lift_fence(replica.worker) } else { None };
        let outcome = match outcome {
            Ok(()) if lifted.is_none() && !self.is_over => {
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

    /// A step has failed, and what it has put up comes down.
    pub(super) fn forget(&mut self, step: StepId) -> Vec<Served> {
        let is_forgotten = self.fence.is_some_and(|(ticket, _)| ticket.step == step);
        let owner = self.coordinator.fence_owner().filter(|_| is_forgotten);
        let lifted = owner.and_then(|owner| self.coordinator.lift_fence(owner));
        self.answer(lifted.unwrap_or_default())
    }

    /// `replica` makes ready to train. Gives the answers that follow, where it has to wait for a
    /// fence to be lifted.
    pub(super) fn hold_off(&mut self, replica: Replica) -> Option<Vec<Served>> {
        let owner = self.coordinator.fence_owner()?;
        if owner == replica.worker || replica.check_trains_with(&self.training).is_err() {
            return None;
        }
        let effects = self.coordinator.rest(replica.worker);
        Some(self.answer(effects))
    }

    pub(super) fn has_fence(&self) -> bool {
        self.coordinator.fence_owner().is_some()
    }

    /// `worker` has made ready to train.
    pub(super) fn begin(&mut self, worker: u32) {
        if worker < self.training.workers {
            self.coordinator.begin(worker);
        }
    }

    pub(super) fn leave(&mut self, worker: u32) -> Vec<Served> {
        let before = self.coordinator.round_size();
        let effects = self.coordinator.leave(worker);
        let now = self.coordinator.round_size();
        if now < before && !self.is_over {
            let (mode, before, now) = (self.training.mode, before.unwrap_or(0), now.unwrap_or(0));
            tracing::info!(
                worker, %mode, before, now,
                "fewer gradients make an update, as a worker is gone"
            );
        }
        self.answer(effects)
    }

    pub(super) fn rejoin(&mut self, worker: u32) {
        self.coordinator.rejoin(worker);
    }

    /// Another training begins where the one that is over ended.
    pub(super) fn reopen(&mut self) {
        self.is_over = false;
        self.coordinator.reopen();
    }

    pub(super) fn finish(&mut self) -> Vec<Served> {
        self.is_over = true;
        let effects = self.coordinator.finish();
        self.answer(effects)
    }

    /// Whose operations wait for others.
    pub(super) fn waiting(self) -> impl Iterator<Item = Ticket> {
        let commits = self.commits.into_values().map(|(ticket, _)| ticket);
        let fence = self.fence.filter(|(_, is_told)| !is_told).map(|(ticket, _)| ticket);
        self.votes.into_values().map(|vote| vote.ticket).chain(commits).chain(fence)
    }

    /// Whether `replica` is of this training, and `version` a version of its variables.
    fn check(&self, replica: Replica, version: u64) -> Result<()> {
        replica
            .check_trains_with(&self.training)
            .map_err(|problem| Error::new(Code::InvalidArgument, problem))?;
        if version == 0 || version <= self.coordinator.round() {
            return Ok(());
        }
        let message = format!(
            "the variables have had {version} updates, but the rounds of the training are at {}: \
             they were updated from outside of it; reset their container and initialize them",
            self.coordinator.round()
        );
        Err(Error::new(Code::FailedPrecondition, message))
    }

    /// The answer to an operation of a worker that has restarted, or given up that step.
    fn taken_over(replica: Replica, older: Option<Ticket>) -> impl Iterator<Item = Served> {
        let aborted = move |ticket| {
            let message =
                format!("worker {} has begun another step, which takes its place", replica.worker);
            Served { ticket, outcome: Err(Error::new(Code::Aborted, message)) }
        };
        older.map(aborted).into_iter()
    }

    /// What those who wait here wait for.
    pub(super) fn waiting_for(&self) -> Vec<String> {
        let step_of = |worker: &u32| format!("the step of worker {worker}");
        match self.coordinator.fence_owner() {
            _ if self.votes.is_empty() && self.commits.is_empty() && self.fence.is_none() => {
                Vec::new()
            }
            None => self.coordinator.waiting_for().iter().map(step_of).collect(),
            Some(owner) if self.fence.is_some_and(|(_, is_told)| is_told) => {
                vec![format!("worker {owner} to lift its fence")]
            }
            Some(owner) => {
                let behind = |worker: &u32| {
                    format!("{}, to put up the fence of worker {owner}", step_of(worker))
                };
                self.coordinator.fence_waits_for().iter().map(behind).collect()
            }
        }
    }

    /// The answers that `effects` are.
    fn answer(&mut self, effects: Vec<Effect>) -> Vec<Served> {
        let mut served = Vec::new();
        for effect in effects {
            match effect {
                Effect::Close { round, contributors } => {
                    self.closed.insert(round, contributors);
                }
                Effect::Count { worker, place } => {
                    served.extend(self.answer_vote(worker, Some(place)))
                }
                Effect::Drop { worker } => served.extend(self.answer_vote(worker, None)),
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

    fn answer_fence(&mut self) -> Option<Served> {
        let (ticket, is_told) = self.fence.as_mut()?;
        let was_told = std::mem::replace(is_told, true);
        (!was_told).then(|| Served { ticket: *ticket, outcome: Ok(Values::new()) })
    }

    fn answer_vote(&mut self, worker: u32, place: Option<Place>) -> Option<Served> {
        let vote = self.votes.remove(&worker)?;
        if let Some(place) = place {
            self.counted.insert(worker, (place, vote));
        }
        Some(self.tell(vote.ticket, place))
    }

    fn tell(&self, ticket: Ticket, place: Option<Place>) -> Served {
        let closed = self
            .closed
            .iter()
            .map(|(round, contributors)| (*round, contributors.clone()))
            .collect();
        Served { ticket, outcome: Ok(smallvec![Verdict { place, closed }.to_tensor()]) }
    }
}
