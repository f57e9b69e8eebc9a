//! The clients of a master: their calls, each carried out once, and their sessions, which end some
//! time after the client has gone.
//!
//! A client whose connection is lost has as long as the server says to come back. Until then its
//! sessions stay and its steps go on; what they give is kept for it. A client that says goodbye, or
//! starts anew, has no sessions any more.

mod pieces;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::{AsyncContext, Context, SpawnHandle, WrapFuture};
use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::DeviceSpec;
use crate::graph::GraphDef;
use crate::partition::Request;
use crate::transport::{Loss, PeerId};

use super::Master;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::mail::{
    CLOSED, MasterMail, ResetContainers, RunStep, SessionOptions, StepDone, no_session, stopped,
};
use crate::runtime::messages::{
    self, ClientMessage, Origin, Scope, SentOperation, SessionAction, SessionAnswer, SessionCall,
    SessionId, Values,
};
use crate::runtime::reply::Answer;

/// The most sessions of one client.
const SESSIONS: usize = 64;
/// The most calls of one client that are under way or whose answers are kept.
const CALLS: usize = 1 << 12;
/// The most steps of one session with different feeds, fetches and targets.
const REQUESTS: usize = 1 << 12;
/// The most memory of values that are kept for one client until it says that they have arrived
/// \[bytes\].
const KEPT: u64 = 256 << 20;

/// A client with sessions here.
pub(super) struct Client {
    id: u64,
    sessions: BTreeSet<SessionId>,
    /// By number: a call that is under way, or its answer, which may be asked for again.
    calls: BTreeMap<u64, Option<Result<SessionAnswer>>>,
    settled: u64,
    /// The timer of its end, while its connection is lost.
    away: Option<SpawnHandle>,
}

/// A client's step: its request and feeds, its time limit, its origin, and whether it is traced.
type ClientStep = (Request, Values, Option<Duration>, Option<Origin>, bool);

/// A call, and who waits for its answer.
#[derive(Clone, Copy)]
struct Caller {
    peer: PeerId,
    client: u64,
    number: u64,
}

impl Client {
    fn new(id: u64) -> Self {
        let (sessions, calls) = (BTreeSet::new(), BTreeMap::new());
        Self { id, sessions, calls, settled: 0, away: None }
    }

    /// Whether its connection is lost.
    fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// The answers to all calls below `number` have arrived.
    fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
        self.calls = self.calls.split_off(&self.settled);
    }

    /// Keeps the answer to a call, and drops the oldest values where these are too many.
    fn keep(&mut self, number: u64, outcome: Result<SessionAnswer>) {
        self.calls.insert(number, Some(outcome));
        let size = |outcome: &Option<Result<SessionAnswer>>| match outcome {
            Some(Ok(SessionAnswer::Fetched(values, _))) => {
                values.iter().map(|value| value.byte_len() as u64).sum()
            }
            _ => 0,
        };
        let mut kept: u64 = self.calls.values().map(size).sum();
        for call in self.calls.values_mut() {
            if kept <= KEPT {
                break;
            }
            let length = size(call);
            if length > 0 {
                kept -= length;
                let message = "the step was carried out, but its values were lost on their way, \
                               and are too large to be kept; fetch them again";
                *call = Some(Err(Error::new(Code::DataLoss, message)));
            }
        }
    }
}

impl Master {
    /// Carries out a client's call, unless it has done so before.
    pub(super) fn called(&mut self, from: PeerId, call: SessionCall, context: &mut Context<Self>) {
        let SessionCall { client: id, number, settled, action } = call;
        if self.clients.get(&from).is_some_and(|client| client.id != id) {
            self.clear_client(from);
        }
        let client = self.clients.entry(from).or_insert_with(|| Client::new(id));
        if let Some(timer) = client.away.take() {
            context.cancel_future(timer);
        }
        client.settle(settled);
        match client.calls.get(&number) {
            _ if number < client.settled => return,
            Some(None) => return,
            Some(Some(outcome)) => {
                let outcome = outcome.clone();
                return self.link.send(from, ClientMessage::Answered { number, outcome });
            }
            None => {}
        }
        let caller = Caller { peer: from, client: id, number };
        if client.calls.len() >= CALLS {
            let message = format!("more than {CALLS} calls are under way; wait for some of them");
            let outcome = Err(self.refusal(Code::FailedPrecondition, message));
            return self.link.send(from, ClientMessage::Answered { number, outcome });
        }
        client.calls.insert(number, None);
        self.carry_out(caller, action, context);
    }

