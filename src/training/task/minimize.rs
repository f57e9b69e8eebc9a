//! How a task's training steps are built: as the run coordinates, compresses and averages.

use crate::graph::{
    Gradient, Graph, GraphError, GraphProblem, MirroredGradients, Output, Replica, Variable,
};
use crate::optimizer::{
    LocalSgd, Optimizer, OuterOptimizer, Part, TrainOp, apply_gradients_by, as_gradients,
    gradients_of,
};
use crate::runtime::{Code, Error, Result};
use crate::sync::Copies;

use super::Task;

impl Task {
    /// The operation of a training step that minimizes `loss` with `optimizer`: it computes the
    /// gradients of all trainable variables, applies them and counts the step. The run's mode
    /// coordinates it, and the run's compression applies to what it sends.
    ///
    /// If the run's workers train copies of their own, the graph's variables become the worker's
    /// own, and the operation averages them as often as the run says.
    ///
    /// # Errors
    /// As [`Optimizer::minimize`]; if the task is no worker.
    #[track_caller]
    pub fn minimize(
        &self,
        optimizer: impl Into<Optimizer>,
        loss: &Output,
    ) -> Result<TrainOp, GraphError> {
        self.train_op(vec![(optimizer.into(), gradients_of(loss)?)])
    }

    /// The second half of [`Task::minimize`], for gradients that the program has changed, or of
    /// some variables alone: those without a gradient stay as they are.
    ///
    /// ```
    /// use trainyard::graph::{Gradient, variable_gradients};
    /// use trainyard::prelude::*;
    ///
    /// /// Trains the variables of the layer `layer`, and freezes all others.
    /// fn train_only(layer: &str, task: &Task, loss: &Output) -> Result<TrainOp, GraphError> {
    ///     let mut trained = loss.graph().trainable_variables();
    ///     trained.retain(|variable| variable.name().starts_with(layer));
    ///     let gradients = variable_gradients(loss, &trained)?;
    ///     let pairs = trained.into_iter().zip(gradients);
    ///     let pairs: Vec<(Variable, Gradient)> =
    ///         pairs.filter_map(|(variable, gradient)| Some((variable, gradient?))).collect();
    ///     task.apply_gradients(Adagrad::new(0.05), &pairs)
    /// }
    /// ```
    ///
    /// A graph may have several training operations, such as the two of a GAN. In the mode `sync`
    /// all workers must take the same one in a round, also a worker that has been started again:
    /// choose it by
    /// [`MonitoredSession::global_step`](crate::training::MonitoredSession::global_step). `sync`
    /// with backups, `k_async` and the K-batch modes refuse operations of different variables, and
    /// modes in which workers train copies refuse any second one: see
    /// [`Task::apply_gradients_by`].
    ///
    /// # Errors
    /// As [`Optimizer::apply_gradients`]; if the task is no worker.
    #[track_caller]
    pub fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        optimizer: impl Into<Optimizer>,
        pairs: &[(Variable, G)],
    ) -> Result<TrainOp, GraphError> {
        self.train_op(vec![(optimizer.into(), as_gradients(pairs))])
    }

    /// As [`Task::apply_gradients`], with an optimizer for each list of variables: one training
    /// operation, which counts one step in every mode. Each optimizer clips its own gradients.
    /// (TensorFlow groups the operations of its optimizers, as `DNNLinearCombinedClassifier` does.)
    ///
    /// ```
    /// use trainyard::graph::variable_gradients;
    /// use trainyard::prelude::*;
    ///
    /// /// Trains the variables whose names begin with `wide` by FTRL, and the others by Adagrad.
    /// fn train(task: &Task, loss: &Output) -> Result<TrainOp, GraphError> {
    ///     let variables = loss.graph().trainable_variables();
    ///     let gradients = variable_gradients(loss, &variables)?;
    ///     let pairs = variables.into_iter().zip(gradients);
    ///     let pairs = pairs.filter_map(|(variable, gradient)| Some((variable, gradient?)));
    ///     let (wide, deep): (Vec<_>, Vec<_>) =
    ///         pairs.partition(|(variable, _)| variable.name().starts_with("wide"));
    ///     let ftrl = Optimizer::from(Ftrl::new(0.1));
    ///     task.apply_gradients_by(&[(ftrl, wide), (Adagrad::new(0.05).into(), deep)])
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Task::apply_gradients`]; if a list is empty, or two have the same variable.
    #[track_caller]
    pub fn apply_gradients_by(
        &self,
        by: &[(Optimizer, Vec<(Variable, Gradient)>)],
    ) -> Result<TrainOp, GraphError> {
        self.train_op(by.to_vec())
    }

    /// As [`Task::apply_gradients`], for the gradients of mirrored towers, all of which this task's
    /// client runs.
    ///
    /// # Errors
    /// As [`Task::apply_gradients`]; if other workers train beside this one, or copies or parts of
    /// gradients are what the run's workers exchange.
    #[track_caller]
    pub fn apply_mirrored_gradients(
        &self,
        optimizer: impl Into<Optimizer>,
        gradients: &MirroredGradients,
    ) -> Result<TrainOp, GraphError> {
        let optimizer = self.coordinated(optimizer.into())?;
        let Replica { workers, mode, .. } = optimizer.replica;
        if workers > 1 || mode.copies().is_some() || optimizer.top_k.is_some() {
            let message = format!(
                "mirrored towers are one client's, and whole gradients are summed, so that they \
                 don't go with {workers} workers ({mode}) or with `top_k`; make the workers' tasks \
                 one replica, and train in the mode `sync`"
            );
            return Err(Error::new(Code::InvalidArgument, message).into());
        }
        let Some((variable, _)) = gradients.towers.first().and_then(|own| own.first()) else {
            return Err(GraphError::new("apply_gradients", GraphProblem::NoGradients));
        };
        let graph = variable.graph();
        self.count_inputs(graph)?;
        optimizer.apply_mirrored_gradients(gradients, &graph.global_step()?)
    }

    /// Runs `build`, whose variables are shared by all workers or are each worker's own, as the run
    /// trains them. A program need not call it: [`Task::minimize`] moves variables that are
    /// elsewhere.
    ///
    /// # Errors
    /// The error of `build`.
    pub(in crate::training) fn with_variables<T>(
        &self,
        g: &Graph,
        build: impl FnOnce(&Graph) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        if self.copies().is_some() { g.with_local_variables(build) } else { build(g) }
    }

    #[track_caller]
    fn train_op(&self, parts: Vec<Part>) -> Result<TrainOp, GraphError> {
        let Some((variable, _)) = parts.first().and_then(|(_, pairs)| pairs.first()) else {
            return Err(GraphError::new("apply_gradients", GraphProblem::NoGradients));
        };
        let graph = &variable.graph().clone();
        let step = graph.global_step()?;
        let Some(copies) = self.copies() else {
            self.count_inputs(graph)?;
            let mut coordinated = Vec::with_capacity(parts.len());
            for (optimizer, pairs) in parts {
                coordinated.push((self.coordinated(optimizer)?, pairs));
            }
            if coordinated.iter().any(|(optimizer, _)| optimizer.top_k.is_some()) {
                self.count_own_values(graph)?;
            }
            return apply_gradients_by(&coordinated, &step);
        };
        graph.make_variables_local();
        self.count_inputs(graph)?;
        self.count_own_values(graph)?;
        let center = self.coordinated(LocalSgd::center(&copies))?;
        // Compression is for gradients that are sent; these stay on the worker.
        let own = |(optimizer, pairs)| (Optimizer { top_k: None, ..optimizer }, pairs);
        let own = parts.into_iter().map(own).collect();
        let outer = OuterOptimizer::new(center, copies.every);
        Ok(outer.apply_gradients_by(own, &step)?.train_op())
    }

    /// How the worker averages its own copies, if it trains copies.
    pub(super) fn copies(&self) -> Option<Copies> {
        self.inner.replica.and_then(|replica| replica.mode.copies())
    }

    /// `optimizer` with the run's settings: coordinated with the other workers, its gradients
    /// compressed.
    ///
    /// # Errors
    /// If the task is no worker.
    fn coordinated(&self, mut optimizer: Optimizer) -> Result<Optimizer> {
        let Some(Replica { worker, workers, mode }) = self.inner.replica else {
            let message = format!("{} is no worker: it trains nothing", self.name());
            return Err(Error::new(Code::FailedPrecondition, message));
        };
        optimizer.top_k = optimizer.top_k.or(self.settings().optimizer.top_k);
        Ok(optimizer.coordinated(mode, worker, workers))
    }
}
