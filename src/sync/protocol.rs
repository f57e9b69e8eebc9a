//! `Protocol`: what a mode of coordination is, at the three places where it acts.
//!
//! A worker sends what the mode needs with each gradient; a shard, which has one variable or a part
//! of one, says what becomes of a gradient; the task of the global step counts steps, and holds
//! workers back or lets them go. What travels between the places is typed, and carries the
//! [`Epoch`].

use std::collections::BTreeSet;
use std::fmt;

use super::{Effect, Epoch, Membership};

/// A mode: its parameters, and what it decides. One file in [`modes`](super::modes) each.
pub(crate) trait Protocol: fmt::Display {
    /// What is wrong with it for a training of `workers` workers: the parameter, and what to say of
    /// it.
    fn check(&self, workers: u32) -> Result<(), Problem> {
        let _any = workers;
        Ok(())
    }

    /// At the worker: what the graph of a step has to provide.
    fn needs(&self) -> Needs;

    /// At the worker: how it exchanges what it has learnt, where it trains copies of its own.
    fn copies(&self) -> Option<Copies> {
        None
    }

    /// At a shard: what becomes of a gradient that arrives.
    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        let _any = arrived;
        Treatment::Apply(Correction::default())
    }

    /// At the task of the global step: who counts and who waits, in a training of `workers`.
    fn policy(&self, workers: u32) -> Box<dyn Policy>;

    /// How many steps each of `workers` has taken at `global_step`: exactly with synchronous
    /// training; else as if they were equally fast.
    fn steps_of_a_worker(&self, global_step: u64, workers: u32) -> u64 {
        global_step / u64::from(workers.max(1))
    }

    /// Of `counted` gradients of a training that has had `updates` updates, how many are in none.
    fn left_over(&self, counted: u64, updates: u64) -> u64 {
        let _any = (counted, updates);
        0
    }
}

/// A parameter of a mode, and what is wrong with it.
pub(crate) type Problem = (&'static str, String);

/// What a mode needs of a training step. The graph builder, the executor's request and the shard
/// read this, and ask nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The version of the variable that was read travels with the gradient.
    pub(crate) version: bool,
    /// The worker says that gradients are on their way, and is told whether they count before it
    /// sends them.
    pub(crate) vote: bool,
    /// A shard collects gradients into rounds, whose mean is applied.
    pub(crate) rounds: bool,
    /// A shard keeps what each worker has read last.
    pub(crate) snapshot: bool,
}

impl Needs {
    /// A gradient is applied by itself, whatever it was computed from.
    pub(crate) const NOTHING: Self =
        Self { version: false, vote: false, rounds: false, snapshot: false };
    /// A shard has to know how stale a gradient is.
    pub(crate) const VERSION: Self = Self { version: true, ..Self::NOTHING };
    /// Rounds of one gradient of each worker.
    pub(crate) const BARRIER: Self = Self { rounds: true, ..Self::VERSION };
    /// Rounds of those gradients that the task of the global step names.
    pub(crate) const VOTE: Self = Self { vote: true, ..Self::BARRIER };
}

/// How workers that train copies of their own exchange what they learn with the center, which is on
/// the parameter servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// A worker's steps from one exchange to the next, at least 1.
    pub every: u32,
    /// What a worker sends, and how it goes on.
    pub exchange: Exchange,
    /// The learning rate of the center.
    pub learning_rate: f32,
    /// The momentum of the center, Nesterov's; none is gradient descent.
    pub momentum: Option<f32>,
}

/// What a worker sends to the center, and how it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exchange {
    /// It sends how far it has moved since it last read the center, and goes on from there.
    Begin,
    /// It sends this share of the distance to the center, and moves as far towards it.
    Pull {
        /// Above 0, at most 1.
        share: f32,
    },
}

/// What a variable is worth: how many updates it has had. Older ones are less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The epoch of the rounds that it was updated in; 0 where it has had none.
    pub epoch: Epoch,
    /// How many updates it has had.
    pub updates: u64,
}

/// What a worker says of a gradient, at the task of the global step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// Whose it is.
    pub worker: u32,
    /// The version of the variables that it was computed from, the least where they differ.
    pub version: Version,
}

/// Where a gradient counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// In which round.
    pub round: u64,
    /// Where in that round's sum, from 0: behind a barrier of all workers the worker's index.
    pub index: u32,
}

