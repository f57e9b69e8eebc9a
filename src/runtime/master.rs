//! The master service of a task: sessions, and the steps that their programs run.

mod clients;
mod deadlines;
mod expected;
mod losses;
mod pieces;
mod reset;
pub(super) mod step_plan;
mod steps;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, Context};
use tracing::trace_span;

use crate::clock::Clock;
use crate::cluster::{DeviceName, DeviceSpec, TaskName};
use crate::graph::GraphDef;
use crate::operations::Flow;
use crate::partition::Request;
use crate::transport::{Loss, PeerId};

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::link::Link;
use crate::runtime::mail::{
    MasterMail, RunStep, SessionList, SessionOptions, SessionStatus, Waiting, WaitingList,
    no_session,
};
use crate::runtime::mailbox::Receive;
use crate::runtime::master::step_plan::{
    Accepted, Part, Progress, Ready, StepPlan, log_placement, plan,
};
use crate::runtime::messages::{
    GraphHandle, MasterMessage, Placing, Scope, SessionId, StepId, WorkerMessage,
};
use crate::runtime::ordered::Ordered;
use crate::runtime::reply::answer;
use clients::Client;
use deadlines::Alarm;
use expected::Expected;
use reset::Reset;
use steps::Step;

/// Runs the steps of the sessions that programs hold with its task.
pub(crate) struct Master {
    link: Link,
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
    steps: Ordered<StepId, Step>,
    alarm: Option<Alarm>,
    reset: Option<Reset>,
    next_reset: u64,
    clients: BTreeMap<PeerId, Client>,
}

/// A partition that a task is making ready, by the session and request that it is for.
struct Registration {
    at: PeerId,
    session: SessionId,
    request: Arc<Request>,
}

struct Session {
    options: SessionOptions,
    /// Its client; none for a program of this process.
    client: Option<PeerId>,
    /// The number of its steps that have begun.
    steps: u64,
    graph: Arc<GraphDef>,
    plans: BTreeMap<Arc<Request>, StepPlan>,
    /// The tasks with a part in the session's plans that have been lost. Their state may be gone,
    /// so the session takes no more steps there.
    lost: BTreeMap<PeerId, Loss>,
}

