//! A session: a program's way to run steps of its graph on a server's cluster.

use std::cell::{Cell, RefCell};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::trace_span;

use crate::graph::{Graph, Output, Target};
use crate::partition::Request;
use crate::runtime::{
    Code, Error, MasterMessage, ResetContainers, Result, RunStep, ServerTarget, SessionId, SessionOptions, StepDone,
    Values, stopped, tell,
};
use crate::tensor::{Element, Tensor};

/// Runs steps of one graph through one server's master (TensorFlow: `tf.Session`).
///
/// Several sessions can use one server, and one program sessions on several servers. Variables are
/// shared by name among all sessions of a cluster unless a session asks to be isolated.
///
/// Dropping a session closes it.
pub struct Session {
    target: ServerTarget,
    id: SessionId,
    graph: Graph,
    options: SessionOptions,
    /// How much of the graph the master knows \[operations\].
    known: Cell<usize>,
    /// What has been asked before, so that asking again costs no allocation.
    requests: RefCell<Vec<Arc<Request>>>,
}

impl Session {
    /// A session of `graph` on the server at `target`.
    ///
    /// # Errors
    /// If the server has stopped.
    pub async fn new(target: &ServerTarget, graph: &Graph) -> Result<Self> {
        Self::with_options(target, graph, SessionOptions::default()).await
    }

    /// A session with options of its own.
    ///
    /// # Errors
    /// If the server has stopped.
    pub async fn with_options(target: &ServerTarget, graph: &Graph, options: SessionOptions) -> Result<Self> {
        let (reply, created) = oneshot::channel();
        tell(&target.master, MasterMessage::CreateSession { options: options.clone(), reply });
        let id = created.await.map_err(|_| stopped().on(target.task()))??;
        let (target, graph) = (target.clone(), graph.clone());
        Ok(Self { target, id, graph, options, known: Cell::new(0), requests: RefCell::default() })
    }

    /// A step, to be told what to feed, fetch and run, and then awaited.
    pub fn run(&self) -> Run<'_> {
        Run { session: self, asked: Asked::of(&self.graph) }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Closes the session: steps that still run are cancelled, and no more are taken.
    pub fn close(&self) {
        tell(&self.target.master, MasterMessage::CloseSession { session: self.id });
    }

    /// Clears `containers`, the default one where none is named, on all tasks of the cluster of `target`.
    /// All sessions of that server end (TensorFlow: `tf.Session.reset`).
    ///
    /// # Errors
    /// If the named containers hold no variable, or the server has stopped.
    pub async fn reset(target: &ServerTarget, containers: &[&str]) -> Result<()> {
        Self::reset_with_options(target, containers, SessionOptions::default()).await
    }

    /// [`Session::reset`] on the tasks that the options' device filters name, within their timeout.
    ///
    /// # Errors
    /// If the named containers hold no variable, a task does not answer in time, or the server has stopped.
    pub async fn reset_with_options(target: &ServerTarget, containers: &[&str], options: SessionOptions) -> Result<()> {
        let containers = containers.iter().map(|name| (*name).to_owned()).collect();
        let deadline = options.operation_timeout.map(|limit| target.clock.now().after(limit));
        let (reply, done) = oneshot::channel();
        let device_filters = options.device_filters;
        tell(&target.master, MasterMessage::Reset(ResetContainers { containers, device_filters, deadline, reply }));
        done.await.map_err(|_| stopped().on(target.task()))?
    }

    /// Hop 1 of a step: hands it to the master.
    pub(super) async fn run_step(&self, step: Asked) -> Result<StepDone> {
        let span = trace_span!("session", session = self.id.0);
        let (reply, done) = oneshot::channel();
        span.in_scope(|| -> Result<()> {
            if let Some(name) = step.foreign {
                let message = format!("`{name}` belongs to another graph than the session");
                return Err(Error::new(Code::InvalidArgument, message));
            }
            self.extend()?;
            let deadline = self.options.operation_timeout.map(|limit| self.target.clock.now().after(limit));
            let request = self.request(step.request);
            let run = RunStep { session: self.id, request, feeds: step.feeds, deadline, reply };
            tell(&self.target.master, MasterMessage::RunStep(run));
            Ok(())
        })?;
        done.await.map_err(|_| stopped().on(self.target.task()))?
    }

