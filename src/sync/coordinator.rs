//! When a worker's step counts and when the worker goes on: one decision maker for each training.

use std::collections::BTreeSet;

use super::bounded_staleness::StalenessBound;
use super::fence::Fence;
use super::rounds::Rounds;
use super::{Mode, Place};

/// Decides, at the task that holds the global step, when a worker's step counts.
///
/// Every vote gets exactly one answer (an [`Effect::Count`] or an [`Effect::Drop`]) and every
/// commit exactly one [`Effect::Release`], at once or later, also where workers leave or the
/// training is over: so no worker waits for ever.
///
/// A worker can put up a fence, for a checkpoint: once every other one is between two steps it is
/// told so, and until it lifts the fence none of them goes on. Then all variables hold the same
/// whole steps.
#[derive(Debug)]
pub struct Coordinator {
    policy: Policy,
    /// Who trains: has made ready for it, and has not left.
    begun: BTreeSet<u32>,
    fence: Option<Fence>,
    finished: bool,
}

/// What the runtime has to do for a [`Coordinator`], in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The gradients of these workers make `round`: every accumulator has to know.
    Close {
        /// The round, consecutive from 0.
        round: u64,
        /// Who contributes, by place.
        contributors: Vec<u32>,
    },
    /// The gradient that `worker` voted for counts; it may send it.
    Count {
        /// The worker.
        worker: u32,
        /// Where it counts.
        place: Place,
    },
    /// The step that `worker` voted for does not count; it may go on, and does so from a later
    /// version, which is applied already or on its way.
    Drop {
        /// The worker.
        worker: u32,
    },
    /// `worker`, whose step is committed, may go on.
    Release {
        /// The worker.
        worker: u32,
    },
    /// The fence of `worker` is up.
    Fenced {
        /// The worker.
        worker: u32,
    },
}

impl Effect {
    /// Whether it is the answer to a vote of `worker`.
    pub(super) fn answers_vote_of(&self, worker: u32) -> bool {
        match self {
            Self::Count { worker: voter, .. } | Self::Drop { worker: voter } => *voter == worker,
            Self::Close { .. } | Self::Release { .. } | Self::Fenced { .. } => false,
        }
    }
}

/// What a mode asks of the coordinator.
#[derive(Debug)]
enum Policy {
    /// Nobody waits here: asynchronous.
    Free,
    /// Nobody waits here: the barrier, of these live workers, is in the accumulators.
    Barrier(BTreeSet<u32>),
    Rounds(Rounds),
    Bounded(StalenessBound),
}

impl Coordinator {
    /// A coordinator of workers `0..workers`. Where workers wait for their round to close it has
    /// never more contributors than there are live workers, and at least one.
    pub fn new(mode: Mode, workers: u32) -> Self {
        let policy = match mode {
            Mode::BoundedStaleness { slack } => {
                Policy::Bounded(StalenessBound::new(workers, slack))
            }
            Mode::Sync { backups: 0 } => Policy::Barrier((0..workers).collect()),
            mode => match mode.round_rule(workers) {
                Some(rule) => Policy::Rounds(Rounds::new(rule, workers)),
                None => Policy::Free,
            },
        };
        Self { policy, begun: BTreeSet::new(), fence: None, finished: false }
    }

    /// Where workers vote: the round under way, and so the version of the variables that comes
    /// next.
    pub fn round(&self) -> u64 {
        match &self.policy {
            Policy::Rounds(rounds) => rounds.round(),
            Policy::Free | Policy::Barrier(_) | Policy::Bounded(_) => 0,
        }
    }

