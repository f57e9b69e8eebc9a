//! A session: a program's way to run steps of its graph on a server's cluster.

mod callable;
mod step;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tracing::trace_span;

use crate::graph::{Graph, Output, Target};
use crate::partition::Request;
use crate::runtime::{
    Answer, CLOSED, Code, Error, MasterMail, ResetContainers, Result, RunStep, ServerTarget,
    SessionId, SessionOptions, StepDone, stopped, tell,
};
use crate::sync::Departed;
use crate::tensor::Tensor;
use crate::units::Time;

use super::run_options::TraceLevel;

pub use callable::Callable;
pub(super) use step::RequestedStep;
use step::Running;
pub use step::{RunFuture, SessionRun};

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
    /// Earlier requests, so that asking the same again allocates nothing.
    requests: RefCell<Vec<Arc<Request>>>,
    /// The parts of finished steps, kept to be used again.
    spare: RefCell<Vec<(Request, Answer<Result<StepDone>>)>>,
}

shown!(Session, graph);

impl Session {
    /// A session of `graph` on the server at `target`. A worker that trains by it alone leaves the
    /// training with a warning when its program returns; see [`Task::join`](super::Task::join).
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
            requests: RefCell::default(),
            spare: RefCell::default(),
        })
    }

    /// A step in the making: add feeds, fetches and targets, then await it.
    pub fn run(&self) -> SessionRun<'_> {
        SessionRun::new(self)
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
    pub(super) fn empty_step(&self) -> RequestedStep {
        RequestedStep::new(self)
    }

    /// A future that runs a step when it is awaited.
    pub(super) fn run_step(&self, step: RequestedStep) -> Running<'_> {
        Running::new(self, step)
    }

    /// Hop 1 of a step: hands it to the master. Returns the request, to be used again, and the
    /// answer.
    fn begin(&self, step: RequestedStep) -> Result<(Request, Answer<Result<StepDone>>)> {
        let _span = trace_span!("session", session = self.id.0).entered();
        step.check_graph()?;
        let RequestedStep { mut request, feeds, options, origin, reads_ahead, answer, .. } = step;
        self.extend()?;
        self.send(RunStep {
            session: self.id,
            request: self.shared(&request),
            feeds,
            deadline: self.deadline(options.timeout),
            origin,
            is_traced: options.trace == TraceLevel::Full,
            reads_ahead,
            reply: answer.reply(),
        });
        request.feeds.clear();
        request.fetches.clear();
        request.targets.clear();
        Ok((request, answer))
    }

    /// The request of a step whose values come later.
    ///
    /// # Errors
    /// If something in it belongs to another graph than the session.
    fn request_of(
        &self,
        feeds: &[&Output],
        fetches: &[&Output],
        targets: &[&Target],
    ) -> Result<Request> {
        let mut step = self.empty_step();
        feeds.iter().for_each(|feed| step.feed(feed, Tensor::scalar(false)));
        fetches.iter().for_each(|fetch| step.fetch(fetch));
        targets.iter().for_each(|target| step.target(target));
        step.check_graph()?;
        Ok(step.request)
    }

    /// The result of a step that the master has answered; none has come if its server stopped.
    fn answered(&self, answer: Option<Result<StepDone>>) -> Result<StepDone> {
        answer.unwrap_or_else(|| Err(stopped().on(self.target.task())))
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
            let graph = self.graph.snapshot()?;
            tell(&self.target.master, MasterMail::ExtendSession { session: self.id, graph });
        }
        Ok(())
    }

    /// The session's own copy of `request`: asking the same again allocates nothing.
    fn shared(&self, request: &Request) -> Arc<Request> {
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

#[cfg(test)]
mod tests;
