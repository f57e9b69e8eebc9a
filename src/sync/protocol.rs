//! `Protocol`: a mode of coordination, at the three places where it acts.
//!
//! A worker sends with each gradient what the mode needs. A shard, which has one variable or a part
//! of one, decides the treatment of a gradient. The task of the global step counts steps, and holds
//! workers back or lets them go. The messages between the places are typed, and carry the
//! [`Epoch`].

use std::collections::BTreeSet;
use std::fmt;

use super::counting::{Counted, Ended, count_each};
use super::{Contributors, Effect, Epoch, Membership};

/// A mode: its parameters and its decisions. Each has one file in [`modes`](super::modes).
pub(crate) trait Protocol: fmt::Display {
    /// Checks the mode for a training of `workers` workers.
    ///
    /// # Errors
    /// The parameter that is wrong, and the problem.
    fn check(&self, workers: u32) -> Result<(), Problem> {
        let _any = workers;
        Ok(())
    }

    /// At the worker: the mode's needs of the graph of a step.
    fn needs(&self) -> Needs;

    /// At the worker: how it exchanges what it has learnt, if it trains a copy of its own.
    fn copies(&self) -> Option<Copies> {
        None
    }

    /// At a shard: the treatment of a gradient that arrives.
    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        let _any = arrived;
        Treatment::Apply(Correction::default())
    }

    /// At the task of the global step: the policy that decides who counts and who waits, in a
    /// training of `workers`.
    fn policy(&self, workers: u32) -> Box<dyn Policy>;

    /// The number of steps that each of `workers` has taken at `global_step`: exact with
    /// synchronous training, else as if they were equally fast.
    fn steps_of_a_worker(&self, global_step: u64, workers: u32) -> u64 {
        global_step / u64::from(workers.max(1))
    }

    /// The number of gradients that a global step of `workers` applies.
    fn gradients_of_a_step(&self, workers: u32) -> u64 {
        self.steps_of_a_worker(u64::from(workers), workers)
    }

    /// The number of `counted` gradients that are in none of the `updates` updates of a training.
    fn left_over(&self, counted: u64, updates: u64) -> u64 {
        let _any = (counted, updates);
        0
    }
}

/// A parameter of a mode, and the problem with it.
pub(crate) type Problem = (&'static str, String);

/// A mode's needs of a training step. The graph builder, the executor's request and the shard read
/// these, and nothing else of the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Whether the version of the variable that was read travels with the gradient.
    pub(crate) version: bool,
    /// Whether the worker announces its gradients to the task of the global step, which tells the
    /// shards where they count.
    pub(crate) vote: bool,
    /// Whether the worker says when it begins a step, and is stopped once that is too late to
    /// count.
    pub(crate) cancel: bool,
    /// Whether a shard collects gradients into rounds, and applies their mean.
    pub(crate) rounds: bool,
    /// Whether a shard keeps the values that each worker has read last.
    pub(crate) snapshot: bool,
    /// Whether a shard divides the learning rate by the staleness of each gradient.
    pub(crate) divides_rate: bool,
}

impl Needs {
    /// Each gradient is applied by itself, whatever version it was computed from.
    pub(crate) const NOTHING: Self = Self {
        version: false,
        vote: false,
        cancel: false,
        rounds: false,
        snapshot: false,
        divides_rate: false,
    };
    /// A shard must know how stale a gradient is.
    pub(crate) const VERSION: Self = Self { version: true, ..Self::NOTHING };
    /// Gradients are collected into rounds of one gradient of each worker.
    pub(crate) const BARRIER: Self = Self { rounds: true, ..Self::VERSION };
    /// Gradients are collected into rounds that the task of the global step names.
    pub(crate) const VOTE: Self = Self { vote: true, ..Self::BARRIER };

    /// Whether the shards are a barrier: each of their rounds has a gradient of every worker. The
    /// weights then do not depend on who is fast.
    pub(crate) fn is_barrier(self) -> bool {
        self.rounds && !self.vote
    }
}

/// How workers that train copies of their own exchange what they learn with the center, on the
/// parameter servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// The number of a worker's steps from one exchange to the next, at least 1.
    pub every: u32,
    /// What a worker sends to the center, and how it goes on.
    pub exchange: Exchange,
    /// The learning rate of the center.
    pub learning_rate: f32,
    /// The center's Nesterov momentum; plain gradient descent if `None`.
    pub momentum: Option<f32>,
}