    /// `worker` says that its gradient of `version`, the version of its step, is on
    /// its way to the parameter servers.
    ///
    /// # Panics
    /// If the mode is one without votes, or if there is no such version yet.
    pub fn vote(&mut self, worker: u32, version: u64) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        if self.fence.as_ref().is_some_and(|fence| fence.has_answer_for(worker)) {
            return effects;
        }
        let Policy::Rounds(rounds) = &mut self.policy else {
            panic!("nobody votes in this mode");
        };
        let voted = if self.finished {
            vec![Effect::Drop { worker }]
        } else {
            rounds.vote(worker, version)
        };
        effects.extend(self.pass(Some(worker), voted));
        effects
    }

    /// The updates of `worker`'s step are applied or dropped. Releases the worker, with bounded
    /// staleness perhaps later, and perhaps others with it.
    pub fn commit(&mut self, worker: u32) -> Vec<Effect> {
        let mut effects = self.lift_own(worker);
        let released = match &mut self.policy {
            Policy::Bounded(bound) if !self.finished => bound.commit(worker),
            _ => vec![Effect::Release { worker }],
        };
        effects.extend(self.pass(Some(worker), released));
        effects
    }

    /// Whether every commit releases its worker at once, and nobody else.
    pub fn releases_at_once(&self) -> bool {
        self.fence.is_none() && (self.finished || !matches!(self.policy, Policy::Bounded(_)))
    }

    /// How many gradients make a round now, where they make rounds.
    pub fn round_size(&self) -> Option<usize> {
        match &self.policy {
            Policy::Rounds(rounds) => Some(rounds.size()),
            Policy::Barrier(live) => Some(live.len()),
            Policy::Free | Policy::Bounded(_) => None,
        }
    }

    /// `worker` is about to take steps: from now on a fence waits until it is between two of them.
    pub fn begin(&mut self, worker: u32) {
        self.begun.insert(worker);
    }

    /// `worker` is gone, finished or failed: it is not waited for from now on, and its fence is
    /// lifted. What it had open is answered, which tells a worker that only seemed to fail to go
    /// on.
    pub fn leave(&mut self, worker: u32) -> Vec<Effect> {
        self.begun.remove(&worker);
        let mut effects = self.lift_own(worker);
        let left = match &mut self.policy {
            Policy::Free => Vec::new(),
            Policy::Barrier(live) => {
                live.remove(&worker);
                Vec::new()
            }
            Policy::Rounds(rounds) => rounds.leave(worker),
            Policy::Bounded(bound) => bound.leave(worker),
        };
        effects.extend(self.pass(None, left));
        effects
    }

    /// `worker`, which is between two steps of its own, puts up a fence: [`Effect::Fenced`] tells
    /// when it is up. A worker that has one already has the same, and is told again.
    ///
    /// # Errors
    /// The worker that has another fence.
    pub fn put_up_fence(&mut self, worker: u32) -> Result<Vec<Effect>, u32> {
        match &self.fence {
            _ if self.finished => return Ok(vec![Effect::Fenced { worker }]),
            Some(fence) if fence.owner != worker => return Err(fence.owner),
            _ => {}
        }
        let resting = match &self.policy {
            Policy::Free | Policy::Barrier(_) => BTreeSet::new(),
            Policy::Rounds(rounds) => rounds.resting(),
            Policy::Bounded(bound) => bound.resting().clone(),
        };
        self.fence.get_or_insert_with(|| Fence::new(worker, resting)).ask_again();
        Ok(self.raise().into_iter().collect())
    }

    /// `worker` is between two steps, and takes none until the fence is lifted: it makes ready for
    /// others.
    pub fn rest(&mut self, worker: u32) -> Vec<Effect> {
        self.pass(Some(worker), Vec::new())
    }

    /// Lifts `worker`'s fence; none where it has none, or no more.
    pub fn lift_fence(&mut self, worker: u32) -> Option<Vec<Effect>> {
        self.fence.take_if(|fence| fence.owner == worker).map(Fence::lift)
    }

    /// Who has a fence, up or still to go up.
    pub fn fence_owner(&self) -> Option<u32> {
        self.fence.as_ref().map(|fence| fence.owner)
    }

    /// Who has to come to the end of a step before the fence is up, by ascending index.
    pub fn fence_waits_for(&self) -> Vec<u32> {
        match (&self.fence, &self.policy) {
            // The barrier holds them all: no round is complete without the owner's gradient.
            (_, Policy::Barrier(_)) | (None, _) => Vec::new(),
            (Some(fence), _) => fence.waiting_for(&self.begun).collect(),
        }
    }

    /// A worker that leaves, or takes another step of its own, has no fence any more.
    fn lift_own(&mut self, worker: u32) -> Vec<Effect> {
        self.lift_fence(worker).unwrap_or_default()
    }

    /// Gives `effects`, which a worker that now `rests` has brought about, or keeps them until the
    /// fence is lifted.
    fn pass(&mut self, rests: Option<u32>, effects: Vec<Effect>) -> Vec<Effect> {
        let Some(fence) = &mut self.fence else { return effects };
        fence.withhold(effects);
        rests.into_iter().for_each(|worker| fence.rest(worker));
        self.raise().into_iter().collect()
    }

    /// Tells the owner of the fence that it is up, once everybody else rests.
    fn raise(&mut self) -> Option<Effect> {
        if self.fence_waits_for().is_empty() { self.fence.as_mut()?.go_up() } else { None }
    }

    /// `worker`, which had left, is back: it is waited for again.
    pub fn rejoin(&mut self, worker: u32) {
        match &mut self.policy {
            Policy::Free => {}
            Policy::Barrier(live) => drop(live.insert(worker)),
            Policy::Rounds(rounds) => rounds.rejoin(worker),
            Policy::Bounded(bound) => bound.rejoin(worker),
        }
    }

    /// Another training of the same variables begins where the one that is over ended.
    pub fn reopen(&mut self) {
        self.finished = false;
    }

    /// The training is over: whoever waits is let go, and from now on nobody waits and no vote
    /// counts.
    pub fn finish(&mut self) -> Vec<Effect> {
        self.finished = true;
        let up = self.fence.as_mut().and_then(Fence::go_up);
        let withheld = self.fence.take().map(Fence::lift).unwrap_or_default();
        let let_go = match &mut self.policy {
            Policy::Free | Policy::Barrier(_) => Vec::new(),
            Policy::Rounds(rounds) => rounds.drop_votes(),
            Policy::Bounded(bound) => bound.release_all(),
        };
        up.into_iter().chain(withheld).chain(let_go).collect()
    }

    /// Whom those who wait here wait for, by ascending index; empty where nobody waits.
    pub fn waiting_for(&self) -> Vec<u32> {
        match &self.policy {
            Policy::Free | Policy::Barrier(_) => Vec::new(),
            Policy::Rounds(rounds) => rounds.waiting_for(),
            Policy::Bounded(bound) => bound.waiting_for(),
        }
    }
}

#[cfg(test)]
mod tests;
