//! Optimizers: the graph that applies gradients, the slots that it needs, and the update rules.
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
    Gradient, GraphError, MirroredGradients, Output, Replica, UpdateRule, Variable,
    variable_gradients,
};
use crate::sync::Mode;

pub(crate) use apply::apply;
pub use clip_gradients::ClipGradients;
pub(crate) use local_sgd::OuterOptimizer;
pub use local_sgd::{LocalSgd, LocalTrainOp};
pub use moving_average::ExponentialMovingAverage;
pub use rules::{
    Adadelta, Adagrad, AdagradDa, Adam, AdamW, Ftrl, GradientDescent, Lamb, Momentum,
    ProximalAdagrad, ProximalGradientDescent, Rated, RmsProp,
};
pub use rules::{
    AdadeltaRule, AdagradDaRule, AdagradRule, AdamRule, AdamWRule, FtrlRule, GradientDescentRule,
    LambRule, MomentumRule, ProximalAdagradRule, ProximalGradientDescentRule, RmsPropRule,
    register_rule,
};
pub(crate) use rules::{rule_named, rule_names};
pub(crate) use sync_replicas::tokens_of_an_update;
pub use sync_replicas::{SyncReplicas, SyncReplicasOp};
pub use train_op::TrainOp;
use train_op::{When, mirrored_train_op, train_op};
pub(crate) use update::{Compensation, Delta, Deltas, Update};

pub use crate::graph::{LearningRate, Schedule};

/// An update rule with its learning rate and the treatment of gradients before they are applied.
///
/// A plain value. Each rule's builder makes one ([`Adagrad`] and so on) and has all its methods
/// ([`IntoOptimizer`]). The coordination with other workers belongs to the run rather than
/// to the optimizer: a trainer hands the optimizer to
/// [`Task::minimize`](crate::training::Task::minimize).
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// The rule by which a gradient changes a variable.
    pub rule: UpdateRule,
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The bounds that gradients are clipped to.
    pub clip: Option<ClipGradients>,
    /// The share of each gradient that is sent to its variable's task at once, see
    /// [`Optimizer::top_k`]; all of it if `None`.
    pub top_k: Option<f64>,
    /// The worker that trains, and its coordination with the others.
    pub(crate) replica: Replica,
}

impl Optimizer {
    /// Creates an optimizer of one worker, which applies `rule` to whole gradients.
    pub fn new(rule: impl Into<UpdateRule>, learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            rule: rule.into(),
            learning_rate: learning_rate.into(),
            clip: None,
            top_k: None,
            replica: Replica::ALONE,
        }
    }

    /// Clips gradients to the bounds `clip`.
    ///
    /// # Panics
    /// If the bound is not positive.
    #[must_use]
    #[track_caller]
    pub fn clip(self, clip: ClipGradients) -> Self {
        clip.assert_positive();
        Self { clip: Some(clip), ..self }
    }

    /// Sends only the share `fraction` of each gradient, its greatest elements and at least one of
    /// them. The other elements wait with the worker, and are added to its next gradient (Aji and
    /// Heafield 2017). Gradients of single rows, and of fewer than 64 elements, are sent whole.
    ///
    /// # Panics
    /// If the fraction is not above 0 and at most 1.
    #[must_use]
    #[track_caller]
    pub fn top_k(self, fraction: f64) -> Self {
        assert!(
            fraction > 0.0 && fraction <= 1.0,
            "a fraction of {fraction} is not above 0 and at most 1"
        );
        Self { top_k: Some(fraction), ..self }
    }

    /// Makes this the optimizer of worker `worker` of `workers` that train the same variables,
    /// coordinated by `mode`. For programs without a [`Task`](crate::training::Task): a task's
    /// `minimize` does this with the run's mode.
    ///
    /// # Panics
    /// If there is no such worker, or the mode does not fit so many workers: as many backups as
    /// workers, or more gradients of different workers in an update than there are workers.
    #[must_use]
    #[track_caller]
    pub fn coordinated(self, mode: Mode, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} is not one of {workers}");
        if let Err((_, problem)) = mode.check(workers) {
            panic!("{problem}");
        }
        Self { replica: Replica { worker, workers, mode }, ..self }
    }

    /// Creates the operation of a training step: it computes the gradients of `loss` by all
    /// trainable variables, applies them, then adds one to `global_step`. If only rows of a
    /// variable were gathered, only these rows are updated.
    ///
    /// # Errors
    /// If `loss` depends on no trainable variable, or through an operation without gradient; if a
    /// parameter of the update rule is out of its range; or if the mode does not allow the
    /// operation beside an earlier one of the graph.
    #[track_caller]
    pub fn minimize(&self, loss: &Output, global_step: &Variable) -> Result<TrainOp, GraphError> {
        self.apply_gradients(&gradients_of(loss)?, global_step)
    }

    /// The second half of [`Optimizer::minimize`], for gradients that the program has changed: each
    /// is an [`Output`], [`IndexedSlices`](crate::graph::IndexedSlices) or a [`Gradient`], which is
    /// either.
    ///
    /// # Errors
    /// If there are no gradients, one does not fit its variable, or they are of another graph than
    /// `global_step`; if a parameter of the update rule is out of its range; or if the mode does
    /// not allow the operation beside an earlier one of the graph.
    #[track_caller]
    pub fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<TrainOp, GraphError> {
        apply_gradients_by(&[(self.clone(), as_gradients(pairs))], global_step)
    }

    /// The same for the gradients of mirrored towers: each tower updates its own variables. The
    /// towers are those of one worker, which has no others to be coordinated with.
    ///
    /// # Errors
    /// If the gradients are of another graph than `global_step`, or if a parameter of the update
    /// rule is out of its range.
    #[track_caller]
    pub fn apply_mirrored_gradients(
        &self,
        gradients: &MirroredGradients,
        global_step: &Variable,
    ) -> Result<TrainOp, GraphError> {
        mirrored_train_op(self, gradients, global_step)
    }
}

