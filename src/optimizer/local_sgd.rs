//! `LocalSgd`: workers train copies of their own, and exchange what they learn every so many steps.
//!
//! The trainable variables are each worker's own, and its inner optimizer updates them without a
//! message. Each has a center on the parameter servers (the global variables of TensorFlow's
//! `ModelAverageOptimizer`). In every H-th step a worker exchanges with the center, in the way of
//! the run's mode ([`Exchange`]):
//!
//! - Either it sends how far it has moved since it last read the center. The outer optimizer
//!   applies the mean of these moves as a gradient, and every worker goes on from the new center.
//!   With gradient descent of rate 1 the center is the average of the workers (local SGD; Stich
//!   2019), with Nesterov's momentum it is DiLoCo (Douillard et al. 2023).
//! - Or it sends a share of its distance to the center, and moves as far towards it.
//!
//! The global step counts the exchanges. The mode decides whether an exchange waits for others: an
//! average is a round of synchronous training, with the same treatment of backups, lost workers and
//! workers that come back. A worker that comes back begins at the center. If the centers go back to
//! a checkpoint, so do the workers, each to its own values after the exchange that the checkpoint
//! has. A worker never exchanges its other variables: its optimizer's slots and the moving averages
//! of batch normalisation.
//!
//! With backups a move counts only if nobody has moved the center since the worker read it, which
//! is at the end of its last exchange ([`LastRead`]).

mod last_read;

use std::collections::BTreeMap;

use crate::graph::{Gradient, Graph, GraphError, GraphProblem, Output, Replica, Target, Variable};
use crate::sync::{Copies, Exchange, Mode};

use super::train_op::{When, train_op};
use super::{
    GradientDescent, Momentum, Optimizer, Part, TrainOp, apply_gradients_by, as_gradients,
    gradients_of,
};
use last_read::LastRead;

/// An optimizer of a worker's own variables, with one that applies what the workers have learnt,
/// every so many steps.
#[derive(Clone, Debug)]
pub struct LocalSgd {
    inner: Optimizer,
    outer: OuterOptimizer,
}

impl LocalSgd {
    /// Uses `inner` for a worker's own steps and `outer`, every `every` steps, for the center. The
    /// mode of `outer` decides how they exchange; by default they average.
    ///
    /// # Panics
    /// If `every` is 0.
    pub fn new(inner: impl Into<Optimizer>, outer: impl Into<Optimizer>, every: u32) -> Self {
        Self { inner: inner.into(), outer: OuterOptimizer::new(outer.into(), every) }
    }

    /// The name of the variable with the number of a worker's own steps.
    pub(crate) const LOCAL_STEP: &str = "local_step";

    /// The name of the center of the copies called `copies`.
    pub(crate) fn center_of(copies: &str) -> String {
        format!("{copies}/center")
    }

    /// The name of the copies whose center is called `center`; none if that is no center's name.
    pub(crate) fn copies_of(center: &str) -> Option<&str> {
        center.strip_suffix("/center")
    }

    /// A worker's copies in `graph`, each by the name of its center.
    pub(crate) fn copies(graph: &Graph) -> BTreeMap<String, Variable> {
        let own = graph.local_initializers().into_iter();
        own.map(|(own, _)| (Self::center_of(&own.name()), own)).collect()
    }

    /// `outputs` of the model as a checkpoint has it. Where copies and centers only pull each
    /// other, no copy is at its center: then `outputs` are computed from the centers.
    ///
    /// # Errors
    /// If an output belongs to another graph.
    #[track_caller]
    pub(crate) fn at_centers<const N: usize>(
        graph: &Graph,
        outputs: [&Output; N],
    ) -> Result<[Output; N], GraphError> {
        let copies = graph.shared_replica().and_then(|replica| replica.mode.copies());
        let pull = |copies: Copies| matches!(copies.exchange, Exchange::Pull { .. });
        if !copies.is_some_and(pull) {
            return Ok(outputs.map(Output::clone));
        }
        let copies = Self::copies(graph);
        let with_copy = |center: Variable| Some((copies.get(&center.name())?.clone(), center));
        let pairs: Vec<_> = graph.variables().into_iter().filter_map(with_copy).collect();
        graph.read_instead(&pairs, outputs)
    }

