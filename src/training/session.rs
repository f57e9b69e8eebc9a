//! A session: a program's way to run steps of its graph on a server's cluster.

mod callable;
mod partial_run;

use std::cell::{Cell, RefCell};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::trace_span;

use crate::graph::{Graph, Output, Target};
use crate::partition::Request;
use crate::runtime::{
    Answer, CLOSED, Code, Error, MasterMail, Origin, ResetContainers, Result, RunStep,
    ServerTarget, SessionId, SessionOptions, StepDone, Values, stopped, tell,
};
use crate::sync::Departed;
use crate::tensor::Tensor;
use crate::units::Time;

use super::fetched::{Edges, Fetched};
use super::hooks::{RunOptions, TraceLevel};
use super::run_metadata::RunMetadata;

pub use callable::Callable;
pub use partial_run::PartialRun;

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
    /// The time limit of a step, if there is one.
    timeout: Cell<Option<Duration>>,
    /// How much of the graph the master has \[operations\].
    known: Cell<usize>,
    /// Counts the steps in pieces.
    partial_runs: Cell<u64>,
    /// Earlier requests, so that asking the same again allocates nothing.
    requests: RefCell<Vec<Arc<Request>>>,
    /// The parts of finished steps, kept to be used again.
    spare: RefCell<Vec<(Request, Answer<Result<StepDone>>)>>,
}

impl Session {
    /// A session of `graph` on the server at `target`.
    ///
    /// # Errors
    /// If the server has stopped.
    pub async fn new(target: &ServerTarget, graph: &Graph) -> Result<Self> {
        Self::with_options(target, graph, SessionOptions::default()).await
    }

    /// A session with `options`.
    ///
    /// # Errors
    /// If the server has stopped.
    pub async fn with_options(
        target: &ServerTarget,
        graph: &Graph,
        options: SessionOptions,
    ) -> Result<Self> {
        let created = Answer::new();
        let reply = created.reply();
        tell(&target.master, MasterMail::CreateSession { options: options.clone(), reply });
        let id = created.await.ok_or_else(|| stopped().on(target.task()))??;
        let (target, graph) = (target.clone(), graph.clone());
        Ok(Self {
            target,
            id,
            graph,
            timeout: Cell::new(options.operation_timeout),
            known: Cell::new(0),
            partial_runs: Cell::new(0),
            requests: RefCell::default(),
            spare: RefCell::default(),
        })
    }

