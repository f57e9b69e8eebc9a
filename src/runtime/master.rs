//! The master service of a task: sessions, and the steps that their programs run.

mod blocked;
mod clients;
mod deadlines;
mod expected;
mod losses;
mod registration;
mod reset;
pub(super) mod step_plan;
mod steps;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, Context};
use tracing::trace_span;

use crate::clock::Clock;
use crate::cluster::{DeviceName, TaskName};
use crate::graph::{GraphDef, Names};
use crate::partition::Request;
use crate::transport::{Loss, PeerId};

use crate::runtime::error::{CLOSED, Code, Error, no_session};
use crate::runtime::inquiry::Asked;
use crate::runtime::log_limit::LogLimit;
use crate::runtime::mail::{MasterMail, RunStep};
use crate::runtime::mailbox::Receive;
use crate::runtime::master::step_plan::{Accepted, StepPlan};
use crate::runtime::messages::{GraphHandle, MasterMessage, SessionId, StepId};
use crate::runtime::ordered::Ordered;
use crate::runtime::outbox::Outbox;
use crate::runtime::reply::answer;
use crate::runtime::session_options::SessionOptions;
use crate::runtime::session_status::SessionStatus;
use crate::runtime::waiting::Waiting;
use clients::Client;
use deadlines::Alarm;
use expected::Expected;
use registration::Registration;
use reset::Reset;
use steps::RunningStep;

/// Runs the steps of the sessions that programs hold with its task.
pub(crate) struct Master {
    outbox: Outbox,
    clock: Rc<dyn Clock>,
    /// This master's id: differs from every other master's, and from those of this task's earlier
    /// lives.
    id: u64,
    /// The devices of the whole cluster.
    devices: Rc<[DeviceName]>,
    /// Its own task.
    home: TaskName,
    sessions: BTreeMap<SessionId, Session>,
    next_session: u64,
    next_graph: u64,
    next_step: u64,
    /// Partitions that workers are making ready.
    registering: BTreeMap<GraphHandle, Registration>,
    /// The step whose variables may have been read ahead.
    expected: Option<Expected>,
    steps: Ordered<StepId, RunningStep>,
    alarm: Option<Alarm>,
    reset: Option<Reset>,
    next_reset: u64,
    /// The lives of workers that have said that they stop.
    stopped: BTreeMap<PeerId, Option<u64>>,
    clients: BTreeMap<PeerId, Client>,
    /// Answers that nobody waits for.
    dropped: LogLimit,
    /// Losses of clients.
    losses: LogLimit,
}

struct Session {
    options: SessionOptions,
    /// Its client; none for a program of this process.
    client: Option<PeerId>,
    /// The number of its steps that have begun.
    steps: u64,
    graph: Arc<GraphDef>,
    /// The names of the graph's operations, if a client builds it.
    names: Names,
    plans: BTreeMap<Arc<Request>, StepPlan>,
    /// The tasks that may hold variables or resources of its own, if it has its own.
    holders: BTreeSet<PeerId>,
    /// The tasks with a part in the session's plans that have been lost. Their state may be gone,
    /// so the session takes no more steps there.
    lost: BTreeMap<PeerId, Loss>,
}

impl Session {
    /// The number of its steps that wait for a task to make ready.
    fn waiting(&self) -> u64 {
        let waiting = self.plans.values().filter_map(StepPlan::awaiting);
        waiting.map(|(steps, _)| steps.len() as u64).sum()
    }
}

impl Master {
    pub(crate) fn new(
        outbox: Outbox,
        clock: Rc<dyn Clock>,
        id: u64,
        devices: Rc<[DeviceName]>,
    ) -> Self {
        let home = outbox.name(outbox.local());
        Self {
            outbox,
            clock,
            id,
            devices,
            home,
            sessions: BTreeMap::new(),
            next_session: 0,
            next_graph: 0,
            next_step: 0,
            expected: None,
            registering: BTreeMap::new(),
            steps: Ordered::default(),
            alarm: None,
            reset: None,
            next_reset: 0,
            stopped: BTreeMap::new(),
            clients: BTreeMap::new(),
            dropped: LogLimit::default(),
            losses: LogLimit::default(),
        }
    }

