//! `SyncReplicas`: TensorFlow's own synchronous training, by accumulators and tokens.
//!
//! Each variable has an accumulator on its task, and beside the global step there is a queue of
//! tokens. A worker adds its gradients to the accumulators, marked with the step that it believes
//! to be the global one, then takes a token: the number of its next step. The chief, beside its own
//! training, takes the mean of R gradients of each variable, has the optimizer apply them, adds one
//! to the global step, and puts max(N, R) tokens with that step into the queue. Gradients of an
//! earlier step are dropped.
//!
//! It is here to compare with, and to move a program from TensorFlow without changing its numbers.
//! For everything else `Mode::Sync` is better:
//!
//! | here, as in TensorFlow | `Mode::Sync` |
//! |---|---|
//! | R free tokens: first steps return at once, second gradients are stale and wasted | all steps are alike |
//! | a token belongs to nobody: a fast worker can take two of a step, and count twice | one gradient a worker and round |
//! | a gradient can be late for one variable and count for another | it counts for all or for none |
//! | the mean of a row is over the gradients that have it | over all gradients of the round |
//! | sums are in the order of arrival | by worker: the same bits in both worlds |
//! | if too few workers are left, they wait until the chief ends | workers that have left are not waited for |
//!
//! Checkpoints contain the variables, but neither the tokens nor the accumulators; a training that
//! goes on from a checkpoint begins with new tokens.

use crate::graph::{
    ConditionalAccumulator, Edge, FifoQueue, Gradient, Graph, GraphError, GraphProblem,
    NewOperation, Op, OpId, Output, SparseConditionalAccumulator, Target, TensorType, Variable,
    stack,
};
use crate::operations::Array;
use crate::tensor::{DType, Shape};

use super::{ExponentialMovingAverage, Optimizer, as_gradients, gradients_of};

/// An optimizer that applies the mean of R gradients (TensorFlow:
/// `tf.train.SyncReplicasOptimizer`).
///
/// ```
/// # use trainyard::prelude::*;
/// # use trainyard::training::SyncReplicasHook;
/// # async fn trainer(task: Task) -> Result<()> {
/// let g = Graph::new();
/// let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
/// let train_op = g.with_device_fn(setter, |g| {
///     let w = g.variable("w", &g.zeros([4]))?;
///     let optimizer = SyncReplicas::new(GradientDescent::new(0.1), 2, 3); // a backup worker
///     Ok(optimizer.minimize(&w.read().square().sum(), &g.global_step()?)?)
/// })?;
/// let hook = SyncReplicasHook::new(&train_op);
/// let mut session = MonitoredSession::builder(&task, g)
///     .hook(hook)
///     .hook(StopAtStep::last_step(100))
///     .open()
///     .await?;
/// let mut trained = Ok(());
/// while trained.is_ok() && !session.should_stop() {
///     trained = session.run().target(&train_op).await.map(drop);
/// }
/// // Who waits for a token when the chief ends is at the end of its input.
/// session.close_after(trained).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SyncReplicas {
    inner: Optimizer,
    replicas_to_aggregate: u32,
    total_num_replicas: u32,
    averages: Option<(ExponentialMovingAverage, Vec<Variable>)>,
}

/// The operations of a training with [`SyncReplicas`]. A step runs the worker's;
/// [`SyncReplicasHook`](crate::training::SyncReplicasHook) runs the others.
#[derive(Clone, Debug)]
pub struct SyncReplicasOp {
    train_op: Target,
    sync_op: Target,
    chief_init: Target,
    local_init: Target,
    global_step: Variable,
    tokens: FifoQueue,
    replicas_to_aggregate: u32,
    total_num_replicas: u32,
}

/// The accumulator of a variable's gradients.
enum Collector {
    Dense(ConditionalAccumulator),
    Sparse(SparseConditionalAccumulator),
}

impl SyncReplicas {
    /// Has `inner` apply the mean of `replicas_to_aggregate` gradients (R) of `total_num_replicas`
    /// workers (N). If R is less than N, the other workers are backups, whose gradients come too
    /// late; updates then go on while the chief saves, so that checkpoints are
    /// [fuzzy](crate::training::Consistency::Fuzzy). If R is greater, workers give several
    /// gradients for an update.
    ///
    /// # Panics
    /// If either is 0.
    pub fn new(
        inner: impl Into<Optimizer>,
        replicas_to_aggregate: u32,
        total_num_replicas: u32,
    ) -> Self {
        assert!(replicas_to_aggregate > 0, "an update is of at least one gradient");
        assert!(total_num_replicas > 0, "there is a worker");
        Self { inner: inner.into(), replicas_to_aggregate, total_num_replicas, averages: None }
    }

    /// Has `inner` apply the mean of `replicas` gradients of as many workers, TensorFlow's default.
    ///
    /// # Panics
    /// If that is 0.
    pub fn of_all(inner: impl Into<Optimizer>, replicas: u32) -> Self {
        Self::new(inner, replicas, replicas)
    }