/// What a worker sends to the center, and how it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exchange {
    /// The worker sends how far it has moved since it last read the center, and goes on from the
    /// center.
    Begin,
    /// The worker sends this share of its distance to the center, and moves as far towards the
    /// center.
    Pull {
        /// The share, above 0 and at most 1.
        share: f32,
    },
}

/// A variable's version: the number of its updates. Older versions compare as less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The epoch of the rounds that updated the variable; 0 if there were none.
    pub epoch: Epoch,
    /// The number of updates.
    pub updates: u64,
}

/// A worker's announcement of a gradient, at the task of the global step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// The worker that computed the gradient.
    pub worker: u32,
    /// The version of the variables that the gradient was computed from, the least if they differ.
    pub version: Version,
}

/// The place where a gradient counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The round.
    pub round: u64,
    /// The index in that round's sum, from 0: behind a barrier of all workers the worker's index.
    pub index: u32,
}

/// The decision on a vote by the task of the global step, for the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The epoch of the decision. Rounds are counted from 0 in each epoch.
    pub epoch: Epoch,
    /// The place where the gradient counts, if it does.
    pub place: Option<Place>,
    /// The rounds that some variable may still wait for, with their contributors by place. So a
    /// variable learns of its rounds even if their contributors are lost.
    pub closed: Vec<(u64, Contributors)>,
}

/// A gradient at a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) worker: u32,
    /// The version that the gradient was computed from.
    pub(crate) version: u64,
    /// The number of updates that the variable has had.
    pub(crate) now: u64,
    pub(crate) verdict: Option<&'a Verdict>,
}

/// The treatment of a gradient at a shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Treatment {
    /// The gradient is applied at once.
    Apply(Correction),
    /// The gradient counts in a round.
    Collect {
        place: Place,
        /// Whether the worker's step waits until the round is applied.
        waits: bool,
    },
    /// The gradient does not count.
    Drop,
}

/// The correction for staleness of a gradient that is applied at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The divisor of the learning rate.
    pub(crate) divisor: u64,
    /// The weight, in the gradient, of the variable's change since the worker read it.
    pub(crate) lambda: Option<f32>,
}

impl Default for Correction {
    fn default() -> Self {
        Self { divisor: 1, lambda: None }
    }
}

/// The decisions of one training's mode, at the task of the global step.
///
/// The [`Coordinator`](super::Coordinator) asks it. It never passes on a contribution of another
/// epoch or of a departed worker, nor any once the training is over.
pub(crate) trait Policy: fmt::Debug {
    /// Notes the beginning of a worker's step, if the mode stops late workers.
    fn begin(&mut self, one: Contribution) -> Vec<Effect> {
        panic!("nobody is stopped in this mode, {one:?}");
    }

    /// Takes a vote: the end of a worker's step, whose gradients are on their way.
    fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        panic!("nobody votes in this mode, {members:?} {one:?}");
    }

    /// Takes the end of `worker`'s step, when its updates are applied or dropped.
    fn commit(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = members;
        vec![Effect::Release { worker }]
    }

    /// Counts a step in a mode without votes.
    fn count(&mut self, members: &Membership, now: &mut i64, step: &Ended) -> Counted {
        let _any = members;
        count_each(now, step)
    }

    /// Takes the departure of `worker`: its open vote or commit is answered, and the remaining
    /// workers may now be enough.
    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = (members, worker);
        Vec::new()
    }

    /// Waits again for `worker`, which had departed.
    fn rejoin(&mut self, worker: u32) {
        let _any = worker;
    }

    /// Ends the training: all waiting workers are let go.
    fn finish(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// The workers that wait here, and so are between two steps.
    fn resting(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The workers that others wait for here, by ascending index; empty if nobody waits.
    fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        let _any = members;
        Vec::new()
    }

    /// The round under way if workers vote, which is also the next version of the variables.
    fn round(&self) -> Option<u64> {
        None
    }

    /// The number of gradients that make a round now, if the mode has rounds.
    fn round_size(&self, members: &Membership) -> Option<usize> {
        let _any = members;
        None
    }

    /// Whether a commit may have to wait.
    fn holds_commits(&self) -> bool {
        false
    }

    /// Whether a step that is taken again is a new contribution, to the round under way by then;
    /// else it counts once.
    fn takes_steps_again(&self) -> bool {
        false
    }
}