    fn carry_out(&mut self, caller: Caller, action: SessionAction, context: &mut Context<Self>) {
        let done = match action {
            SessionAction::Create { placing, isolate_session_state } => {
                SessionOptions::of_placing(&placing).and_then(|options| {
                    let options = SessionOptions { isolate_session_state, ..options };
                    self.create_for(caller.peer, options)
                })
            }
            SessionAction::Extend { session, known, operations } => {
                self.extend_for(caller.peer, session, known, operations)
            }
            SessionAction::Run { session, request, feeds, timeout, origin, is_traced } => {
                let step = (request, feeds, timeout, origin, is_traced);
                return match self.check_step(caller.peer, session, &step.0, step.1.len()) {
                    Ok(session) => self.run_for(caller, session, step, context),
                    Err(error) => self.answer_call(caller, Err(error)),
                };
            }
            SessionAction::SetUp { session, handle, request, timeout } => {
                let fed = request.feeds.len();
                return match self.check_step(caller.peer, session, &request, fed) {
                    Ok(session) => {
                        self.set_up_for(caller, (session, handle), request, timeout, context)
                    }
                    Err(error) => self.answer_call(caller, Err(error)),
                };
            }
            SessionAction::Piece { session, handle, feeds, fetches } => {
                return match self.session_of(caller.peer, session) {
                    Ok(session) => {
                        self.run_piece_for(caller, (session, handle), (feeds, fetches), context)
                    }
                    Err(error) => self.answer_call(caller, Err(error)),
                };
            }
            SessionAction::GiveUp { session, handle } => {
                if let Ok(session) = self.session_of(caller.peer, session) {
                    self.give_up_pieces(session, handle);
                }
                Ok(SessionAnswer::Done)
            }
            SessionAction::Close { session } => {
                if let Ok(session) = self.session_of(caller.peer, session) {
                    self.close_session(session, &Error::new(Code::Cancelled, CLOSED));
                }
                Ok(SessionAnswer::Done)
            }
            SessionAction::Reset { containers, within_training, device_filters, timeout } => {
                return match messages::device_filters(&device_filters) {
                    Ok(filters) => {
                        let asked = (containers, within_training, filters, timeout);
                        self.reset_for(caller, asked, context)
                    }
                    Err(error) => self.answer_call(caller, Err(error)),
                };
            }
            SessionAction::Return => Ok(SessionAnswer::Done),
        };
        self.answer_call(caller, done);
    }