    /// A step in the making: add feeds, fetches and targets, then await it.
    pub fn run(&self) -> SessionRun<'_> {
        SessionRun { session: self, asked: self.asked() }
    }

    /// A number that is unique among the server's sessions.
    pub(super) fn number(&self) -> u64 {
        self.id.0
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Sets the time limit of the steps from now on, as [`SessionOptions::operation_timeout`] does.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) {
        self.timeout.set(timeout);
    }

    /// Closes the session: running steps are cancelled, and no more are accepted.
    pub fn close(&self) {
        (self.closer())(Error::new(Code::Cancelled, CLOSED));
    }

    /// Closes the session from elsewhere: running steps fail with the given error.
    pub(super) fn closer(&self) -> impl Fn(Error) + use<> {
        let (master, session) = (self.target.master.clone(), self.id);
        move |error| tell(&master, MasterMail::CloseSession { session, error })
    }

    /// Clears `containers`, or the default one if none is named, on all tasks of the cluster of
    /// `target`. All sessions of that server end (TensorFlow: `tf.Session.reset`).
    ///
    /// # Errors
    /// If the named containers hold no variable, or the server has stopped.
    pub async fn reset(target: &ServerTarget, containers: &[&str]) -> Result<()> {
        Self::reset_with_options(target, containers, SessionOptions::default()).await
    }

    /// [`Session::reset`] on the tasks that the options' device filters name, within their timeout.
    ///
    /// # Errors
    /// If the named containers hold no variable, a task does not answer in time, or the server has
    /// stopped.
    pub async fn reset_with_options(
        target: &ServerTarget,
        containers: &[&str],
        options: SessionOptions,
    ) -> Result<()> {
        Self::clear(target, containers, options, false).await.map(drop)
    }

    /// [`Session::reset`] within a training, which goes on with new values of its variables.
    /// Returns the workers that some task knows to have departed from the training.
    ///
    /// # Errors
    /// As [`Session::reset_with_options`].
    pub(super) async fn reset_within_training(
        target: &ServerTarget,
        containers: &[&str],
        operation_timeout: Option<Duration>,
    ) -> Result<Departed> {
        let options = SessionOptions { operation_timeout, ..SessionOptions::default() };
        Self::clear(target, containers, options, true).await
    }

    async fn clear(
        target: &ServerTarget,
        containers: &[&str],
        options: SessionOptions,
        within_training: bool,
    ) -> Result<Departed> {
        let containers = containers.iter().map(|name| (*name).to_owned()).collect();
        let deadline = options.operation_timeout.map(|limit| target.clock.now().after(limit));
        let (done, device_filters) = (Answer::new(), options.device_filters);
        let asked = ResetContainers {
            containers,
            within_training,
            device_filters,
            deadline,
            reply: done.reply(),
        };
        tell(&target.master, MasterMail::Reset(asked));
        done.await.ok_or_else(|| stopped().on(target.task()))?
    }

    /// A step without feeds, fetches or targets yet.
    pub(super) fn asked(&self) -> Asked {
        let (request, answer) =
            self.spare.borrow_mut().pop().unwrap_or_else(|| (Request::default(), Answer::new()));
        Asked {
            graph: self.graph.clone(),
            request,
            feeds: Values::new(),
            foreign: None,
            origin: None,
            reads_ahead: false,
            options: RunOptions::default(),
            answer,
        }
    }

    /// A future that runs a step when it is awaited.
    pub(super) fn run_step(&self, step: Asked) -> Running<'_> {
        Running { session: self, stage: Stage::Asked(step) }
    }

    /// Hop 1 of a step: hands it to the master. Returns the request, to be used again, and the
    /// answer.
    fn begin(&self, step: Asked) -> Result<(Request, Answer<Result<StepDone>>)> {
        let _span = trace_span!("session", session = self.id.0).entered();
        step.check_graph()?;
        let Asked { request: mut asked, feeds, options, origin, reads_ahead, answer, .. } = step;
        self.extend()?;
        self.send(RunStep {
            session: self.id,
            request: self.request(&asked),
            feeds,
            deadline: self.deadline(options.timeout),
            origin,
            is_traced: options.trace == TraceLevel::Full,
            reads_ahead,
            pieces: None,
            reply: answer.reply(),
        });
        asked.feeds.clear();
        asked.fetches.clear();
        asked.targets.clear();
        Ok((asked, answer))
    }

    fn send(&self, run: RunStep) {
        tell(&self.target.master, MasterMail::RunStep(run));
    }

    /// When a step has to have ended that begins now, with `own` as its own limit.
    fn deadline(&self, own: Option<Duration>) -> Option<Time> {
        let limit = own.or(self.timeout.get());
        limit.map(|limit| self.target.clock.now().after(limit))
    }

    /// Tells the master of operations that were added since the last step.
    fn extend(&self) -> Result<()> {
        self.graph.check()?;
        let now = self.graph.len();
        if self.known.replace(now) != now {
            let graph = Arc::new(self.graph.snapshot()?);
            tell(&self.target.master, MasterMail::ExtendSession { session: self.id, graph });
        }
        Ok(())
    }

    fn request(&self, request: &Request) -> Arc<Request> {
        let mut known = self.requests.borrow_mut();
        if let Some(same) = known.iter().find(|known| ***known == *request) {
            return Arc::clone(same);
        }
        let request = Arc::new(request.clone());
        known.push(Arc::clone(&request));
        request
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// A step's request, with its feeds.
pub(super) struct Asked {
    graph: Graph,
    pub(super) request: Request,
    /// The fed values, in the order of the request's feeds.
    feeds: Values,
    /// The first feed, fetch or target that belongs to another graph, if any.
    foreign: Option<String>,
    /// The step's origin, if it is a training step.
    pub(super) origin: Option<Origin>,
    /// Whether variables are read for the step that follows as soon as this one has ended.
    pub(super) reads_ahead: bool,
    pub(super) options: RunOptions,
    answer: Answer<Result<StepDone>>,
}

/// A step's request and feeds, to take the step again.
pub(super) struct Repeat {
    request: Arc<Request>,
    feeds: Values,
    pub(super) origin: Option<Origin>,
}

impl Repeat {
    /// Whether it is a step of a training.
    pub(super) fn is_training_step(&self) -> bool {
        self.origin.is_some()
    }
}

impl Asked {
    /// Keeps what is needed to take the same step again, should it fail. `session` keeps the
    /// request.
    pub(super) fn repeat(&self, session: &Session) -> Repeat {
        Repeat {
            request: session.request(&self.request),
            feeds: self.feeds.clone(),
            origin: self.origin,
        }
    }

    /// The step of `repeat`, taken in `session`.
    pub(super) fn again(session: &Session, repeat: &Repeat) -> Self {
        let mut asked = session.asked();
        asked.request.clone_from(&repeat.request);
        asked.feeds.clone_from(&repeat.feeds);
        asked.origin = repeat.origin.map(|origin| Origin { is_again: true, ..origin });
        asked
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

    /// Checks that all that it asks for belongs to the session's graph.
    fn check_graph(&self) -> Result<()> {
        let Some(name) = &self.foreign else { return Ok(()) };
        let message = format!("`{name}` belongs to another graph than the session");
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn check(&mut self, graph: &Graph, name: impl FnOnce() -> String) {
        if !graph.same_as(&self.graph) {
            self.foreign.get_or_insert_with(name);
        }
    }
}

/// A step in the making: add feeds, fetches and targets, then `.await` it.
#[must_use = "a step runs when it is awaited"]
pub struct SessionRun<'a> {
    session: &'a Session,
    asked: Asked,
}

impl SessionRun<'_> {
    /// Feeds `value` wherever `output` is needed.
    pub fn feed(mut self, output: &Output, value: impl Into<Tensor>) -> Self {
        self.asked.feed(output, value.into());
        self
    }

    /// Fetches the value of `output`. The results are in the order of these calls.
    pub fn fetch(mut self, output: &Output) -> Self {
        self.asked.fetch(output);
        self
    }

    /// Runs `target`.
    pub fn target(mut self, target: impl AsRef<Target>) -> Self {
        self.asked.target(target.as_ref());
        self
    }

    /// Takes the step with `options`: a time limit of its own, and a record of when each of its
    /// operations ran ([`Fetched::metadata`]).
    pub fn options(mut self, options: RunOptions) -> Self {
        self.asked.options = self.asked.options.merged(options);
        self
    }
}

impl<'a> IntoFuture for SessionRun<'a> {
    type Output = Result<Fetched>;
    type IntoFuture = RunFuture<'a>;

    fn into_future(self) -> Self::IntoFuture {
        let edges = Edges::from_slice(&self.asked.request.fetches);
        RunFuture { running: self.session.run_step(self.asked), edges }
    }
}

/// A step that runs while this is awaited.
#[must_use = "a step runs when it is awaited"]
pub struct RunFuture<'a> {
    running: Running<'a>,
    edges: Edges,
}