    fn create_session(&mut self, options: SessionOptions, client: Option<PeerId>) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(
            id,
            Session {
                options,
                client,
                steps: 0,
                graph: Arc::default(),
                names: Names::default(),
                plans: BTreeMap::new(),
                holders: BTreeSet::new(),
                lost: BTreeMap::new(),
            },
        );
        id
    }

    /// Hop 2 of a step: finds the plan for its request, or makes and registers one.
    fn run_step(&mut self, run: RunStep, context: &mut Context<Self>) {
        let step =
            StepId { master: self.id, number: self.number_of(&run), trains: run.origin.is_some() };
        let _span = trace_span!("run_step", session = run.session.0, step = step.number).entered();
        if let Some(deadline) = run.deadline {
            self.limit(deadline, context);
        }
        let Some(session) = self.sessions.get_mut(&run.session) else {
            return answer(run.reply, Err(no_session()));
        };
        session.steps += 1;
        let accepted = Accepted { step, run };
        match session.plans.get_mut(&accepted.run.request) {
            Some(StepPlan::Ready(plan)) => {
                let plan = Arc::clone(plan);
                match self
                    .check_reachable(accepted.run.session, plan.parts.iter().map(|part| part.peer))
                {
                    Ok(()) => self.start(accepted, plan),
                    Err(error) => refuse(accepted, error),
                }
            }
            Some(StepPlan::Registering { waiting, .. }) => waiting.push(accepted),
            None => self.register(accepted),
        }
    }

    fn close_session(&mut self, session: SessionId, error: &Error) {
        let scope = self.sessions.contains_key(&session).then(|| self.scope_of(session)).flatten();
        let Some(closed) = self.sessions.remove(&session) else { return };
        if let Some(client) = closed.client {
            self.forget_session(client, session);
        }
        self.fail_steps(|_, _, step| step.session == session, |_, _| error.clone());
        let mut all_parts = Vec::new();
        for plan in closed.plans.into_values() {
            let (parts, waiting) = plan.into_parts();
            waiting.into_iter().for_each(|accepted| refuse(accepted, error.clone()));
            all_parts.extend(parts);
        }
        self.deregister(all_parts, scope.map(|scope| (scope, closed.holders)));
    }

    /// The server stops: everything that runs is cancelled.
    fn stop(&mut self, context: &mut Context<Self>) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        let stopped = Error::new(Code::Cancelled, "the step was cancelled: its server has stopped");
        for session in sessions {
            self.close_session(session, &stopped);
        }
        self.answer_all_clients(&stopped);
        context.stop();
    }

    fn inquire(&self, asked: &Asked<Waiting>) {
        let who = self.outbox.name(self.outbox.local());
        for (step, running) in self.steps.iter() {
            let who = format!("master of {who}, step {}", step.number);
            let absent = running.absent().into_iter();
            let absent = absent.map(|task| format!("{task}, which is not there"));
            let whats = [self.unanswered(*step)].into_iter().chain(absent);
            asked.answer(whats.map(|what| Waiting { who: who.clone(), what }));
        }
        for plan in self.sessions.values().flat_map(|session| session.plans.values()) {
            let Some((waiting, peers)) = plan.awaiting() else { continue };
            for accepted in waiting {
                let who = format!("master of {who}, step {}", accepted.step.number);
                let what = format!("{} to make it ready", self.names(&peers));
                asked.answer([Waiting { who, what }]);
            }
        }
        if let Some(tasks) = self.reset_waits_for() {
            let (who, what) = (format!("master of {who}"), format!("{tasks} to be reset"));
            asked.answer([Waiting { who, what }]);
        }
    }

    fn list_sessions(&self, asked: &Asked<SessionStatus>) {
        let status = |(id, session): (&SessionId, &Session)| SessionStatus {
            number: id.0,
            client: session.client.map(|client| self.outbox.name(client)),
            is_away: session.client.is_some_and(|client| self.is_away(client)),
            operations: session.graph.operations.len() as u64,
            steps: session.steps,
            running: self.steps.iter().filter(|(_, step)| step.session == *id).count() as u64
                + session.waiting(),
        };
        asked.answer(self.sessions.iter().map(status));
    }

    fn on_message(&mut self, from: PeerId, message: MasterMessage, context: &mut Context<Self>) {
        match message {
            MasterMessage::GraphRegistered { graph, outcome } => {
                self.registered(from, graph, outcome);
            }
            MasterMessage::GraphDone { step, graph, outcome, computed } => {
                self.collect(from, step, graph, outcome.map_err(|error| *error), computed);
            }
            MasterMessage::Traced { step, graph, times } => self.traced(from, step, graph, times),
            MasterMessage::ResetDone { number, variables, departed } => {
                self.reset_done(from, number, variables, departed, context);
            }
            MasterMessage::Called(call) => self.called(from, *call, context),
            MasterMessage::WayLost { to } => self.way_lost(from, &to),
            MasterMessage::BlockedWays { step, graph, to, absent } => {
                self.absence_told(from, (step, graph), absent);
                self.ways_told(from, (step, graph), to, context);
            }
            MasterMessage::Known { is_known } => self.answered_whether_known(from, is_known),
        }
    }
}

/// Ends a step that has not begun.
fn refuse(accepted: Accepted, error: Error) {
    answer(accepted.run.reply, Err(error));
}

impl Actor for Master {
    type Context = Context<Self>;
}

impl Receive for Master {
    type Message = MasterMail;
    const ROLE: &'static str = "the master";

    fn receive(&mut self, message: MasterMail, context: &mut Context<Self>) {
        match message {
            MasterMail::CreateSession { options, reply } => {
                let session = self.create_session(options, None);
                if !reply.send(Ok(session)) {
                    // Nobody knows of it, and would close it.
                    self.close_session(session, &Error::new(Code::Cancelled, CLOSED));
                }
            }
            MasterMail::ExtendSession { session, graph } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.graph = graph;
                }
            }
            MasterMail::RunStep(run) => self.run_step(run, context),
            MasterMail::CloseSession { session, error } => self.close_session(session, &error),
            MasterMail::Reset(asked) => self.reset(asked, None, context),
            MasterMail::FromPeer { from, message } => self.on_message(from, message, context),
            MasterMail::Lost { peer, loss } => self.lost(peer, loss, context),
            MasterMail::AlarmRings => self.alarm_rings(context),
            MasterMail::Inquire(asked) => self.inquire(&asked),
            MasterMail::ResetDeadlineReached { number } => {
                self.reset_deadline_reached(number, context);
            }
            MasterMail::ResetGraceIsOver { number } => self.reset_grace_is_over(number, context),
            MasterMail::ClientIsGone { peer, client } => {
                self.client_is_gone(peer, client, context);
            }
            MasterMail::ListSessions(asked) => self.list_sessions(&asked),
            MasterMail::FromMaster(message) => {
                tracing::debug!(?message, "an answer for a client; dropped");
            }
            MasterMail::Stop => self.stop(context),
        }
        self.outbox.flush();
    }
}
