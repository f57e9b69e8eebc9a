//! Optimizers: the graph that applies gradients, the slots they need, and the update rules
//! themselves.
//!
//! ```
//! # use trainyard::prelude::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
//! let loss = dense(&x, 1)?.square().mean();
//! let train_op = Adagrad::new(0.05).minimize(&loss, &g.global_step()?)?;
//! assert_eq!(train_op.target().name(), "train");
//! # Ok(())
//! # }
//! ```

mod apply;
mod clip_gradients;
mod coordinated;
mod local_sgd;
mod moving_average;
mod rows;
mod rules;
mod sync_replicas;
#[cfg(test)]
mod tests;
mod top_k;
mod train_op;
mod update;

use crate::graph::{
    Gradient, GraphError, Output, Replica, UpdateRule, Variable, variable_gradients,
};
use crate::sync::Mode;

pub(crate) use apply::apply;
pub use clip_gradients::{ClipGradients, Clipped};
pub use coordinated::Coordinated;
pub use local_sgd::{LocalSgd, LocalTrainOp};
pub use moving_average::ExponentialMovingAverage;
pub use rules::{
    Adadelta, Adagrad, AdagradDa, Adam, AdamW, Ftrl, GradientDescent, Lamb, Momentum,
    ProximalAdagrad, ProximalGradientDescent, RmsProp,
};
pub use sync_replicas::{SyncReplicas, SyncReplicasOp};
pub use top_k::TopK;
pub use train_op::TrainOp;
use train_op::train_op;
pub(crate) use update::{Compensation, Delta, Deltas, Update};

pub use crate::graph::{LearningRate, Schedule};

/// A way to change variables by their gradients.
pub trait Optimizer {
    /// How a gradient changes a variable.
    fn rule(&self) -> UpdateRule;

    /// The learning rate.
    fn learning_rate(&self) -> LearningRate;

    /// The bounds that gradients are kept in.
    fn clip(&self) -> Option<ClipGradients> {
        None
    }

    /// The share of each gradient that is sent to its variable's task at once; all of it, where
    /// there is none.
    fn top_k(&self) -> Option<f64> {
        None
    }

    /// Which of the workers this is, that train the same variables.
    fn replica(&self) -> Replica {
        Replica { worker: 0, workers: 1, mode: Mode::Async }
    }

    /// The operation of a training step: computes the gradients of `loss` by all trainable
    /// variables, applies them, then adds one to `global_step`. Where only rows of a variable were
    /// gathered, these rows alone are updated.
    ///
    /// # Errors
    /// If `loss` depends on no trainable variable, or through an operation without gradient.
    #[track_caller]
    fn minimize(&self, loss: &Output, global_step: &Variable) -> Result<TrainOp, GraphError> {
        let variables = loss.graph().trainable_variables();
        let gradients = variable_gradients(loss, &variables)?;
        let pairs = variables.into_iter().zip(gradients).filter_map(|(v, g)| Some((v, g?)));
        train_op(self, &pairs.collect::<Vec<_>>(), global_step)
    }

    /// The second half of [`Optimizer::minimize`], for gradients that were changed on the way: each
    /// is an [`Output`], [`IndexedSlices`](crate::graph::IndexedSlices) or a [`Gradient`], which is
    /// either.
    ///
    /// # Errors
    /// If there are none, one does not fit its variable, or they are of another graph than
    /// `global_step`.
    #[track_caller]
    fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<TrainOp, GraphError>
    where
        Self: Sized,
    {
        let gradient =
            |(variable, gradient): &(Variable, G)| (variable.clone(), gradient.clone().into());
        train_op(self, &pairs.iter().map(gradient).collect::<Vec<_>>(), global_step)
    }
}