/// What the task of the global step has decided of a vote, for the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The epoch that it was decided in. Rounds are counted from 0 in each.
    pub epoch: Epoch,
    /// Where the gradient counts; none where it does not.
    pub place: Option<Place>,
    /// Rounds that some variable may still wait for, and their contributors by place. A variable
    /// learns so of its rounds even where the workers that they were closed on are lost.
    pub closed: Vec<(u64, Vec<u32>)>,
}

/// A gradient at a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) worker: u32,
    /// The version that it was computed from.
    pub(crate) version: u64,
    /// How many updates the variable has had.
    pub(crate) now: u64,
    pub(crate) verdict: Option<&'a Verdict>,
}

/// What becomes of a gradient at a shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Treatment {
    /// It is applied at once.
    Apply(Correction),
    /// It counts in a round.
    Collect {
        place: Place,
        /// Whether the worker's step waits until the round is applied.
        waits: bool,
    },
    /// It does not count.
    Drop,
}

/// How a gradient that is applied at once is made up for its staleness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The learning rate is divided by this.
    pub(crate) divisor: u64,
    /// How much of the variable's change since the worker has read it counts in the gradient.
    pub(crate) lambda: Option<f32>,
}

impl Default for Correction {
    fn default() -> Self {
        Self { divisor: 1, lambda: None }
    }
}

/// A training's decisions in one mode, at the task of the global step. The
/// [`Coordinator`](super::Coordinator) asks it; a contribution of another epoch, or of a worker
/// that has departed, does not come this far, nor does any once the training is over.
pub(crate) trait Policy: fmt::Debug {
    /// A worker's gradient is on its way.
    fn vote(&mut self, members: &Membership, one: Contribution) -> Vec<Effect> {
        panic!("nobody votes in this mode, {members:?} {one:?}");
    }

    /// The updates of `worker`'s step are applied or dropped.
    fn commit(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = members;
        vec![Effect::Release { worker }]
    }

    /// What the step counts for.
    fn count(&mut self, now: &mut i64, step: &Ended<'_>) -> Counted {
        count_each(now, step)
    }

    /// `worker` has departed: what it has open is answered, and others may now be enough.
    fn leave(&mut self, members: &Membership, worker: u32) -> Vec<Effect> {
        let _any = (members, worker);
        Vec::new()
    }

    /// `worker`, which had departed, is waited for again.
    fn rejoin(&mut self, worker: u32) {
        let _any = worker;
    }

    /// The training is over: whoever waits is let go.
    fn finish(&mut self) -> Vec<Effect> {
        Vec::new()
    }

    /// Who waits here, and so is between two steps.
    fn resting(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// Whom those who wait here wait for, by ascending index; empty where nobody waits.
    fn waiting_for(&self, members: &Membership) -> Vec<u32> {
        let _any = members;
        Vec::new()
    }

    /// Where workers vote: the round under way, and so the version of the variables that comes
    /// next.
    fn round(&self) -> Option<u64> {
        None
    }

    /// How many gradients make a round now, where they make rounds.
    fn round_size(&self, members: &Membership) -> Option<usize> {
        let _any = members;
        None
    }

    /// Whether a commit may have to wait.
    fn holds_commits(&self) -> bool {
        false
    }

    /// Whether the shards hold everybody: no round of theirs is complete without each worker.
    fn is_barrier(&self) -> bool {
        false
    }

    /// Whether a step that is taken again is another contribution, to the round under way by then;
    /// else it counts once.
    fn takes_steps_again(&self) -> bool {
        false
    }
}

/// The end of a worker's step, at the task of the global step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// The global step that it began at.
    pub(crate) read: i64,
    /// What it was told when it voted.
    pub(crate) verdict: Option<&'a Verdict>,
    /// The version that it voted for, where it is known.
    pub(crate) voted: Option<u64>,
}

/// What a step has counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The global step after it.
    pub(crate) global_step: i64,
    /// How many updates were applied between the step's reading of the variables and the
    /// application of its gradient.
    pub(crate) staleness: i64,
    /// Whether its gradient was applied.
    pub(crate) applied: bool,
}

impl Counted {
    /// A step that does not count.
    pub(crate) fn dropped(now: i64, step: &Ended<'_>) -> Self {
        Self { global_step: now, staleness: now - step.read, applied: false }
    }
}

/// Counts each step by itself.
pub(super) fn count_each(now: &mut i64, step: &Ended<'_>) -> Counted {
    let before = *now;
    *now += 1;
    Counted { global_step: *now, staleness: before - step.read, applied: true }
}