impl Master {
    pub(crate) fn new(
        link: Link,
        clock: Rc<dyn Clock>,
        id: u64,
        devices: Rc<[DeviceName]>,
    ) -> Self {
        let home = link.name(link.local());
        Self {
            link,
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
            clients: BTreeMap::new(),
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
                plans: BTreeMap::new(),
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
        let Some(session) = self.sessions.get_mut(&run.session) else {
            return answer(run.reply, Err(no_session()));
        };
        session.steps += 1;
        if let Some(deadline) = run.deadline {
            self.limit(deadline, context);
        }
        let accepted = Accepted { step, run };
        let session = self.sessions.get_mut(&accepted.run.session).expect("it was just there");
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

    /// Prunes, places and partitions the graph for a request, and has the partitions registered.
    fn register(&mut self, accepted: Accepted) {
        let id = accepted.run.session;
        let request = Arc::clone(&accepted.run.request);
        let session = &self.sessions[&id];
        let devices = self.visible_devices(&session.options.device_filters);
        let (is_soft, is_logged) =
            (session.options.allow_soft_placement, session.options.log_device_placement);
        let devices = (&devices[..], &self.home);
        let planned = plan(&session.graph, &request, devices, is_soft);
        let planned = planned.and_then(|(partitions, fed_fetches)| {
            let peers = partitions
                .iter()
                .map(|partition| self.peer_of(&partition.task))
                .collect::<Result<Vec<_>>>()?;
            self.check_reachable(id, peers.iter().copied())?;
            if session.client.is_some() {
                // What goes to another task is checked there, too; what stays here is not.
                let checked = partitions.iter().try_for_each(|partition| partition.check());
                checked.map_err(|why| Error::new(Code::InvalidArgument, why))?;
            }
            Ok((partitions, peers, fed_fetches))
        });
        let (partitions, peers, fed_fetches) = match planned {
            Ok(planned) => planned,
            Err(error) => return refuse(accepted, error),
        };
        if is_logged {
            log_placement(&partitions);
        }
        let (isolated, placing) = (self.scope_of(id), self.placing_of(id));
        let is_again = accepted.run.origin.is_some_and(|origin| origin.is_again);
        let mut ready = Ready { parts: Vec::new(), fed_fetches };
        for (partition, peer) in partitions.into_iter().zip(&peers) {
            let graph = GraphHandle { master: self.id, number: self.next_graph };
            self.next_graph += 1;
            let registration =
                Registration { at: *peer, session: id, request: Arc::clone(&request) };
            self.registering.insert(graph, registration);
            ready.parts.push(Part::new(*peer, graph, &partition));
            let has_functions = partition.nodes.iter().any(|node| Flow::of(&node.op).is_some());
            let functions = has_functions.then(|| Box::new(placing.clone()));
            let partition = Arc::new(partition);
            let order =
                WorkerMessage::RegisterGraph { graph, partition, isolated, is_again, functions };
            self.link.send(*peer, order);
        }
        let plans = &mut self.sessions.get_mut(&id).expect("it was just there").plans;
        if peers.is_empty() {
            // Nothing is to be run: every fetch is also fed.
            let ready = Arc::new(ready);
            plans.insert(request, StepPlan::Ready(Arc::clone(&ready)));
            return self.start(accepted, ready);
        }
        let outstanding = ready.parts.iter().map(|part| part.graph).collect();
        plans
            .insert(request, StepPlan::Registering { ready, outstanding, waiting: vec![accepted] });
    }

    fn peer_of(&self, task: &TaskName) -> Result<PeerId> {
        let unknown =
            || Error::new(Code::Unavailable, format!("the task {task} can't be reached from here"));
        self.link.resolve(task).ok_or_else(unknown)
    }

    fn visible_devices(&self, filters: &[DeviceSpec]) -> Cow<'_, [DeviceName]> {
        if filters.is_empty() {
            return Cow::Borrowed(&self.devices);
        }
        let is_visible = |device: &&DeviceName| {
            *device.task() == self.home || filters.iter().any(|filter| filter.matches(device))
        };
        self.devices.iter().filter(is_visible).cloned().collect()
    }

    /// Where the functions of a session's conditions and loops may be, whose steps are those of
    /// other masters: where its own operations may be, of which those on this task are among.
    fn placing_of(&self, session: SessionId) -> Placing {
        let mut placing = self.sessions[&session].options.placing();
        if !placing.device_filters.is_empty() {
            placing.device_filters.push(DeviceSpec::of_task(&self.home).to_string());
        }
        placing
    }

    fn scope_of(&self, session: SessionId) -> Option<Scope> {
        self.sessions[&session].options.isolate_session_state.then_some((self.id, session))
    }

    /// A worker has made a partition ready, or has failed to; the last one starts the waiting
    /// steps.
    fn registered(&mut self, from: PeerId, graph: GraphHandle, outcome: Result<()>) {
        let is_asked = |registration: &mut Registration| registration.at == from;
        let asked = self.registering.get_mut(&graph).is_some_and(is_asked);
        let Some(Registration { session: session_id, request, .. }) =
            asked.then(|| self.registering.remove(&graph)).flatten()
        else {
            let from = self.link.name(from);
            return tracing::debug!(?graph, %from, "an answer that nobody waits for; dropped");
        };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(plan) = session.plans.get_mut(&request) else { return };
        match plan.registered(graph, outcome) {
            Progress::Waiting => {}
            Progress::Ready(ready, waiting) => {
                for accepted in waiting {
                    self.start(accepted, Arc::clone(&ready));
                }
            }
            Progress::Failed(error, waiting) => {
                self.forget_plan(session_id, &request);
                waiting.into_iter().for_each(|accepted| refuse(accepted, error.clone()));
            }
        }
    }

    /// Drops a plan that could not be registered, with the partitions that workers may hold of it.
    fn forget_plan(&mut self, session: SessionId, request: &Arc<Request>) {
        let plans = &mut self.sessions.get_mut(&session).expect("a plan is of a session").plans;
        let (parts, waiting) =
            plans.remove(request).expect("a plan is forgotten once").into_parts();
        assert!(waiting.is_empty(), "no step waits for a plan that is given up");
        self.deregister(parts, None);
    }

    /// Makes workers forget partitions, and with `isolated` the session's own variables.
    fn deregister(&mut self, parts: Vec<Part>, isolated: Option<Scope>) {
        let mut graphs: BTreeMap<PeerId, Vec<GraphHandle>> = BTreeMap::new();
        for part in parts {
            self.registering.remove(&part.graph);
            graphs.entry(part.peer).or_default().push(part.graph);
        }
        for (peer, graphs) in graphs {
            self.link.send(peer, WorkerMessage::DeregisterGraphs { graphs, isolated });
        }
    }

    fn close_session(&mut self, session: SessionId, error: &Error) {
        let isolated =
            self.sessions.contains_key(&session).then(|| self.scope_of(session)).flatten();
        let Some(closed) = self.sessions.remove(&session) else { return };
        if let Some(client) = closed.client {
            self.forget_session(client, session);
        }
        let running: Vec<StepId> = self
            .steps
            .iter()
            .filter(|(_, step)| step.session == session)
            .map(|(id, _)| *id)
            .collect();
        for step in running {
            self.fail(step, error.clone());
        }
        let mut all_parts = Vec::new();
        for plan in closed.plans.into_values() {
            let (parts, waiting) = plan.into_parts();
            waiting.into_iter().for_each(|accepted| refuse(accepted, error.clone()));
            all_parts.extend(parts);
        }
        self.deregister(all_parts, isolated);
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

    fn inquire(&self, list: &WaitingList) {
        let who = self.link.name(self.link.local());
        let mut list = list.lock().expect("nobody panics while writing what it waits for");
        for step in self.steps.keys() {
            let who = format!("master of {who}, step {}", step.number);
            list.push(Waiting { who, what: self.unanswered(*step) });
        }
        for plan in self.sessions.values().flat_map(|session| session.plans.values()) {
            let StepPlan::Registering { ready, outstanding, waiting } = plan else { continue };
            for accepted in waiting {
                let who = format!("master of {who}, step {}", accepted.step.number);
                list.push(Waiting {
                    who,
                    what: format!("{} to make it ready", self.names(&ready.peers(outstanding))),
                });
            }
        }
        if let Some(tasks) = self.reset_waits_for() {
            list.push(Waiting {
                who: format!("master of {who}"),
                what: format!("{tasks} to be reset"),
            });
        }
    }

    fn list_sessions(&self, list: &SessionList) {
        let status = |(id, session): (&SessionId, &Session)| SessionStatus {
            number: id.0,
            client: session.client.map(|client| self.link.name(client)),
            is_away: session.client.is_some_and(|client| self.is_away(client)),
            operations: session.graph.operations.len(),
            steps: session.steps,
            running: self.steps.iter().filter(|(_, step)| step.session == *id).count(),
        };
        let mut list = list.lock().expect("nobody panics while writing its sessions");
        list.extend(self.sessions.iter().map(status));
    }

    fn on_message(&mut self, from: PeerId, message: MasterMessage, context: &mut Context<Self>) {
        match message {
            MasterMessage::GraphRegistered { graph, outcome } => {
                self.registered(from, graph, outcome);
            }
            MasterMessage::GraphDone { step, graph, outcome, computed } => {
                self.collect(from, (step, graph), outcome, computed);
            }
            MasterMessage::Fetched { step, graph, fetches } => {
                self.fetched(from, (step, graph), fetches);
            }
            MasterMessage::Traced { step, graph, times } => self.traced(from, (step, graph), times),
            MasterMessage::ResetDone { number, variables, departed } => {
                self.reset_done(from, number, (variables, departed), context);
            }
            MasterMessage::Called(call) => self.called(from, *call, context),
            MasterMessage::WayLost { to } => self.way_lost(from, &to),
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
                answer(reply, Ok(self.create_session(options, None)))
            }
            MasterMail::ExtendSession { session, graph } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.graph = graph;
                }
            }
            MasterMail::RunStep(run) => self.run_step(run, context),
            MasterMail::RunPiece(piece) => self.run_piece(piece),
            MasterMail::GiveUpPieces { session, handle } => self.give_up_pieces(session, handle),
            MasterMail::CloseSession { session, error } => self.close_session(session, &error),
            MasterMail::Reset(asked) => self.reset(asked, context),
            MasterMail::FromPeer { from, message } => self.on_message(from, message, context),
            MasterMail::Lost { peer, loss } => self.lost(peer, loss, context),
            MasterMail::AlarmRings => self.alarm_rings(context),
            MasterMail::Inquire(list) => self.inquire(&list),
            MasterMail::ResetDeadlineReached => self.reset_deadline_reached(),
            MasterMail::ClientIsGone { peer, client } => self.client_is_gone(peer, client),
            MasterMail::ListSessions(list) => self.list_sessions(&list),
            MasterMail::FromMaster(message) => {
                tracing::debug!(?message, "an answer for a client; dropped");
            }
            MasterMail::Stop => self.stop(context),
        }
        self.link.flush();
    }
}
