//! What clients ask of their sessions: each action checked, carried out, and answered.

use std::sync::Arc;

use actix::fut::ActorFutureExt;
use actix::{AsyncContext, Context, WrapFuture};
use xxhash_rust::xxh3::xxh3_64;

use crate::graph::GraphDef;
use crate::partition::Request;
use crate::transport::PeerId;

use super::Caller;
use crate::runtime::error::{CLOSED, Code, Error, Result, no_session, stopped};
use crate::runtime::mail::{ResetContainers, RunStep, StepDone};
use crate::runtime::master::{Master, Session};
use crate::runtime::messages::{
    self, Origin, Scope, SentOperation, SessionAction, SessionAnswer, SessionId,
};
use crate::runtime::reply::Answer;
use crate::runtime::session_options::SessionOptions;

/// The most sessions of one client.
const SESSIONS: usize = 64;
/// The most steps of one session with different feeds, fetches and targets.
const REQUESTS: usize = 1 << 12;

impl Master {
    /// Carries out the action of a call, and answers it: now or, if it takes time, once it is done.
    pub(super) fn carry_out(
        &mut self,
        caller: Caller,
        action: SessionAction,
        context: &mut Context<Self>,
    ) {
        if let Some(outcome) = self.act(caller, action, context).transpose() {
            self.answer_call(caller, outcome);
        }
    }

    /// Begins an action. Returns its answer; none if that comes later.
    fn act(
        &mut self,
        caller: Caller,
        action: SessionAction,
        context: &mut Context<Self>,
    ) -> Result<Option<SessionAnswer>> {
        let answer = match action {
            SessionAction::Create { placing, isolate_session_state } => {
                let options = SessionOptions::of_placing(&placing)?;
                let options = SessionOptions { isolate_session_state, ..options };
                self.create_for(caller.peer, options)?
            }
            SessionAction::Extend { session, known, operations } => {
                self.extend_for(caller.peer, session, known, operations)?
            }
            SessionAction::Run { session, request, feeds, timeout, origin, is_traced } => {
                let session = self.check_step(caller.peer, session, &request, feeds.len())?;
                let answer = Answer::new();
                let run = RunStep {
                    session,
                    request: Arc::new(request),
                    feeds,
                    deadline: timeout.map(|timeout| self.clock.now().after(timeout)),
                    origin: origin.map(|origin| of_client(caller.client, origin)),
                    is_traced,
                    reads_ahead: false,
                    reply: answer.reply(),
                };
                self.run_step(run, context);
                let fetched = |done: StepDone| SessionAnswer::Fetched(done.fetches, done.times);
                self.answer_later(caller, answer, fetched, context);
                return Ok(None);
            }
            SessionAction::Close { session } => {
                if let Ok(session) = self.session_of(caller.peer, session) {
                    self.close_session(session, &Error::new(Code::Cancelled, CLOSED));
                }
                SessionAnswer::Done
            }
            SessionAction::Reset { containers, within_training, device_filters, timeout } => {
                let answer = Answer::new();
                let reset = ResetContainers {
                    containers,
                    within_training,
                    device_filters: messages::device_filters(&device_filters)?,
                    deadline: timeout.map(|timeout| self.clock.now().after(timeout)),
                    reply: answer.reply(),
                };
                self.reset(reset, Some(caller.peer), context);
                self.answer_later(caller, answer, SessionAnswer::Reset, context);
                return Ok(None);
            }
            SessionAction::Return => SessionAnswer::Done,
        };
        Ok(Some(answer))
    }

    /// Answers `caller` once `answer` has come, as what `to_answer` makes of it.
    fn answer_later<T: 'static>(
        &self,
        caller: Caller,
        answer: Answer<Result<T>>,
        to_answer: fn(T) -> SessionAnswer,
        context: &mut Context<Self>,
    ) {
        context.spawn(answer.into_actor(self).map(move |outcome, master: &mut Self, _| {
            let outcome = outcome.unwrap_or_else(|| Err(stopped()));
            master.answer_call(caller, outcome.map(to_answer));
            master.outbox.flush();
        }));
    }

    fn create_for(&mut self, peer: PeerId, options: SessionOptions) -> Result<SessionAnswer> {
        if self.clients[&peer].sessions.len() >= SESSIONS {
            let message = format!(
                "{} has {SESSIONS} sessions here, and may not have more; close one first",
                self.outbox.name(peer)
            );
            return Err(self.refusal(Code::FailedPrecondition, message));
        }
        let session = self.create_session(options, Some(peer));
        self.clients.get_mut(&peer).expect("it has just called").sessions.insert(session);
        Ok(SessionAnswer::Created((self.id, session)))
    }

    /// The session that `scope` names, if it is `peer`'s.
    fn session_of(&self, peer: PeerId, (master, session): Scope) -> Result<SessionId> {
        let is_own = self.clients.get(&peer).is_some_and(|client| {
            client.sessions.contains(&session) && self.sessions.contains_key(&session)
        });
        if is_own && master == self.id { Ok(session) } else { Err(no_session()) }
    }

    fn extend_for(
        &mut self,
        peer: PeerId,
        session: Scope,
        known: u32,
        operations: Vec<SentOperation>,
    ) -> Result<SessionAnswer> {
        let session = self.session_of(peer, session)?;
        let received = operations.into_iter().map(SentOperation::receive);
        let received = received.collect::<Result<_>>()?;
        let Session { graph, names, .. } =
            self.sessions.get_mut(&session).expect("it was just there");
        let has = graph.operations.len();
        if has != known as usize {
            let message = format!("the graph has {has} operations here, and {known} at the client");
            return Err(Error::new(Code::Aborted, message));
        }
        Arc::make_mut(graph).receive(received, names).map_err(|refused| {
            Error::new(Code::InvalidArgument, refused.why).in_operation(refused.operation)
        })?;
        Ok(SessionAnswer::Done)
    }

    /// Checks that `session` is `peer`'s, and that its graph has what `request` names.
    fn check_step(
        &self,
        peer: PeerId,
        session: Scope,
        request: &Request,
        values: usize,
    ) -> Result<SessionId> {
        let id = self.session_of(peer, session)?;
        let session = &self.sessions[&id];
        check_request(&session.graph, request, values)?;
        if session.plans.len() >= REQUESTS && !session.plans.contains_key(request) {
            let message = format!(
                "{REQUESTS} different sets of feeds, fetches and targets have been run in this \
                 session, and no more may be; make a new one"
            );
            return Err(self.refusal(Code::FailedPrecondition, message));
        }
        Ok(id)
    }
}

/// The `origin` of a step of `client`: clients count their trainings each by itself.
fn of_client(client: u64, origin: Origin) -> Origin {
    let training = xxh3_64(format!("{client} {}", origin.training).as_bytes());
    Origin { owner: Some(client), training, ..origin }
}

/// Checks that `graph` has all that `request` names, and that it has a value for each feed.
fn check_request(graph: &GraphDef, request: &Request, values: usize) -> Result<()> {
    let Request { feeds, fetches, targets } = request;
    let refused = |message: String| Err(Error::new(Code::InvalidArgument, message));
    if feeds.len() != values {
        return refused(format!("{values} values are fed to {} places", feeds.len()));
    }
    if let Some(edge) = feeds.iter().chain(fetches).find(|edge| !graph.has_edge(**edge)) {
        let (op, output) = (edge.op.0, edge.output);
        return refused(format!("the graph has no output {output} of an operation {op}"));
    }
    match targets.iter().find(|target| !graph.has(**target)) {
        Some(target) => refused(format!("the graph has no operation {}", target.0)),
        None => Ok(()),
    }
}