impl Future for RunFuture<'_> {
    type Output = Result<Fetched>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(done) = Pin::new(&mut self.running).poll(context) else {
            return Poll::Pending;
        };
        let edges = std::mem::take(&mut self.edges);
        let fetched = |done: StepDone| {
            let metadata = RunMetadata { operations: done.times };
            Fetched { values: done.fetches, edges, metadata }
        };
        Poll::Ready(done.map(fetched))
    }
}

/// As [`RunFuture`], with the whole record of the step.
pub(super) struct Running<'a> {
    session: &'a Session,
    stage: Stage,
}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one a step, and a box would be memory a step"
)]
enum Stage {
    Asked(Asked),
    Waiting(Request, Answer<Result<StepDone>>),
    Over,
}

impl Future for Running<'_> {
    type Output = Result<StepDone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let session = self.session;
        let (request, mut answer) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asked(asked) => session.begin(asked)?,
            Stage::Waiting(request, answer) => (request, answer),
            Stage::Over => panic!("a step that is over is not polled again"),
        };
        let Poll::Ready(done) = Pin::new(&mut answer).poll(context) else {
            self.stage = Stage::Waiting(request, answer);
            return Poll::Pending;
        };
        session.spare.borrow_mut().push((request, answer));
        Poll::Ready(done.unwrap_or_else(|| Err(stopped().on(session.target.task()))))
    }
}

#[cfg(test)]
mod tests;