    /// Whether the own variable `name` only says when the worker last read the centers: it has no
    /// place in a checkpoint.
    pub(crate) fn notes_a_read(name: &str) -> bool {
        LastRead::has(name)
    }

    /// The optimizer that applies to the center what the workers send.
    pub(crate) fn center(copies: &Copies) -> Optimizer {
        let rate = copies.learning_rate;
        match copies.momentum {
            Some(momentum) => Momentum::new(rate, momentum).use_nesterov().into(),
            None => GradientDescent::new(rate).into(),
        }
    }

    /// Creates the operations that train the worker's variables to make `loss` small, and average
    /// them.
    ///
    /// # Errors
    /// As [`Optimizer::minimize`]; if a trainable variable is not the worker's own, as
    /// [`Graph::with_local_variables`] makes it; if the graph has such operations already.
    #[track_caller]
    pub fn minimize(
        &self,
        loss: &Output,
        global_step: &Variable,
    ) -> Result<LocalTrainOp, GraphError> {
        self.apply_gradients(&gradients_of(loss)?, global_step)
    }

    /// The second half of [`LocalSgd::minimize`].
    ///
    /// # Errors
    /// As [`Optimizer::apply_gradients`]; if a trainable variable is not the worker's own, or the
    /// graph has such operations already.
    #[track_caller]
    pub fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<LocalTrainOp, GraphError> {
        let parts = vec![(self.inner.clone(), as_gradients(pairs))];
        self.outer.apply_gradients_by(parts, global_step)
    }
}

/// The optimizer of the centers, and how workers exchange with them, whatever their inner
/// optimizers.
#[derive(Clone, Debug)]
pub(crate) struct OuterOptimizer {
    optimizer: Optimizer,
    every: u32,
    exchange: Exchange,
}

impl OuterOptimizer {
    /// Uses `optimizer` every `every` steps. Its mode decides how workers exchange; by default they
    /// average.
    ///
    /// # Panics
    /// If `every` is 0.
    pub(crate) fn new(optimizer: Optimizer, every: u32) -> Self {
        assert!(every > 0, "there is a step between one average and the next");
        let copies = optimizer.replica.mode.copies();
        let exchange = copies.map_or(Exchange::Begin, |copies| copies.exchange);
        Self { optimizer, every, exchange }
    }

    /// The global step when the worker read the centers: one that pulls reads them after its
    /// `step`, while one that begins again there has read them in the exchange before, which it
    /// has noted if it was the `last`. Behind a barrier no center changes in between.
    #[track_caller]
    fn read_of_global_step(
        &self,
        global_step: &Variable,
        step: &TrainOp,
        last: Option<&LastRead>,
    ) -> Result<Output, GraphError> {
        match self.exchange {
            Exchange::Begin => {
                Ok(last.map_or_else(|| global_step.read(), LastRead::read_global_step))
            }
            Exchange::Pull { .. } => {
                let graph = global_step.graph();
                graph.with_control_dependencies(&[step.target()], |_| Ok(global_step.read_again()))
            }
        }
    }

    /// The number of the step that a worker begins with, 0 unless others have trained before it:
    /// then it takes its place in the schedules of the learning rates.
    #[track_caller]
    fn first_step(&self, global_step: &Variable, parts: &[Part]) -> Result<Output, GraphError> {
        let graph = global_step.graph();
        if parts.iter().all(|(inner, _)| inner.learning_rate.constant().is_some()) {
            return Ok(graph.constant(0i64)); // no schedule
        }
        let steps = global_step.read().mul(&graph.constant(i64::from(self.every)))?;
        match self.exchange {
            Exchange::Begin => Ok(steps),
            // The global step counts the exchange of each worker by itself.
            Exchange::Pull { .. } => {
                steps.floor_div(&graph.constant(i64::from(self.optimizer.replica.workers)))
            }
        }
    }

