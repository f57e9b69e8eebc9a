//! A master in another process, as the sessions of this one use it (TensorFlow:
//! `GrpcRemoteMaster`): takes the mail that a master takes, and has it carried out there.
//!
//! It is a client of the other server: its calls are numbered, and those that are not answered are
//! sent again once a lost connection is back. It gives up when the other server says goodbye or
//! stays away for too long, and a server that has started anew knows its sessions no more; then
//! nobody can say whether a step that was under way was carried out, and its error says so.

mod calls;
mod end;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, Context};

use crate::clock::Clock;
use crate::graph::GraphDef;
use crate::transport::{CLIENT, Loss, PeerId, Transport, taken_by_another};
use crate::units::Time;

use crate::runtime::error::{Code, Error, Result, no_session};
use crate::runtime::incarnation::Living;
use crate::runtime::inquiry::Asked;
use crate::runtime::mail::{MasterMail, ResetContainers, RunStep};
use crate::runtime::mailbox::{Address, Receive};
use crate::runtime::messages::{PeerMessage, Scope, SentOperation, SessionAction, SessionId};
use crate::runtime::patience::Patience;
use crate::runtime::reply::{Reply, answer};
use crate::runtime::session_options::SessionOptions;
use crate::runtime::waiting::Waiting;

use calls::{Calls, MOST_LOSSES, Waiter};
pub(crate) use end::{ClientEnd, RemoteMasters};

/// The number of operations that are added to a graph in one call.
const OPERATIONS: usize = 1 << 10;

/// Stands in for the master of a server in another process.
pub(crate) struct RemoteMaster {
    transport: Rc<dyn Transport<PeerMessage>>,
    clock: Rc<dyn Clock>,
    own: Address<MasterMail>,
    peer: PeerId,
    /// This client's id there.
    id: u64,
    patience: Patience,
    calls: Calls,
    sessions: BTreeMap<SessionId, RemoteSession>,
    next_session: u64,
    /// Whether it has ever answered.
    has_answered: bool,
    /// The time since when there is no way to it, if there is none.
    cut_off: Option<Time>,
    is_watching: bool,
    /// Whether this process is asked to stop.
    stop_requested: Rc<Cell<bool>>,
}

/// A session on the other server.
struct RemoteSession {
    scope: Scope,
    graph: Arc<GraphDef>,
    /// How much of the graph has been sent \[operations\].
    sent: usize,
    is_extending: bool,
    /// The steps that wait until the graph is there.
    held: Vec<RunStep>,
    /// The error that ended the session, or its graph.
    over: Option<Error>,
}

impl RemoteMaster {
    pub(crate) fn new(
        transport: Rc<dyn Transport<PeerMessage>>,
        clock: Rc<dyn Clock>,
        peer: PeerId,
        own: Address<MasterMail>,
        patience: Patience,
        stop_requested: &Rc<Cell<bool>>,
    ) -> Self {
        let local = transport.peers().name(transport.peers().local());
        Self {
            id: Living::Client.id(&local, &*clock),
            transport,
            clock,
            own,
            peer,
            patience,
            calls: Calls::default(),
            sessions: BTreeMap::new(),
            next_session: 0,
            has_answered: false,
            cut_off: None,
            is_watching: false,
            stop_requested: Rc::clone(stop_requested),
        }
    }

    fn create_session(
        &mut self,
        options: &SessionOptions,
        reply: Reply<Result<SessionId>>,
        context: &mut Context<Self>,
    ) {
        let deadline = options.operation_timeout.map(|limit| self.clock.now().after(limit));
        let isolate_session_state = options.isolate_session_state;
        let action = SessionAction::Create { placing: options.placing(), isolate_session_state };
        self.call(action, Waiter::Session(reply), deadline, context);
    }

    /// Notes the session that the other master has begun.
    fn created(
        &mut self,
        scope: Scope,
        reply: Reply<Result<SessionId>>,
        context: &mut Context<Self>,
    ) {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        if !reply.send(Ok(id)) {
            return self.close(scope, context);
        }
        let session = RemoteSession {
            scope,
            graph: Arc::default(),
            sent: 0,
            is_extending: false,
            held: Vec::new(),
            over: None,
        };
        self.sessions.insert(id, session);
    }

    /// Has the other master end a session that nobody has here, so that nobody else would.
    fn close(&mut self, scope: Scope, context: &mut Context<Self>) {
        let action = SessionAction::Close { session: scope };
        self.call(action, Waiter::Nobody("end a session"), None, context);
    }

    /// Sends the operations of a session's graph that the other master does not have yet.
    fn extend(&mut self, id: SessionId, context: &mut Context<Self>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.is_extending || session.over.is_some() {
            return;
        }
        let operations = SentOperation::of(&session.graph, session.sent, OPERATIONS);
        if !operations.is_empty() {
            let (scope, known) = (session.scope, session.sent as u32);
            session.is_extending = true;
            session.sent += operations.len();
            let action = SessionAction::Extend { session: scope, known, operations };
            return self.call(action, Waiter::Extension(id), None, context);
        }
        for step in std::mem::take(&mut session.held) {
            self.run_step(step, context);
        }
    }

    /// The other master has the operations that were sent last, or refuses them.
    fn extended(&mut self, id: SessionId, outcome: Result<()>, context: &mut Context<Self>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.is_extending = false;
        match outcome {
            Ok(()) => self.extend(id, context),
            Err(error) => session.end(error),
        }
    }