    /// Moves the `averages` of `variables` after each update, by the chief's operation
    /// (TensorFlow: `variable_averages`, `variables_to_average`).
    #[must_use]
    pub fn variable_averages(
        mut self,
        averages: &ExponentialMovingAverage,
        variables: &[Variable],
    ) -> Self {
        self.averages = Some((averages.clone(), variables.to_vec()));
        self
    }

    /// Creates the operations of a training that makes `loss` small.
    ///
    /// # Errors
    /// As [`Optimizer::minimize`].
    #[track_caller]
    pub fn minimize(
        &self,
        loss: &Output,
        global_step: &Variable,
    ) -> Result<SyncReplicasOp, GraphError> {
        self.build(&gradients_of(loss)?, global_step)
    }

    /// The second half of [`SyncReplicas::minimize`].
    ///
    /// # Errors
    /// As [`Optimizer::apply_gradients`]; or if the graph has such a training already.
    #[track_caller]
    pub fn apply_gradients<G: Into<Gradient> + Clone>(
        &self,
        pairs: &[(Variable, G)],
        global_step: &Variable,
    ) -> Result<SyncReplicasOp, GraphError> {
        self.build(&as_gradients(pairs), global_step)
    }

    #[track_caller]
    fn build(
        &self,
        pairs: &[(Variable, Gradient)],
        global_step: &Variable,
    ) -> Result<SyncReplicasOp, GraphError> {
        let graph = global_step.graph();
        if pairs.is_empty() {
            return Err(GraphError::new("SyncReplicas", GraphProblem::NoGradients));
        }
        let token = TensorType::new(DType::I64, Shape::SCALAR);
        let tokens = FifoQueue::beside(global_step, "sync_token_q", vec![token])?;
        let local_step = graph.local_variable("sync_rep_local_step", &graph.constant(0i64))?;
        let collectors = pairs.iter().map(Collector::of).collect::<Result<Vec<_>, _>>()?;
        let train_op = train_op(pairs, &collectors, &tokens, &local_step)?;
        let sync_op = self.sync_op(pairs, &collectors, &tokens, global_step)?;
        if self.replicas_to_aggregate < self.total_num_replicas {
            graph.note_updates_without_chief();
        }
        let local_init = local_step.assign(&global_step.read())?;
        let mut chief_init = vec![local_init.clone()];
        for collector in &collectors {
            chief_init.push(collector.set_global_step(&global_step.read())?);
        }
        Ok(SyncReplicasOp {
            train_op,
            sync_op,
            chief_init: graph.group("chief_init", &chief_init.iter().collect::<Vec<_>>())?,
            local_init,
            global_step: global_step.clone(),
            tokens,
            replicas_to_aggregate: self.replicas_to_aggregate,
            total_num_replicas: self.total_num_replicas,
        })
    }

    /// The chief's operation: takes R gradients of each variable, applies their mean, counts the
    /// update, and hands out tokens.
    #[track_caller]
    fn sync_op(
        &self,
        pairs: &[(Variable, Gradient)],
        collectors: &[Collector],
        tokens: &FifoQueue,
        global_step: &Variable,
    ) -> Result<Target, GraphError> {
        let mut means = Vec::with_capacity(pairs.len());
        for ((variable, _), collector) in pairs.iter().zip(collectors) {
            let number =
                beside(variable, Op::Const((self.replicas_to_aggregate as i32).into()), &[])?;
            means.push((variable.clone(), collector.take(&number)?));
        }
        let update = self.inner.apply_gradients(&means, global_step)?;
        let tokens_per_step =
            tokens_of_an_update(self.replicas_to_aggregate, self.total_num_replicas);
        let update_op = update.target();
        let handed_out = global_step.graph().with_control_dependencies(&[update_op], |_| {
            tokens.enqueue_many(&[&copies(&update.global_step(), tokens_per_step, global_step)?])
        })?;
        match &self.averages {
            Some((averages, variables)) => averages.apply(variables, &handed_out),
            None => Ok(handed_out),
        }
    }
}

/// A token for each gradient of an update, and for each worker.
pub(crate) fn tokens_of_an_update(replicas_to_aggregate: u32, total_num_replicas: u32) -> u32 {
    replicas_to_aggregate.max(total_num_replicas)
}

impl SyncReplicasOp {
    /// The operation of a worker's step: adds its gradients, then takes a token.
    pub fn train_op(&self) -> &Target {
        &self.train_op
    }

    /// The chief's operation, to be run again and again beside its own steps: one update, and its
    /// tokens.
    pub fn sync_op(&self) -> &Target {
        &self.sync_op
    }

    /// The operation that the chief runs first: sets its own step and those of the accumulators to
    /// the global step.
    pub fn chief_init(&self) -> &Target {
        &self.chief_init
    }

    /// The operation that the other workers run first: sets their own step to the global step.
    pub fn local_init(&self) -> &Target {
        &self.local_init
    }