    /// As [`LocalSgd::apply_gradients`], with an inner optimizer for each list of variables.
    #[track_caller]
    pub(crate) fn apply_gradients_by(
        &self,
        mut parts: Vec<Part>,
        global_step: &Variable,
    ) -> Result<LocalTrainOp, GraphError> {
        let graph = global_step.graph();
        let Replica { worker, workers, mode } = self.optimizer.replica;
        graph.check_is_only_training(mode)?;
        for (inner, _) in &mut parts {
            inner.replica = Replica { worker, workers, mode: Mode::Async };
        }
        let variables = graph.trainable_variables();
        if let Some(shared) = variables.iter().find(|variable| !variable.spec().is_local) {
            return Err(GraphError::new("LocalSgd", GraphProblem::NotLocal(shared.name())));
        }
        let local_step = graph.without_control_dependencies(|g| {
            g.local_variable(LocalSgd::LOCAL_STEP, &self.first_step(global_step, &parts)?)
        })?;
        let step = apply_gradients_by(&parts, &local_step)?;
        let copies: Vec<OwnCopy> = graph.without_control_dependencies(|_| {
            variables.into_iter().map(|own| OwnCopy::new(own, self.exchange)).collect()
        })?;
        let mut sent = Vec::with_capacity(copies.len());
        for copy in &copies {
            sent.push((copy.center.clone(), copy.sent_after(&step)?));
        }
        let last = graph.without_control_dependencies(|_| self.last_read(global_step, &copies))?;
        let read = self.read_of_global_step(global_step, &step, last.as_ref())?;
        let versions = last.as_ref().map(LastRead::read_versions).unwrap_or_default();
        let read = When { global_step: &read, versions: &versions };
        let outer = [(self.optimizer.clone(), as_gradients(&sent))];
        let round = train_op(&outer, global_step, read)?;
        let after = [round.target()];
        let begin_again = |g: &Graph| begin_again(g, &copies, last.as_ref());
        let go_on = match self.exchange {
            Exchange::Begin => graph.with_control_dependencies(&after, begin_again)?,
            Exchange::Pull { .. } => {
                graph.with_control_dependencies(&after, |g| move_towards(g, &copies, &sent))?
            }
        };
        let whole = graph.group("average", &[&round.end, &round.whole, &go_on])?;
        Ok(LocalTrainOp {
            step,
            round: TrainOp { whole, ..round },
            begin_again: graph.without_control_dependencies(begin_again)?,
            every: self.every,
        })
    }

    /// What the worker notes each time that it reads the centers of `copies`. None unless the
    /// exchange is a vote: only then can others move the centers before the exchange.
    #[track_caller]
    fn last_read(
        &self,
        global_step: &Variable,
        copies: &[OwnCopy],
    ) -> Result<Option<LastRead>, GraphError> {
        let is_noted =
            self.exchange == Exchange::Begin && self.optimizer.replica.mode.needs().has_votes();
        let centers = copies.iter().map(|copy| &copy.center);
        is_noted.then(|| LastRead::new(global_step, centers)).transpose()
    }
}

/// The operations of the training steps of a worker that exchanges what it has learnt every so many
/// steps.
#[derive(Clone, Debug)]
pub struct LocalTrainOp {
    step: TrainOp,
    round: TrainOp,
    begin_again: Target,
    every: u32,
}

impl LocalTrainOp {
    /// The operation of the worker's step `number`, counted from 0: every so many steps it ends
    /// with an exchange.
    pub fn at(&self, number: u64) -> &TrainOp {
        if (number + 1).is_multiple_of(self.every.into()) { &self.round } else { &self.step }
    }