    fn run_step(&mut self, run: RunStep, context: &mut Context<Self>) {
        let Some(session) = self.sessions.get_mut(&run.session) else {
            return answer(run.reply, Err(no_session()));
        };
        if let Some(error) = &session.over {
            return answer(run.reply, Err(error.clone()));
        }
        if session.is_extending {
            return session.held.push(run);
        }
        let now = self.clock.now();
        let action = SessionAction::Run {
            session: session.scope,
            request: (*run.request).clone(),
            feeds: run.feeds,
            timeout: run.deadline.map(|deadline| deadline.since(now)),
            origin: run.origin,
            is_traced: run.is_traced,
        };
        self.call(action, Waiter::Step(run.session, run.reply), run.deadline, context);
    }

    fn close_session(&mut self, id: SessionId, error: &Error, context: &mut Context<Self>) {
        let Some(mut session) = self.sessions.remove(&id) else { return };
        session.end(error.clone());
        self.calls.withdraw(id, error);
        self.close(session.scope, context);
    }

    fn reset(&mut self, asked: ResetContainers, context: &mut Context<Self>) {
        let ResetContainers { containers, within_training, device_filters, deadline, reply } =
            asked;
        let now = self.clock.now();
        let action = SessionAction::Reset {
            containers,
            within_training,
            device_filters: device_filters.iter().map(ToString::to_string).collect(),
            timeout: deadline.map(|deadline| deadline.since(now)),
        };
        self.call(action, Waiter::Reset(reply), deadline, context);
    }

    /// The connection is lost. What was under way is asked for again, unless the other server has
    /// gone for good. An apparent restart is no proof: a server that gave up the connection while
    /// this client was stopped looks the same, and still has its sessions. One that has restarted
    /// answers that it does not know them.
    fn lost(&mut self, loss: Loss, context: &mut Context<Self>) {
        let name = self.transport.peers().name(self.peer);
        if matches!(loss, Loss::Stopped | Loss::Outlived) {
            let local = self.transport.peers().name(self.transport.peers().local());
            let why = match loss {
                Loss::Outlived if local.job() == CLIENT => taken_by_another(&local),
                _ => loss.to_string(),
            };
            let error = Error::new(loss.into(), format!("{name} was lost, {why}"));
            return self.give_up(&error);
        }
        let message = format!("the connection to {name} was lost {MOST_LOSSES} times in a row");
        let error = Error::new(Code::Unavailable, message).on(&name);
        for session in self.calls.note_loss(self.clock.now(), &error) {
            self.extended(session, Err(error.clone()), context);
        }
        if self.calls.is_empty() && !self.sessions.is_empty() {
            let waiter = Waiter::Nobody("know this client again");
            return self.call(SessionAction::Return, waiter, None, context);
        }
        for message in self.calls.again(self.id) {
            self.send(message);
        }
    }

    /// Ends all sessions and all that is under way with `error`.
    fn give_up(&mut self, error: &Error) {
        let error = error.clone().on(&self.transport.peers().name(self.peer));
        self.cut_off = None;
        for session in self.sessions.values_mut() {
            let message = format!("{}; make a new session", error.message);
            session.end(Error { message, ..error.clone() });
        }
        self.calls.give_up(&error);
    }

    fn inquire(&self, asked: &Asked<Waiting>) {
        let local = self.transport.peers().name(self.transport.peers().local());
        for what in self.calls.under_way() {
            let to = self.transport.peers().name(self.peer);
            let (who, what) = (format!("client {local}"), format!("{to} to {what}"));
            asked.answer([Waiting { who, what }]);
        }
    }
}

impl RemoteSession {
    /// Ends the held steps whose deadline `is_late` with `error`.
    fn time_out(&mut self, is_late: impl Fn(Time) -> bool, error: &Error) {
        for index in (0..self.held.len()).rev() {
            if self.held[index].deadline.is_some_and(&is_late) {
                answer(self.held.remove(index).reply, Err(error.clone()));
            }
        }
    }

    /// Ends the session, and the steps that are not under way yet.
    fn end(&mut self, error: Error) {
        for step in self.held.drain(..) {
            answer(step.reply, Err(error.clone()));
        }
        self.over.get_or_insert(error);
    }
}

impl Actor for RemoteMaster {
    type Context = Context<Self>;
}

impl Receive for RemoteMaster {
    type Message = MasterMail;
    const ROLE: &'static str = "the client's end of a session";

    fn receive(&mut self, message: MasterMail, context: &mut Context<Self>) {
        match message {
            MasterMail::CreateSession { options, reply } => {
                self.create_session(&options, reply, context);
            }
            MasterMail::ExtendSession { session, graph } => {
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.graph = graph;
                }
                self.extend(session, context);
            }
            MasterMail::RunStep(run) => self.run_step(run, context),
            MasterMail::CloseSession { session, error } => {
                self.close_session(session, &error, context);
            }
            MasterMail::Reset(asked) => self.reset(asked, context),
            MasterMail::FromMaster(message) => self.answered(message, context),
            MasterMail::Lost { loss, .. } => self.lost(loss, context),
            MasterMail::AlarmRings => self.look(context),
            MasterMail::Inquire(asked) => self.inquire(&asked),
            MasterMail::Stop => {
                self.give_up(&Error::new(Code::Cancelled, "the client has closed its connection"));
                context.stop();
            }
            // These are of a server's own master.
            MasterMail::FromPeer { .. }
            | MasterMail::ClientIsGone { .. }
            | MasterMail::ListSessions(_)
            | MasterMail::ResetGraceIsOver { .. }
            | MasterMail::ResetDeadlineReached { .. } => {}
        }
    }
}