    /// Creates an operation that puts the first `number` tokens into the queue; by default as many
    /// as an update takes gradients.
    ///
    /// # Errors
    /// If the tokens are too few for any update.
    #[track_caller]
    pub fn init_tokens(&self, number: Option<u32>) -> Result<Target, GraphError> {
        let given = number.unwrap_or(self.replicas_to_aggregate);
        let needed = self.replicas_to_aggregate.saturating_sub(self.total_num_replicas);
        if given < needed {
            return Err(GraphError::new(
                "SyncReplicas",
                GraphProblem::TooFewTokens { given, needed },
            ));
        }
        if given == 0 {
            return self.graph().group("no_init_tokens", &[]);
        }
        self.tokens.enqueue_many(&[&copies(&self.global_step.read(), given, &self.global_step)?])
    }

    /// The number of tokens that an update puts into the queue.
    pub fn tokens_of_an_update(&self) -> u32 {
        tokens_of_an_update(self.replicas_to_aggregate, self.total_num_replicas)
    }

    /// Ends the training: workers that wait for a token and find none are at the end of their
    /// input.
    #[track_caller]
    pub fn close_tokens(&self) -> Target {
        self.tokens.close(true)
    }

    /// The graph of these operations.
    pub fn graph(&self) -> &Graph {
        self.train_op.graph()
    }
}

impl AsRef<Target> for SyncReplicasOp {
    fn as_ref(&self) -> &Target {
        &self.train_op
    }
}

impl Collector {
    #[track_caller]
    fn of((variable, gradient): &(Variable, Gradient)) -> Result<Self, GraphError> {
        let name = format!("{}/grad_accum", variable.name());
        Ok(match gradient {
            Gradient::Dense(_) => Self::Dense(ConditionalAccumulator::beside(variable, &name)?),
            Gradient::Slices(_) => {
                Self::Sparse(SparseConditionalAccumulator::beside(variable, &name)?)
            }
        })
    }

    /// Adds a gradient; the output is the number of steps by which it is too late.
    #[track_caller]
    fn apply(&self, gradient: &Gradient, local_step: &Output) -> Result<Target, GraphError> {
        match (self, gradient) {
            (Self::Dense(collector), gradient) => {
                collector.apply_grad(&gradient.to_dense(), local_step)
            }
            (Self::Sparse(collector), Gradient::Slices(slices)) => {
                collector.apply_grad(slices, local_step)
            }
            (Self::Sparse(_), Gradient::Dense(_)) => {
                panic!("a collector is of the kind of its gradient")
            }
        }
    }

    #[track_caller]
    fn take(&self, number: &Output) -> Result<Gradient, GraphError> {
        Ok(match self {
            Self::Dense(collector) => collector.take_grad(number)?.into(),
            Self::Sparse(collector) => collector.take_grad(number)?.into(),
        })
    }

    #[track_caller]
    fn set_global_step(&self, step: &Output) -> Result<Target, GraphError> {
        match self {
            Self::Dense(collector) => collector.set_global_step(step),
            Self::Sparse(collector) => collector.set_global_step(step),
        }
    }
}

/// The worker's operation: adds its gradients, then waits for a token, which is its next step. The
/// step counts if no accumulator has dropped its gradient.
#[track_caller]
fn train_op(
    pairs: &[(Variable, Gradient)],
    collectors: &[Collector],
    tokens: &FifoQueue,
    local_step: &Variable,
) -> Result<Target, GraphError> {
    let graph = local_step.graph();
    let mut added = Vec::with_capacity(pairs.len());
    for ((_, gradient), collector) in pairs.iter().zip(collectors) {
        added.push(collector.apply(gradient, &local_step.read())?);
    }
    let late: Vec<Output> = added.iter().filter_map(|added| added.output(0)).collect();
    let staleness = stack(&late.iter().collect::<Vec<_>>(), 0)?.max();
    let counts = staleness.equal(&staleness.zeros_like())?;
    let token = graph.with_control_dependencies(&added.iter().collect::<Vec<_>>(), |_| {
        Ok(tokens.dequeue().remove(0))
    })?;
    let train_op = local_step.assign(&token)?;
    graph.end_step_with(&train_op, [&token, &staleness, &counts]);
    Ok(train_op)
}

/// Makes `number` copies of a scalar on the task of `variable`.
#[track_caller]
fn copies(scalar: &Output, number: u32, variable: &Variable) -> Result<Output, GraphError> {
    beside(variable, Array::BroadcastTo([Some(number as usize)].into()), &[scalar.edge()])
}

/// Creates an operation on the task of `variable`.
#[track_caller]
fn beside(variable: &Variable, op: impl Into<Op>, inputs: &[Edge]) -> Result<Output, GraphError> {
    let graph = variable.graph();
    let colocated_with: Option<OpId> = Some(variable.op_id());
    let added = graph.add(NewOperation { inputs, colocated_with, ..NewOperation::of(op) })?;
    Ok(graph.output(added))
}
