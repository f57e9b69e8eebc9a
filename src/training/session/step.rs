//! A step of a session in the making: its request and feeds, and the futures that take it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::graph::{Graph, Output, Target};
use crate::partition::Request;
use crate::runtime::{Answer, Code, Error, Origin, Result, StepDone, Values};
use crate::tensor::Tensor;

use super::super::fetched::{Edges, Fetched};
use super::super::run_metadata::RunMetadata;
use super::super::run_options::RunOptions;
use super::Session;

/// A step that a program has asked for, or is about to: its request, feeds and options.
pub(in crate::training) struct RequestedStep {
    graph: Graph,
    pub(in crate::training) request: Request,
    /// The fed values, in the order of the request's feeds.
    pub(super) feeds: Values,
    /// The first feed, fetch or target that belongs to another graph, if any.
    foreign: Option<String>,
    /// The step's origin, if it is a training step.
    pub(in crate::training) origin: Option<Origin>,
    /// Whether variables are read for the step that follows as soon as this one has ended.
    pub(in crate::training) reads_ahead: bool,
    pub(in crate::training) options: RunOptions,
    pub(super) answer: Answer<Result<StepDone>>,
}

/// A step's request and feeds, to take the step again.
pub(in crate::training) struct Repeat {
    request: Arc<Request>,
    feeds: Values,
    pub(in crate::training) origin: Option<Origin>,
}

impl Repeat {
    /// Whether it is a step of a training.
    pub(in crate::training) fn is_training_step(&self) -> bool {
        self.origin.is_some()
    }
}

impl RequestedStep {
    /// A step of `session` without feeds, fetches or targets yet.
    pub(super) fn new(session: &Session) -> Self {
        let (request, answer) =
            session.spare.borrow_mut().pop().unwrap_or_else(|| (Request::default(), Answer::new()));
        Self {
            graph: session.graph.clone(),
            request,
            feeds: Values::new(),
            foreign: None,
            origin: None,
            reads_ahead: false,
            options: RunOptions::default(),
            answer,
        }
    }

    /// Keeps what is needed to take the same step again, should it fail. `session` keeps the
    /// request.
    pub(in crate::training) fn repeat(&self, session: &Session) -> Repeat {
        Repeat {
            request: session.shared(&self.request),
            feeds: self.feeds.clone(),
            origin: self.origin,
        }
    }

    /// The step of `repeat`, taken in `session`.
    pub(in crate::training) fn again(session: &Session, repeat: &Repeat) -> Self {
        let mut step = session.empty_step();
        step.request.clone_from(&repeat.request);
        step.feeds.clone_from(&repeat.feeds);
        step.origin = repeat.origin.map(|origin| Origin { is_again: true, ..origin });
        step
    }

    pub(in crate::training) fn feed(&mut self, output: &Output, value: Tensor) {
        self.check(output.graph(), || output.name());
        self.request.feeds.push(output.edge());
        self.feeds.push(value);
    }

    pub(in crate::training) fn fetch(&mut self, output: &Output) {
        self.check(output.graph(), || output.name());
        self.request.fetches.push(output.edge());
    }

    pub(in crate::training) fn target(&mut self, target: &Target) {
        self.check(target.graph(), || target.name());
        self.request.targets.push(target.op_id());
    }

    /// Checks that all that it asks for belongs to the session's graph.
    pub(in crate::training) fn check_graph(&self) -> Result<()> {
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
    step: RequestedStep,
}

shown!(SessionRun<'_>);

impl<'a> SessionRun<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        Self { session, step: session.empty_step() }
    }

    /// Feeds `value` wherever `output` is needed.
    pub fn feed(mut self, output: &Output, value: impl Into<Tensor>) -> Self {
        self.step.feed(output, value.into());
        self
    }

    /// Fetches the value of `output`. The results are in the order of these calls.
    pub fn fetch(mut self, output: &Output) -> Self {
        self.step.fetch(output);
        self
    }

    /// Runs `target`.
    pub fn target(mut self, target: impl AsRef<Target>) -> Self {
        self.step.target(target.as_ref());
        self
    }

    /// Takes the step with `options`: a time limit of its own, and a record of when each of its
    /// operations ran ([`Fetched::metadata`]).
    pub fn options(mut self, options: RunOptions) -> Self {
        self.step.options = self.step.options.merged(options);
        self
    }
}

impl<'a> IntoFuture for SessionRun<'a> {
    type Output = Result<Fetched>;
    type IntoFuture = RunFuture<'a>;

    fn into_future(self) -> Self::IntoFuture {
        let edges = Edges::from_slice(&self.step.request.fetches);
        RunFuture { running: self.session.run_step(self.step), edges }
    }
}

/// A step that runs while this is awaited.
#[must_use = "a step runs when it is awaited"]
pub struct RunFuture<'a> {
    running: Running<'a>,
    edges: Edges,
}

shown!(RunFuture<'_>, edges);

impl Future for RunFuture<'_> {
    type Output = Result<Fetched>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(done) = Pin::new(&mut self.running).poll(context) else {
            return Poll::Pending;
        };
        let edges = std::mem::take(&mut self.edges);
        let graph = self.running.session.graph.clone();
        let fetched = |done: StepDone| {
            let metadata = RunMetadata { operations: done.times };
            Fetched { graph, values: done.fetches, edges, metadata }
        };
        Poll::Ready(done.map(fetched))
    }
}

/// As [`RunFuture`], with the whole record of the step.
pub(in crate::training) struct Running<'a> {
    session: &'a Session,
    stage: Stage,
}

impl<'a> Running<'a> {
    pub(super) fn new(session: &'a Session, step: RequestedStep) -> Self {
        Self { session, stage: Stage::Requested(step) }
    }
}

enum Stage {
    Requested(RequestedStep),
    Waiting(Request, Answer<Result<StepDone>>),
    Over,
}

impl Future for Running<'_> {
    type Output = Result<StepDone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let session = self.session;
        let (request, mut answer) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Requested(step) => session.begin(step)?,
            Stage::Waiting(request, answer) => (request, answer),
            Stage::Over => panic!("a step that is over is not polled again"),
        };
        let Poll::Ready(done) = Pin::new(&mut answer).poll(context) else {
            self.stage = Stage::Waiting(request, answer);
            return Poll::Pending;
        };
        session.spare.borrow_mut().push((request, answer));
        Poll::Ready(session.answered(done))
    }
}