    /// Tells the master of operations that were added since the last step.
    fn extend(&self) -> Result<()> {
        self.graph.check()?;
        let now = self.graph.len();
        if self.known.replace(now) != now {
            let graph = Arc::new(self.graph.snapshot()?);
            tell(&self.target.master, MasterMessage::ExtendSession { session: self.id, graph });
        }
        Ok(())
    }

    fn request(&self, request: Request) -> Arc<Request> {
        let mut known = self.requests.borrow_mut();
        if let Some(same) = known.iter().find(|known| ***known == request) {
            return Arc::clone(same);
        }
        let request = Arc::new(request);
        known.push(Arc::clone(&request));
        request
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a step is asked for, and fed.
pub(super) struct Asked {
    graph: Graph,
    pub(super) request: Request,
    /// In the order of the request's feeds.
    feeds: Values,
    /// The first thing asked that belongs to another graph.
    foreign: Option<String>,
}

impl Asked {
    pub(super) fn of(graph: &Graph) -> Self {
        Self { graph: graph.clone(), request: Request::default(), feeds: Values::new(), foreign: None }
    }

    pub(super) fn feed(&mut self, output: &Output, value: Tensor) {
        self.check(output.graph(), || output.name());
        self.request.feeds.push(output.edge());
        self.feeds.push(value);
    }

    pub(super) fn fetch(&mut self, output: &Output) {
        self.check(output.graph(), || output.name());
        self.request.fetches.push(output.edge());
    }

    pub(super) fn target(&mut self, target: &Target) {
        self.check(target.graph(), || target.name());
        self.request.targets.push(target.op_id());
    }

    fn check(&mut self, graph: &Graph, name: impl FnOnce() -> String) {
        if !graph.same_as(&self.graph) {
            self.foreign.get_or_insert_with(name);
        }
    }
}

/// A step in the making: feed, fetch and target what it needs, then `.await` it.
#[must_use = "a step runs when it is awaited"]
pub struct Run<'a> {
    session: &'a Session,
    asked: Asked,
}

impl Run<'_> {
    /// Feeds `value` wherever `output` is needed.
    pub fn feed(mut self, output: &Output, value: impl Into<Tensor>) -> Self {
        self.asked.feed(output, value.into());
        self
    }

    /// Fetches the value of `output`. What is fetched first is first in the result.
    pub fn fetch(mut self, output: &Output) -> Self {
        self.asked.fetch(output);
        self
    }

    /// Runs `target`.
    pub fn target(mut self, target: impl AsRef<Target>) -> Self {
        self.asked.target(target.as_ref());
        self
    }
}

impl<'a> IntoFuture for Run<'a> {
    type Output = Result<Fetched>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let session = self.session;
        Box::pin(async move {
            let done = session.run_step(self.asked).await?;
            Ok(Fetched(done.fetches))
        })
    }
}

/// The values that a step fetched, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub struct Fetched(pub(super) Values);

impl Fetched {
    /// The only element of fetch `index`.
    ///
    /// # Errors
    /// If it has another type or more elements, or there are fewer fetches.
    pub fn scalar<T: Element>(&self, index: usize) -> Result<T> {
        let none = || Error::new(Code::InvalidArgument, format!("fetch {index} of {}", self.0.len()));
        Ok(self.0.get(index).ok_or_else(none)?.item()?)
    }
}

impl std::ops::Index<usize> for Fetched {
    type Output = Tensor;

    fn index(&self, index: usize) -> &Tensor {
        &self.0[index]
    }
}

#[cfg(test)]
mod tests;