/// Why `rule` can't train in `mode`, if it can't.
pub(crate) fn misfit(rule: &UpdateRule, mode: Mode) -> Option<String> {
    let is_misfit = rule.scales_by_rate() && mode.needs().divides_rate();
    is_misfit.then(|| {
        format!(
            "the update rule `{}` computes a weight anew from the learning rate and sums of all \
             gradients: dividing the rate by the staleness of one gradient, as the mode {mode} \
             does, would scale the whole weight; take another rule, such as `adagrad`, or the mode \
             `async`",
            rule.name()
        )
    })
}

/// A value that makes an optimizer: a rule's builder, such as [`Adam`], or an [`Optimizer`] itself.
///
/// It gives the builders the optimizer's methods, so that `Adam::new(0.1).minimize(…)` reads as in
/// TensorFlow.
pub trait IntoOptimizer: Into<Optimizer> + Clone {
    /// See [`Optimizer::clip`].
    #[must_use]
    #[track_caller]
    fn clip(self, clip: ClipGradients) -> Optimizer {
        self.into().clip(clip)
    }

    /// See [`Optimizer::top_k`].
    #[must_use]
    #[track_caller]
    fn top_k(self, fraction: f64) -> Optimizer {
        self.into().top_k(fraction)
    }

    /// See [`Optimizer::coordinated`].
    #[must_use]
    #[track_caller]
    fn coordinated(self, mode: Mode, worker: u32, workers: u32) -> Optimizer {
        self.into().coordinated(mode, worker, workers)
    }

    /// See [`Optimizer::minimize`].
    ///
    /// # Errors
    /// As [`Optimizer::minimize`].
    #[track_caller]
    fn minimize(&self, loss: &Output, global_step: &Variable) -> Result<TrainOp, GraphError> {
        self.clone().into().minimize(loss, global_step)
    }

    /// See [`Optimizer::apply_gradients`].
    ///
    /// # Errors
    /// As [`Optimizer::apply_gradients`].
    #[track_caller]
    fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<TrainOp, GraphError> {
        self.clone().into().apply_gradients(pairs, global_step)
    }
}

impl<T: Into<Optimizer> + Clone> IntoOptimizer for T {}

/// The trainable variables that `loss` depends on, each with its gradient by `loss`, which is to be
/// minimized.
#[track_caller]
pub(crate) fn gradients_of(loss: &Output) -> Result<Vec<(Variable, Gradient)>, GraphError> {
    let variables = loss.graph().trainable_variables();
    let gradients = variable_gradients(loss, &variables)?;
    loss.graph().minimizes(loss);
    Ok(variables.into_iter().zip(gradients).filter_map(|(v, g)| Some((v, g?))).collect())
}

/// The variables of a training operation that one optimizer updates, with their gradients.
pub(crate) type Part = (Optimizer, Vec<(Variable, Gradient)>);

/// As [`Optimizer::apply_gradients`], with an optimizer for each list of variables. The optimizers
/// are those of one worker.
#[track_caller]
pub(crate) fn apply_gradients_by(
    parts: &[Part],
    global_step: &Variable,
) -> Result<TrainOp, GraphError> {
    let read = When { global_step: &global_step.read(), versions: &[] };
    train_op(parts, global_step, read)
}

/// Converts `pairs` with gradients of either form to one type.
pub(crate) fn as_gradients<G: Into<Gradient> + Clone>(
    pairs: &[(Variable, G)],
) -> Vec<(Variable, Gradient)> {
    pairs.iter().map(|(variable, gradient)| (variable.clone(), gradient.clone().into())).collect()
}
