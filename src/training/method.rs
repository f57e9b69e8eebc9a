//! How the workers of the built-in trainer train: the same variables, or copies of their own that
//! they average.

use crate::graph::{Gradient, Graph, GraphError, Output, Target, Variable};
use crate::optimizer::{LocalSgd, LocalTrainOp, Optimizer, TrainOp};
use crate::runtime::Result;

use super::task::Task;

/// How a worker trains.
pub(super) enum Method {
    /// Each step updates the variables that all workers share.
    Shared(Optimizer),
    /// Steps update the worker's own, of which every few there is an average.
    Local(LocalSgd),
}

/// The operations of a worker's training steps.
pub(super) enum TrainOps {
    Shared(TrainOp),
    Local(LocalTrainOp),
}

impl Method {
    /// What the task's settings say.
    ///
    /// # Errors
    /// If the task is no worker.
    pub(super) fn of(task: &Task) -> Result<Self> {
        let own = task.settings().optimizer.clone();
        let copies = task.replica().and_then(|replica| replica.mode.copies());
        let Some(copies) = copies else { return Ok(Self::Shared(task.coordinated(own)?)) };
        // What is compressed is what is sent.
        let own = Optimizer { top_k: None, ..own };
        let center = task.coordinated(LocalSgd::center(&copies))?;
        Ok(Self::Local(LocalSgd::new(own, center, copies.every)))
    }

    /// Builds the variables that are trained where the method has them.
    pub(super) fn with_variables<T>(
        &self,
        g: &Graph,
        build: impl FnOnce(&Graph) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        match self {
            Self::Shared(_) => build(g),
            Self::Local(_) => g.with_local_variables(build),
        }
    }

    /// The steps that make `loss` small.
    pub(super) fn minimize(
        &self,
        loss: &Output,
        global_step: &Variable,
    ) -> Result<TrainOps, GraphError> {
        Ok(match self {
            Self::Shared(optimizer) => TrainOps::Shared(optimizer.minimize(loss, global_step)?),
            Self::Local(optimizer) => TrainOps::Local(optimizer.minimize(loss, global_step)?),
        })
    }

    /// The steps that apply these gradients.
    pub(super) fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<TrainOps, GraphError> {
        Ok(match self {
            Self::Shared(optimizer) => {
                TrainOps::Shared(optimizer.apply_gradients(pairs, global_step)?)
            }
            Self::Local(optimizer) => {
                TrainOps::Local(optimizer.apply_gradients(pairs, global_step)?)
            }
        })
    }
}

impl TrainOps {
    /// That of step `number` of the worker, counted from 0.
    pub(super) fn at(&self, number: u64) -> &TrainOp {
        match self {
            Self::Shared(train_op) => train_op,
            Self::Local(train_op) => train_op.at(number),
        }
    }

    /// That of a step that changes what workers share.
    pub(super) fn shared(&self) -> &TrainOp {
        match self {
            Self::Shared(train_op) => train_op,
            Self::Local(train_op) => train_op.round(),
        }
    }

    /// What makes the worker's variables those that the workers share, where they are not.
    pub(super) fn begin_again(&self) -> Option<&Target> {
        match self {
            Self::Shared(_) => None,
            Self::Local(train_op) => Some(train_op.begin_again()),
        }
    }
}
