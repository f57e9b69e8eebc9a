//! `LocalSgd`: workers that train copies of their own, and average them every so many steps.
//!
//! The trainable variables are each worker's own, and its inner optimizer updates them without a
//! message. Of each there is a center on the parameter servers (TensorFlow:
//! `ModelAverageOptimizer`, whose global variables these are). In every H-th step a worker sends
//! how far it has moved since it last read the center; the outer optimizer takes the mean of these
//! moves as a gradient, and every worker goes on from what it makes of the center. With gradient
//! descent of rate 1 that is the average of the workers (local SGD; Stich 2019), with momentum of
//! Nesterov it is DiLoCo (Douillard et al. 2023). The global step counts the averages.
//!
//! An average is a round of synchronous training: backups, lost workers and those that come back
//! are as there, and a worker that comes back begins at the center. Where the centers go back to a
//! checkpoint, how far the workers have moved since their last average still counts in the next.
//! What else a worker keeps, its optimizer's slots and the moving averages of batch normalisation,
//! is never averaged.

use crate::graph::{Gradient, Graph, GraphError, GraphProblem, Output, Target, Variable};
use crate::sync::Mode;

use super::{Optimizer, TrainOp};

/// An optimizer of a worker's own variables, and one that applies what the workers have learnt,
/// every so many steps.
#[derive(Clone, Debug)]
pub struct LocalSgd {
    inner: Optimizer,
    outer: Optimizer,
    every: u32,
}

impl LocalSgd {
    /// `inner` for a worker's own steps, and `outer`, every `every` steps, for the center.
    ///
    /// # Panics
    /// If `every` is 0.
    pub fn new(inner: impl Into<Optimizer>, outer: impl Into<Optimizer>, every: u32) -> Self {
        assert!(every > 0, "there is a step between one average and the next");
        let outer = outer.into();
        let inner =
            inner.into().coordinated(Mode::Async, outer.replica.worker, outer.replica.workers);
        Self { inner, outer, every }
    }

    /// The operations that train the worker's variables to make `loss` small, and average them.
    ///
    /// # Errors
    /// As [`Optimizer::minimize`]; if a trainable variable is not the worker's own, which
    /// [`Graph::with_local_variables`] makes it.
    #[track_caller]
    pub fn minimize(
        &self,
        loss: &Output,
        global_step: &Variable,
    ) -> Result<LocalTrainOp, GraphError> {
        self.train_op(global_step, |local_step| self.inner.minimize(loss, local_step))
    }

    /// The second half of [`LocalSgd::minimize`].
    ///
    /// # Errors
    /// As [`Optimizer::apply_gradients`]; if a trainable variable is not the worker's own.
    #[track_caller]
    pub fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<LocalTrainOp, GraphError> {
        self.train_op(global_step, |local_step| self.inner.apply_gradients(pairs, local_step))
    }

    #[track_caller]
    fn train_op(
        &self,
        global_step: &Variable,
        build: impl FnOnce(&Variable) -> Result<TrainOp, GraphError>,
    ) -> Result<LocalTrainOp, GraphError> {
        let graph = global_step.graph();
        let variables = graph.trainable_variables();
        if let Some(shared) = variables.iter().find(|variable| !variable.spec().is_local) {
            return Err(GraphError::new("LocalSgd", GraphProblem::NotLocal(shared.name())));
        }
        let local_step = graph.local_variable("local_step", &graph.constant(0i64))?;
        let step = build(&local_step)?;
        let copies = variables.into_iter().map(OwnCopy::new).collect::<Result<Vec<_>, _>>()?;
        let mut moves = Vec::with_capacity(copies.len());
        for copy in &copies {
            moves.push((copy.center.clone(), copy.moved_after(&step)?));
        }
        let round = self.outer.apply_gradients(&moves, global_step)?;
        let go_on =
            graph.with_control_dependencies(&[round.target()], |g| begin_again(g, &copies))?;
        let whole = graph.group("average", &[&round.commit, &round.whole, &go_on])?;
        Ok(LocalTrainOp {
            step,
            round: TrainOp { whole, ..round },
            begin_again: begin_again(graph, &copies)?,
            every: self.every,
        })
    }
}

/// The operations of the training steps of a worker that averages what it has learnt every so many
/// of them.
#[derive(Clone, Debug)]
pub struct LocalTrainOp {
    step: TrainOp,
    round: TrainOp,
    begin_again: Target,
    every: u32,
}

impl LocalTrainOp {
    /// The operation of step `number` of the worker, counted from 0: every so many of them end with
    /// an average.
    pub fn at(&self, number: u64) -> &TrainOp {
        if (number + 1).is_multiple_of(self.every.into()) { &self.round } else { &self.step }
    }

    /// The operation of a step that ends with an average.
    pub fn round(&self) -> &TrainOp {
        &self.round
    }

    /// Has the worker begin again at the center, and forget what it has learnt since the last
    /// average.
    pub fn begin_again(&self) -> &Target {
        &self.begin_again
    }
}

/// A worker's copy of a variable.
struct OwnCopy {
    own: Variable,
    /// What all workers average, where the parameter servers are.
    center: Variable,
    /// The center as the worker last read it.
    start: Variable,
}

impl OwnCopy {
    /// A center for `own`, with what would have been its first value; it begins with that of the
    /// center in place.
    #[track_caller]
    fn new(own: Variable) -> Result<Self, GraphError> {
        let (graph, name) = (own.graph(), own.name());
        let first = graph.first_value(&own);
        let center = graph
            .with_shared_variables(|g| g.untrainable_variable(&format!("{name}/center"), &first))?;
        graph.begin_with(&own, &center.read())?;
        let start = graph.local_variable(&format!("{name}/start"), &center.read())?;
        Ok(Self { own, center, start })
    }

    /// How far it has moved since the center was read, once `step` is done.
    #[track_caller]
    fn moved_after(&self, step: &TrainOp) -> Result<Output, GraphError> {
        self.own.graph().with_control_dependencies(&[step.target()], |_| {
            self.start.read().sub(&self.own.read_again())
        })
    }
}

/// Has all `copies` begin again at their centers.
#[track_caller]
fn begin_again(graph: &Graph, copies: &[OwnCopy]) -> Result<Target, GraphError> {
    let mut targets = Vec::with_capacity(2 * copies.len());
    for copy in copies {
        let center = copy.center.read_again();
        targets.extend([copy.own.assign(&center)?, copy.start.assign(&center)?]);
    }
    graph.group("begin_again", &targets.iter().collect::<Vec<_>>())
}