    fn create_for(&mut self, peer: PeerId, options: SessionOptions) -> Result<SessionAnswer> {
        if self.clients[&peer].sessions.len() >= SESSIONS {
            let message = format!(
                "{} has {SESSIONS} sessions here, and may not have more; close one first",
                self.link.name(peer)
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
        let graph = &mut self.sessions.get_mut(&session).expect("it was just there").graph;
        let has = graph.operations.len();
        if has != known as usize {
            let message = format!("the graph has {has} operations here, and {known} at the client");
            return Err(Error::new(Code::Aborted, message));
        }
        Arc::make_mut(graph).receive(received).map_err(|refused| {
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

    fn run_for(
        &mut self,
        caller: Caller,
        session: SessionId,
        (request, feeds, timeout, origin, is_traced): ClientStep,
        context: &mut Context<Self>,
    ) {
        let answer = Answer::<Result<StepDone>>::new();
        let deadline = timeout.map(|timeout| self.clock.now().after(timeout));
        // Clients count their trainings each by itself.
        let training = |origin: Origin| {
            let text = format!("{} {}", caller.client, origin.training);
            Origin { training: xxh3_64(text.as_bytes()), ..origin }
        };
        let (request, origin) = (Arc::new(request), origin.map(training));
        let reply = answer.reply();
        let (reads_ahead, pieces) = (false, None);
        let run = RunStep {
            session,
            request,
            feeds,
            deadline,
            origin,
            is_traced,
            reads_ahead,
            pieces,
            reply,
        };
        self.run_step(run, context);
        let answered = answer.into_actor(self).map(move |done, master: &mut Self, _| {
            let done = done.unwrap_or_else(|| Err(stopped()));
            let fetched = |done: StepDone| SessionAnswer::Fetched(done.fetches, done.times);
            master.answer_call(caller, done.map(fetched));
            master.link.flush();
        });
        context.spawn(answered);
    }

    fn reset_for(
        &mut self,
        caller: Caller,
        asked: (Vec<String>, bool, Vec<DeviceSpec>, Option<Duration>),
        context: &mut Context<Self>,
    ) {
        let (containers, within_training, device_filters, timeout) = asked;
        let answer = Answer::new();
        let deadline = timeout.map(|timeout| self.clock.now().after(timeout));
        let reply = answer.reply();
        let asked =
            ResetContainers { containers, within_training, device_filters, deadline, reply };
        self.reset(asked, context);
        let answered = answer.into_actor(self).map(move |done, master: &mut Self, _| {
            let done = done.unwrap_or_else(|| Err(stopped()));
            master.answer_call(caller, done.map(SessionAnswer::Reset));
            master.link.flush();
        });
        context.spawn(answered);
    }

    /// Answers a call, unless its client has gone.
    fn answer_call(&mut self, caller: Caller, outcome: Result<SessionAnswer>) {
        let Caller { peer, client: id, number } = caller;
        let Some(client) = self.clients.get_mut(&peer).filter(|client| client.id == id) else {
            return;
        };
        client.keep(number, outcome.clone());
        if !client.is_away() {
            self.link.send(peer, ClientMessage::Answered { number, outcome });
        }
    }

    /// The way to `peer` has broken: its sessions end now or, if it may come back, later.
    pub(super) fn client_lost(&mut self, peer: PeerId, loss: Loss, context: &mut Context<Self>) {
        let Some(client) = self.clients.get(&peer) else { return };
        if loss != Loss::Silent {
            return self.clear_client(peer);
        }
        let (id, limit) = (client.id, self.link.actors.access.client_limit());
        tracing::warn!(client = %self.link.name(peer), ?limit, "a client is away");
        let gone = MasterMail::ClientIsGone { peer, client: id };
        let timer = self.set_timer(self.clock.now().after(limit), gone, context);
        let client = self.clients.get_mut(&peer).expect("it was just there");
        if let Some(earlier) = client.away.replace(timer) {
            context.cancel_future(earlier);
        }
    }

    /// The time is over in which `peer` might have come back as the client `id`.
    pub(super) fn client_is_gone(&mut self, peer: PeerId, id: u64) {
        if self.clients.get(&peer).is_some_and(|client| client.id == id && client.is_away()) {
            tracing::warn!(client = %self.link.name(peer), "a client is gone; its sessions end");
            self.clear_client(peer);
        }
    }

    /// Whether the connection to the client `peer` is lost.
    pub(super) fn is_away(&self, peer: PeerId) -> bool {
        self.clients.get(&peer).is_some_and(Client::is_away)
    }

    /// A session of the client `peer` is closed.
    pub(super) fn forget_session(&mut self, peer: PeerId, session: SessionId) {
        if let Some(client) = self.clients.get_mut(&peer) {
            client.sessions.remove(&session);
        }
    }

    /// Ends the sessions of a client, and forgets it.
    fn clear_client(&mut self, peer: PeerId) {
        let Some(client) = self.clients.remove(&peer) else { return };
        let gone = Error::new(Code::Cancelled, "the client of the session has gone");
        for session in client.sessions {
            self.close_session(session, &gone);
        }
    }

    /// Ends all calls with `error`: the server stops.
    pub(super) fn answer_all_clients(&mut self, error: &Error) {
        for (peer, client) in std::mem::take(&mut self.clients) {
            let open = client.calls.iter().filter(|(_, answer)| answer.is_none());
            for (number, _) in open {
                let (number, outcome) = (*number, Err(error.clone()));
                self.link.send(peer, ClientMessage::Answered { number, outcome });
            }
        }
    }

    fn refusal(&self, code: Code, message: String) -> Error {
        Error::new(code, message).on(&self.link.name(self.link.local()))
    }
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
