//! `Scaffold`: the parts that make a training's session ready, each given by the program or made by
//! default.

use std::cell::Cell;

use crate::cluster::TaskName;
use crate::graph::{Graph, Output, Target, Variable, VariablePart};
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};

use super::hooks::HookFuture;
use super::session::Session;

/// Makes a model ready for its training (TensorFlow: `tf.train.Scaffold`). Each part that the
/// program does not give has a default: every variable without a value gets its initial one.
#[derive(Default)]
pub struct Scaffold {
    init_op: Option<Target>,
    init_feeds: Vec<(Output, Tensor)>,
    init_fn: Option<InitFn>,
    ready_op: Option<Output>,
    ready_for_local_init_op: Option<Output>,
    local_init_op: Option<Target>,
}

type InitFn = Box<dyn for<'a> Fn(&'a Session) -> HookFuture<'a>>;

impl Scaffold {
    /// A scaffold with all parts by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `op`, fed `feeds`, instead of the variables' initializers, if there is no checkpoint.
    #[must_use]
    pub fn init_op(mut self, op: &Target, feeds: Vec<(Output, Tensor)>) -> Self {
        (self.init_op, self.init_feeds) = (Some(op.clone()), feeds);
        self
    }

    /// Calls `init` after the variables got their initial values, if there is no checkpoint.
    #[must_use]
    pub fn init_fn(
        mut self,
        init: impl for<'a> Fn(&'a Session) -> HookFuture<'a> + 'static,
    ) -> Self {
        self.init_fn = Some(Box::new(init));
        self
    }

    /// The model is ready when all elements of `op` (bool) are true and every variable has a value.
    #[must_use]
    pub fn ready_op(mut self, op: &Output) -> Self {
        self.ready_op = Some(op.clone());
        self
    }

    /// The worker's own variables get their values once all elements of `op` (bool) are true.
    #[must_use]
    pub fn ready_for_local_init_op(mut self, op: &Output) -> Self {
        self.ready_for_local_init_op = Some(op.clone());
        self
    }

    /// Runs `op` instead of the initializers of the worker's own variables, once a session.
    #[must_use]
    pub fn local_init_op(mut self, op: &Target) -> Self {
        self.local_init_op = Some(op.clone());
        self
    }

    /// Adds the default parts to the graph, with operations to restore the variables if they
    /// `can_restore`. After that, nothing more may be added to the graph.
    ///
    /// # Errors
    /// If the graph has a mistake.
    pub(super) fn finalize(self, graph: &Graph, can_restore: bool) -> Result<Finalized> {
        let known = |(variable, initializer): (Variable, Target)| -> Result<Known> {
            let (is_initialized, read) = (variable.is_initialized(), variable.read());
            let restore = can_restore.then(|| graph.restore_op(&variable)).transpose()?;
            let (name, spec) = (variable.name(), variable.spec());
            let (container, part) = (spec.container.to_string(), variable.part());
            let task = variable.task();
            Ok(Known { name, task, part, is_initialized, initializer, read, restore, container })
        };
        let step = graph.global_step()?.read();
        let shared: Vec<Known> =
            graph.initializers().into_iter().map(known).collect::<Result<_>>()?;
        let own = graph.local_initializers().into_iter();
        let own =
            own.map(|(variable, initializer)| (variable.is_initialized(), initializer)).collect();
        let (all_initialized, is_half_initialized) =
            (graph.await_initialization(), Cell::new(false));
        Ok(Finalized { shared, own, step, all_initialized, is_half_initialized, given: self })
    }
}

/// A scaffold whose every part is there.
pub(super) struct Finalized {
    /// The variables that workers share.
    pub(super) shared: Vec<Known>,
    /// For each of the worker's own variables: whether it has a value, and its initializer.
    own: Vec<(Output, Target)>,
    pub(super) step: Output,
    /// Completes once all shared variables have values.
    pub(super) all_initialized: Target,
    is_half_initialized: Cell<bool>,
    given: Scaffold,
}

/// A shared variable with the operations that check, initialize and restore it.
pub(super) struct Known {
    pub(super) name: String,
    /// The task that it is on, if the graph names one.
    pub(super) task: Option<TaskName>,
    pub(super) is_initialized: Output,
    initializer: Target,
    pub(super) read: Output,
    /// The placeholder for a checkpoint's value, and the assignment to the variable.
    pub(super) restore: Option<(Output, Target)>,
    pub(super) container: String,
    /// Its place in the whole, if the variable is one part of a partitioned one.
    pub(super) part: Option<VariablePart>,
}

impl Finalized {
    /// Gives `missing`, some of the shared variables, their first values.
    pub(super) async fn initialize(&self, session: &Session, missing: &[&Known]) -> Result<()> {
        self.is_half_initialized.set(true);
        self.give_first_values(session, missing).await?;
        self.is_half_initialized.set(false);
        Ok(())
    }

    async fn give_first_values(&self, session: &Session, missing: &[&Known]) -> Result<()> {
        let mut run = session.run();
        match &self.given.init_op {
            Some(init_op) => {
                run = run.target(init_op);
                for (place, value) in &self.given.init_feeds {
                    run = run.feed(place, value.clone());
                }
            }
            None => {
                run = missing.iter().fold(run, |run, variable| run.target(&variable.initializer))
            }
        }
        run.await?;
        match &self.given.init_fn {
            Some(init) => init(session).await,
            None => Ok(()),
        }
    }

    /// Whether an error has interrupted [`Finalized::initialize`]. Its operations and function are
    /// then called again, though the variables may have values by now.
    pub(super) fn is_half_initialized(&self) -> bool {
        self.is_half_initialized.get()
    }

    /// Whether the program has its own operation to give the variables their first values.
    pub(super) fn has_own_init_op(&self) -> bool {
        self.given.init_op.is_some()
    }

    /// Initializes the worker's own variables: with the program's operation, if there is one; else
    /// those that have no value yet.
    pub(super) async fn initialize_own(&self, session: &Session) -> Result<()> {
        if let Some(op) = &self.given.local_init_op {
            return session.run().target(op).await.map(drop);
        }
        if self.own.is_empty() {
            return Ok(());
        }
        let asked = self
            .own
            .iter()
            .fold(session.run(), |run, (is_initialized, _)| run.fetch(is_initialized));
        let known = asked.await?;
        let mut run = session.run();
        for (index, (_, initializer)) in self.own.iter().enumerate() {
            if !known.scalar::<bool>(index)? {
                run = run.target(initializer);
            }
        }
        run.await.map(drop)
    }

    /// Whether the program says that the model is ready.
    pub(super) async fn is_ready(&self, session: &Session) -> Result<bool> {
        all_true(session, self.given.ready_op.as_ref()).await
    }

    /// Whether the program says that the worker's own variables can get their values.
    pub(super) async fn is_ready_for_own(&self, session: &Session) -> Result<bool> {
        all_true(session, self.given.ready_for_local_init_op.as_ref()).await
    }

    /// The global step on the cluster.
    pub(super) async fn global_step(&self, session: &Session) -> Result<u64> {
        Ok(session.run().fetch(&self.step).await?.scalar::<i64>(0)?.max(0) as u64)
    }
}

async fn all_true(session: &Session, condition: Option<&Output>) -> Result<bool> {
    let Some(condition) = condition else { return Ok(true) };
    let fetched = session.run().fetch(condition).await?;
    if fetched[0].dtype() != DType::Bool {
        let message = format!(
            "`{}` says whether the model is ready, and so has to be bool",
            condition.name()
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    Ok(fetched[0].slice::<bool>().iter().all(|is_true| *is_true))
}
