//! `Scaffold`: the parts that make a training's session ready, each given by the program or made by
//! default.

mod first_values;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::cluster::TaskName;
use crate::graph::{Graph, GraphError, Output, Target, Variable, VariablePart};
use crate::optimizer::LocalSgd;
use crate::runtime::{Code, Error, Result};
use crate::tensor::{DType, Tensor};

use super::hooks::HookFuture;
use super::session::Session;

/// Makes a model ready for its training (TensorFlow: `tf.train.Scaffold`). Each part that the
/// program does not give has a default: every variable without a value gets its initial one, and
/// checkpoints hold every variable that workers share. A clone has the same parts.
#[derive(Clone, Default)]
pub struct Scaffold {
    init_op: Option<Target>,
    init_feeds: Vec<(Output, Tensor)>,
    init_fn: Option<InitFn>,
    ready_op: Option<Output>,
    ready_for_local_init_op: Option<Output>,
    local_init_op: Option<Target>,
    pub(super) summaries: Vec<(String, Output)>,
    saver: Option<Vec<(String, Variable)>>,
}

shown!(Scaffold, summaries);

type InitFn = Rc<dyn for<'a> Fn(&'a Session) -> HookFuture<'a>>;

impl Scaffold {
    /// A scaffold with all parts by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the parts of `other` that this scaffold does not have (TensorFlow:
    /// `copy_from_scaffold`).
    #[must_use]
    pub fn copy_from_scaffold(self, other: &Self) -> Self {
        let other = other.clone();
        let has_feeds = self.init_op.is_some() || !self.init_feeds.is_empty();
        Self {
            init_feeds: if has_feeds { self.init_feeds } else { other.init_feeds },
            init_op: self.init_op.or(other.init_op),
            init_fn: self.init_fn.or(other.init_fn),
            ready_op: self.ready_op.or(other.ready_op),
            ready_for_local_init_op: self.ready_for_local_init_op.or(other.ready_for_local_init_op),
            local_init_op: self.local_init_op.or(other.local_init_op),
            summaries: if self.summaries.is_empty() { other.summaries } else { self.summaries },
            saver: self.saver.or(other.saver),
        }
    }

    /// Feeds `feeds` when the variables get their initial values (TensorFlow: `init_feed_dict`).
    #[must_use]
    pub fn init_feed_dict(mut self, feeds: Vec<(Output, Tensor)>) -> Self {
        self.init_feeds = feeds;
        self
    }

    /// Writes the value of `scalar` under `tag` with the session's summaries (TensorFlow:
    /// `summary_op`, of all that `tf.summary.scalar` has made).
    #[must_use]
    pub fn summary(mut self, tag: &str, scalar: &Output) -> Self {
        self.summaries.push((tag.to_owned(), scalar.clone()));
        self
    }

