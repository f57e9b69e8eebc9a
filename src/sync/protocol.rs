//! `Protocol`: a mode of coordination, at the three places where it acts.
//!
//! A worker sends with each gradient what the mode needs. A shard, which has one variable or a part
//! of one, decides the treatment of a gradient. The task of the global step counts steps, and holds
//! workers back or lets them go. The messages between the places are typed, and carry the
//! [`Epoch`](super::Epoch).

use std::fmt;

use super::gradients::{Arrived, Correction, Treatment};
use super::policy::{Free, Policy};
use super::rounds::{RoundRule, Rounds, Versions, Voters};

/// A mode: its parameters and its decisions. Each has one file in [`modes`](super::modes).
///
/// By default nobody votes or waits, and each gradient counts as it comes. A mode whose rounds are
/// made of so many votes gives its [`Protocol::rule`], and all else follows from that.
pub(crate) trait Protocol: fmt::Display {
    /// Checks the mode for a training of `workers` workers.
    ///
    /// # Errors
    /// The parameter that is wrong, and the problem.
    fn check(&self, workers: u32) -> Result<(), Problem> {
        let _any = workers;
        Ok(())
    }

    /// The rule of its rounds, if they are made of votes.
    fn rule(&self) -> Option<RoundRule> {
        None
    }

    /// At the worker: the mode's needs of the graph of a step.
    fn needs(&self) -> Needs {
        self.rule().map_or(Needs::Nothing, |rule| Needs::Votes { cancel: rule.cancels })
    }

    /// At the worker: how it exchanges what it has learnt, if it trains a copy of its own.
    fn copies(&self) -> Option<Copies> {
        None
    }

    /// At a shard: the treatment of a gradient that arrives.
    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        match self.rule() {
            Some(rule) => rule.voters.treat(arrived),
            None => Treatment::Apply(Correction::default()),
        }
    }

    /// At the task of the global step: the policy that decides who counts and who waits, in a
    /// training of `workers`.
    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        match self.rule() {
            Some(rule) => Box::new(Rounds::new(rule, workers)),
            None => Box::new(Free),
        }
    }

    /// Whether a slow worker costs the others no time: nobody waits for it, and its gradients are
    /// never too late.
    fn leaves_workers_free(&self) -> bool {
        match self.rule() {
            Some(rule) => rule.voters == Voters::GoOn && rule.versions == Versions::Any,
            None => !self.needs().has_rounds() && !self.policy(1).holds_commits(),
        }
    }

    /// The number of steps that each of `workers` has taken at `global_step`: exact with
    /// synchronous training, else as if they were equally fast.
    fn steps_of_a_worker(&self, global_step: u64, workers: u32) -> u64 {
        let size = self.rule().map_or(1, |rule| rule.size);
        global_step * u64::from(size) / u64::from(workers.max(1))
    }

    /// The number of gradients that a global step of `workers` applies.
    fn gradients_of_a_step(&self, workers: u32) -> u64 {
        self.steps_of_a_worker(u64::from(workers), workers)
    }

    /// The number of `counted` gradients that are in none of the `updates` updates of a training:
    /// those of the last, unfinished round, if voters go on.
    fn left_over(&self, counted: u64, updates: u64) -> u64 {
        let goes_on = self.rule().filter(|rule| rule.voters == Voters::GoOn);
        goes_on.map_or(0, |rule| counted.saturating_sub(u64::from(rule.size) * updates))
    }
}

/// A parameter of a mode, and the problem with it.
pub(crate) type Problem = (&'static str, String);

/// Checks that the `parameter` of a mode, which counts something, is not 0.
pub(super) fn at_least_1(parameter: &'static str, value: u32) -> Result<(), Problem> {
    if value == 0 { Err((parameter, "0 must be at least 1".to_owned())) } else { Ok(()) }
}

/// A mode's needs of a training step. The graph builder, the executor's request and the shard read
/// these, and nothing else of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Each gradient is applied by itself, whatever version it was computed from.
    Nothing,
    /// The staleness of each gradient, by which a shard divides the learning rate.
    Staleness,
    /// The values that each worker has read last, by which a shard corrects its gradients.
    LastRead,
    /// Rounds of one gradient of each worker: the shards are the barrier.
    Barrier,
    /// Rounds that the task of the global step names: workers announce their gradients there.
    Votes {
        /// Whether the worker says when it begins a step, and is stopped once that is too late to
        /// count.
        cancel: bool,
    },
}

impl Needs {
    /// Whether the version of the variable that was read travels with the gradient.
    pub(crate) fn has_version(self) -> bool {
        self != Self::Nothing
    }

    /// Whether a shard divides the learning rate by the staleness of each gradient.
    pub(crate) fn divides_rate(self) -> bool {
        self == Self::Staleness
    }

    /// Whether a shard keeps the values that each worker has read last.
    pub(crate) fn keeps_reads(self) -> bool {
        self == Self::LastRead
    }

    /// Whether the worker announces its gradients to the task of the global step, which tells the
    /// shards where they count.
    pub(crate) fn has_votes(self) -> bool {
        matches!(self, Self::Votes { .. })
    }

    /// Whether the worker says when it begins a step, and is stopped if it is late.
    pub(crate) fn stops_late(self) -> bool {
        self == Self::Votes { cancel: true }
    }

    /// Whether a shard collects gradients into rounds, and applies their mean.
    pub(crate) fn has_rounds(self) -> bool {
        self.is_barrier() || self.has_votes()
    }

    /// Whether the shards are a barrier: each of their rounds has a gradient of every worker. The
    /// weights then do not depend on who is fast.
    pub(crate) fn is_barrier(self) -> bool {
        self == Self::Barrier
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