    /// The same as one operation: a monitored session runs the exchange beside it in every so many
    /// of the worker's steps, and has the chief begin again at the center before it ends.
    pub fn train_op(self) -> TrainOp {
        let graph = self.step.whole.graph();
        graph.every_nth_step(&self.step.whole, self.every, &self.round.whole);
        graph.settle_with(&self.begin_again);
        self.step
    }

    /// The operation of a step that ends with an exchange.
    pub fn round(&self) -> &TrainOp {
        &self.round
    }

    /// Restarts the worker at the center, and drops what it has learnt since the last exchange.
    pub fn begin_again(&self) -> &Target {
        &self.begin_again
    }
}

/// A worker's copy of a variable.
struct OwnCopy {
    own: Variable,
    /// The variable that all workers share, on the parameter servers.
    center: Variable,
    sent: Sent,
}

/// What a worker sends of its copy.
enum Sent {
    /// Its move since it last read the center, whose value then is in this variable.
    MoveFrom(Variable),
    /// This share of its distance to the center.
    Share(f32),
}

impl OwnCopy {
    /// Creates the center of `own`, with the first value that `own` would have had; `own` begins
    /// with the value of the center instead. Of a shard it is a part of the whole's center, so that
    /// checkpoints can be restored in other parts.
    #[track_caller]
    fn new(own: Variable, exchange: Exchange) -> Result<Self, GraphError> {
        let (graph, name) = (own.graph(), own.name());
        let first = graph.initial_value(&own);
        let called = LocalSgd::center_of(&name);
        let center = graph.with_shared_variables(|g| g.untrainable_variable(&called, &first))?;
        graph.make_part_beside(&own, &center);
        graph.replace_initial_value(&own, &center.read())?;
        let sent = match exchange {
            Exchange::Begin => {
                let start = graph.local_variable(&format!("{name}/start"), &center.read())?;
                graph.make_part_beside(&own, &start);
                Sent::MoveFrom(start)
            }
            Exchange::Pull { share } => Sent::Share(share),
        };
        Ok(Self { own, center, sent })
    }

    /// The gradient that is sent to the center once `step` is done.
    #[track_caller]
    fn sent_after(&self, step: &TrainOp) -> Result<Output, GraphError> {
        let graph = self.own.graph();
        graph.with_control_dependencies(&[step.target()], |g| match &self.sent {
            Sent::MoveFrom(start) => start.read().sub(&self.own.read_again()),
            Sent::Share(share) => {
                let distance = self.center.read_again().sub(&self.own.read_again())?;
                distance.mul(&g.constant(*share))
            }
        })
    }
}

/// Restarts all `copies` at their centers, and notes that in `last`.
#[track_caller]
fn begin_again(
    graph: &Graph,
    copies: &[OwnCopy],
    last: Option<&LastRead>,
) -> Result<Target, GraphError> {
    let mut targets = Vec::with_capacity(2 * copies.len());
    let mut centers = Vec::with_capacity(copies.len());
    for copy in copies {
        let center = copy.center.read_again();
        targets.push(copy.own.assign(&center)?);
        if let Sent::MoveFrom(start) = &copy.sent {
            targets.push(start.assign(&center)?);
        }
        centers.push(center);
    }
    if let Some(last) = last {
        targets.extend(last.note(&centers)?);
    }
    graph.group("begin_again", &targets.iter().collect::<Vec<_>>())
}

/// Moves all `copies` towards their centers by what was `sent` there.
#[track_caller]
fn move_towards(
    graph: &Graph,
    copies: &[OwnCopy],
    sent: &[(Variable, Output)],
) -> Result<Target, GraphError> {
    let mut targets = Vec::with_capacity(copies.len());
    for (copy, (_, sent)) in copies.iter().zip(sent) {
        targets.push(copy.own.assign_add(sent)?);
    }
    graph.group("move_towards", &targets.iter().collect::<Vec<_>>())
}