    /// Has checkpoints hold `variables` alone, each under its name here, and the global step
    /// (TensorFlow: `saver`, a `tf.train.Saver` with this `var_list`). After a checkpoint is
    /// restored, the other variables get their initial values.
    ///
    /// [`ExponentialMovingAverage::variables_to_restore`] makes such a list. Each name is
    /// that of the variable in the checkpoint, which another program may have written.
    ///
    /// [`ExponentialMovingAverage::variables_to_restore`]:
    ///     crate::optimizer::ExponentialMovingAverage::variables_to_restore
    #[must_use]
    pub fn saver<N: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (N, Variable)>,
    ) -> Self {
        let named = variables.into_iter().map(|(name, variable)| (name.into(), variable));
        self.saver = Some(named.collect());
        self
    }

    /// The names under which checkpoints have variables.
    ///
    /// # Errors
    /// If the list has a name or a variable twice, or part of a variable under another name.
    pub(super) fn saved_names(&self) -> Result<SavedNames> {
        let Some(listed) = &self.saver else { return Ok(SavedNames(None)) };
        let mut names = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (name, variable) in listed {
            let own = variable.name();
            let renames_part = variable.part().is_some() && *name != own;
            let is_new = taken.insert(name.clone());
            if renames_part || !is_new || names.insert(own.clone(), name.clone()).is_some() {
                let why = if renames_part {
                    "is one part of a variable, which keeps its name"
                } else {
                    "is listed twice, or its name is"
                };
                let message = format!("the saver's list: `{own}`, as `{name}`, {why}");
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        Ok(SavedNames(Some(names)))
    }

    /// Runs `op`, fed `feeds`, instead of the variables' initializers, if there is no checkpoint.
    #[must_use]
    pub fn init_op(mut self, op: &Target, feeds: Vec<(Output, Tensor)>) -> Self {
        (self.init_op, self.init_feeds) = (Some(op.clone()), feeds);
        self
    }

    /// Calls `init` after the variables got their initial values, if there is no checkpoint.
    ///
    /// It is called by the chief. Where workers train copies of their own (as in local SGD), all
    /// begin with the values that it assigns to the chief's trainable variables, or to their
    /// centers, which have no values yet.
    #[must_use]
    pub fn init_fn(
        mut self,
        init: impl for<'a> Fn(&'a Session) -> HookFuture<'a> + 'static,
    ) -> Self {
        self.init_fn = Some(Rc::new(init));
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
        let names = self.saved_names()?;
        let gives_values = self.init_op.is_some() || self.init_fn.is_some();
        let copies = if gives_values { LocalSgd::copies(graph) } else { BTreeMap::new() };
        let from_copy = |center: &Variable| -> Result<Option<FromCopy>, GraphError> {
            let Some(own) = copies.get(&center.name()) else { return Ok(None) };
            let (is_initialized, assign) = (own.is_initialized(), center.assign(&own.read())?);
            Ok(Some(FromCopy { is_initialized, assign }))
        };
        let known = |(variable, initializer): (Variable, Target)| -> Result<Known> {
            let (is_initialized, read) = (variable.is_initialized(), variable.read());
            let from_copy = from_copy(&variable)?;
            let (name, spec) = (variable.name(), variable.spec());
            let saved = names.of(&name).filter(|_| can_restore);
            let restore = match saved {
                Some(saved) => {
                    let (place, assign) = graph.restore_op(&variable)?;
                    let may_lack = graph.is_position(&variable);
                    Some(Restoring { saved, place, assign, may_lack })
                }
                None => None,
            };
            let (container, part) = (spec.container.to_string(), variable.part());
            let task = variable.task();
            Ok(Known {
                name,
                task,
                part,
                is_initialized,
                initializer,
                read,
                from_copy,
                restore,
                container,
            })
        };
        let step = graph.global_step()?.read();
        let shared: Vec<Known> =
            graph.initializers().into_iter().map(known).collect::<Result<_>>()?;
        let own = graph.local_initializers().into_iter();
        let own = own.filter(|(variable, _)| !graph.is_mirror(variable));
        let own =
            own.map(|(variable, initializer)| (variable.is_initialized(), initializer)).collect();
        let mirrors = graph.mirror_initializers();
        let (all_initialized, is_half_initialized) =
            (graph.await_initialization(), Cell::new(false));
        Ok(Finalized {
            shared,
            own,
            mirrors,
            step,
            all_initialized,
            is_half_initialized,
            given: self,
        })
    }
}

/// A scaffold whose every part is there.
pub(super) struct Finalized {
    /// The variables that workers share.
    pub(super) shared: Vec<Known>,
    /// For each of the worker's own variables: whether it has a value, and its initializer.
    own: Vec<(Output, Target)>,
    /// For each mirror: what sets it to its primary.
    mirrors: Vec<Target>,
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
    /// The chief's copy, if the variable is the center of copies and the program gives values.
    from_copy: Option<FromCopy>,
    /// How it is restored. None if checkpoints don't hold it.
    pub(super) restore: Option<Restoring>,
    pub(super) container: String,
    /// Its place in the whole, if the variable is one part of a partitioned one.
    pub(super) part: Option<VariablePart>,
}

/// The chief's copy of a center.
struct FromCopy {
    is_initialized: Output,
    /// Sets the center to it.
    assign: Target,
}

/// How a variable is restored.
pub(super) struct Restoring {
    /// Its name in checkpoints.
    pub(super) saved: String,
    /// The placeholder for a checkpoint's value.
    pub(super) place: Output,
    pub(super) assign: Target,
    /// Whether a checkpoint may lack it: it is then set to zero.
    pub(super) may_lack: bool,
}

/// The names under which checkpoints have variables: by the variables' own, or all by their own.
pub(super) struct SavedNames(Option<BTreeMap<String, String>>);

impl SavedNames {
    /// All variables, each by its own name.
    pub(super) fn own() -> Self {
        Self(None)
    }

    /// The name of the variable called `own`, if checkpoints hold it; the global step always.
    pub(super) fn of(&self, own: &str) -> Option<String> {
        match &self.0 {
            Some(names) if own != "global_step" => names.get(own).cloned(),
            _ => Some(own.to_owned()),
        }
    }
}

impl Finalized {
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

    /// Sets each mirror to its primary: where a step was broken off, one may lack an update that
    /// others have.
    pub(super) async fn set_mirrors(&self, session: &Session) -> Result<()> {
        if self.mirrors.is_empty() {
            return Ok(());
        }
        self.mirrors.iter().fold(session.run(), |run, mirror| run.target(mirror)).await.map(drop)
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
