//! The master service of a task: sessions, and the steps that their programs run.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, SpawnHandle, WrapFuture};
use tokio::sync::oneshot;
use tracing::trace_span;

use crate::clock::Clock;
use crate::cluster::{DeviceName, DeviceSpec};
use crate::graph::GraphDef;
use crate::transport::PeerId;
use crate::units::VirtualTime;

use super::error::{Code, Error, Result};
use super::link::Link;
use super::mailbox::tell;
use super::messages::{
    GraphHandle, MasterMessage, PeerMessage, RunStep, Scope, SessionId, SessionOptions, StepDone, StepId, Values,
    Waiting, WaitingList,
};
use super::step_plan::{Progress, StepPlan};

/// Runs the steps of the sessions that programs hold with its task.
pub(crate) struct Master {
    link: Link,
    clock: Rc<dyn Clock>,
    /// Differs from that of any other master, and of an earlier one of this task.
    id: u64,
    /// One device a task.
    devices: Vec<DeviceName>,
    default_device: DeviceName,
    sessions: BTreeMap<SessionId, Session>,
    next_session: u64,
    next_graph: u64,
    next_step: u64,
    /// Partitions that workers are making ready: the session, and the request they are for.
    registering: BTreeMap<GraphHandle, (SessionId, Arc<crate::partition::Request>)>,
    steps: BTreeMap<StepId, Step>,
    reset: Option<Reset>,
}

struct Session {
    options: SessionOptions,
    graph: Arc<GraphDef>,
    plans: BTreeMap<Arc<crate::partition::Request>, StepPlan>,
}

/// A step that runs.
struct Step {
    session: SessionId,
    outstanding: Vec<PeerId>,
    plan: Arc<super::step_plan::Ready>,
    fetches: Vec<Option<crate::tensor::Tensor>>,
    computed: Option<(VirtualTime, VirtualTime)>,
    timer: Option<SpawnHandle>,
    reply: oneshot::Sender<Result<StepDone>>,
}

/// A reset that waits for the parameter servers.
struct Reset {
    outstanding: usize,
    variables: u32,
    containers: Vec<String>,
    reply: oneshot::Sender<Result<()>>,
}

impl Master {
    pub(crate) fn new(link: Link, clock: Rc<dyn Clock>, id: u64, devices: Vec<DeviceName>) -> Self {
        let local = link.name(link.local());
        let default_device = DeviceName::cpu(local, 0);
        Self {
            link,
            clock,
            id,
            devices,
            default_device,
            sessions: BTreeMap::new(),
            next_session: 0,
            next_graph: 0,
            next_step: 0,
            registering: BTreeMap::new(),
            steps: BTreeMap::new(),
            reset: None,
        }
    }

    fn create_session(&mut self, options: SessionOptions) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(id, Session { options, graph: Arc::default(), plans: BTreeMap::new() });
        id
    }

    /// Hop 2 of a step: the plan for what it asks, made and registered where there is none yet.
    fn run_step(&mut self, run: RunStep, context: &mut Context<Self>) {
        let _span = trace_span!("run_step", session = run.session.0, step = self.next_step).entered();
        let Some(session) = self.sessions.get_mut(&run.session) else {
            return refuse(run.reply, Error::new(Code::Aborted, "the session is closed"));
        };
        match session.plans.get_mut(&run.request) {
            Some(StepPlan::Ready(plan)) => {
                let plan = Arc::clone(plan);
                self.start(run, plan, context);
            }
            Some(StepPlan::Registering { waiting, .. }) => waiting.push(run),
            None => self.register(run),
        }
    }

    /// Prunes, places and partitions the graph for a request, and has the partitions registered.
    fn register(&mut self, run: RunStep) {
        let session = &self.sessions[&run.session];
        let devices = self.visible_devices(&session.options.device_filters);
        let planned = super::step_plan::plan(&session.graph, &run.request, &devices, &self.default_device);
        let planned = planned.and_then(|(partitions, fed_fetches)| {
            let peers = partitions.iter().map(|partition| self.peer_of(&partition.task)).collect::<Result<Vec<_>>>()?;
            Ok((partitions, peers, fed_fetches))
        });
        let (partitions, peers, fed_fetches) = match planned {
            Ok(planned) => planned,
            Err(error) => return refuse(run.reply, error),
        };
        let isolated = self.scope_of(run.session);
        let mut ready = super::step_plan::Ready { parts: Vec::new(), fed_fetches };
        for (partition, peer) in partitions.into_iter().zip(peers) {
            let graph = GraphHandle { master: self.id, number: self.next_graph };
            self.next_graph += 1;
            self.registering.insert(graph, (run.session, Arc::clone(&run.request)));
            ready.parts.push(super::step_plan::Part::new(peer, graph, &partition));
            let partition = Arc::new(partition);
            self.link.send(peer, PeerMessage::RegisterGraph { graph, partition, isolated });
        }
        let outstanding = ready.parts.len();
        let request = Arc::clone(&run.request);
        let session = self.sessions.get_mut(&run.session).expect("it was just there");
        session.plans.insert(request, StepPlan::Registering { ready, outstanding, waiting: vec![run] });
    }

    fn peer_of(&self, task: &crate::cluster::TaskName) -> Result<PeerId> {
        let unknown = || Error::new(Code::Unavailable, format!("the task {task} can't be reached from here"));
        self.link.resolve(task).ok_or_else(unknown)
    }

    fn visible_devices(&self, filters: &[DeviceSpec]) -> Vec<DeviceName> {
        let own = self.default_device.task();
        let is_visible = |device: &&DeviceName| {
            filters.is_empty() || device.task() == own || filters.iter().any(|filter| filter.matches(device))
        };
        self.devices.iter().filter(is_visible).cloned().collect()
    }

    fn scope_of(&self, session: SessionId) -> Option<Scope> {
        self.sessions[&session].options.isolate_session_state.then_some((self.id, session))
    }

    /// A worker has a partition ready, or can't; the last one starts the steps that wait.
    fn registered(&mut self, graph: GraphHandle, outcome: Result<()>, context: &mut Context<Self>) {
        let Some((session_id, request)) = self.registering.remove(&graph) else { return };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(plan) = session.plans.get_mut(&request) else { return };
        match plan.registered(outcome) {
            Progress::Waiting => {}
            Progress::Ready(ready, waiting) => {
                for run in waiting {
                    self.start(run, Arc::clone(&ready), context);
                }
            }
            Progress::Failed(error, waiting) => {
                session.plans.remove(&request);
                waiting.into_iter().for_each(|run| refuse(run.reply, error.clone()));
            }
        }
    }

    /// Orders every partition of a step to run.
    fn start(&mut self, run: RunStep, plan: Arc<super::step_plan::Ready>, context: &mut Context<Self>) {
        let graph = &self.sessions[&run.session].graph;
        if let Err(error) = super::step_plan::check_feeds(graph, &run.request, &run.feeds) {
            return refuse(run.reply, error);
        }
        let step = StepId { master: self.id, number: self.next_step };
        self.next_step += 1;
        for part in &plan.parts {
            let feeds: Values = part.feeds.iter().map(|feed| run.feeds[*feed as usize].clone()).collect();
            self.link.send(part.peer, PeerMessage::RunGraph { step, graph: part.graph, feeds });
        }
        let mut fetches = vec![None; run.request.fetches.len()];
        for (fetch, feed) in &plan.fed_fetches {
            fetches[*fetch as usize] = Some(run.feeds[*feed as usize].clone());
        }
        let timer = run.deadline.map(|deadline| self.set_timer(step, deadline, context));
        let outstanding = plan.parts.iter().map(|part| part.peer).collect();
        let (session, reply) = (run.session, run.reply);
        self.steps.insert(step, Step { session, outstanding, plan, fetches, computed: None, timer, reply });
        self.end_if_done(step, context);
    }

    fn set_timer(&self, step: StepId, deadline: VirtualTime, context: &mut Context<Self>) -> SpawnHandle {
        let sleep = self.clock.sleep_until(deadline);
        let master = self.link.actors.master.clone();
        let reached = async move {
            sleep.await;
            tell(&master, MasterMessage::DeadlineReached(step));
        };
        context.spawn(reached.into_actor(self))
    }

    /// Hop 9 of a step: a partition has run, or why not.
    fn collect(
        &mut self,
        from: PeerId,
        step: StepId,
        outcome: Result<Values>,
        computed: Option<(VirtualTime, VirtualTime)>,
        context: &mut Context<Self>,
    ) {
        let _span = trace_span!("collect", step = step.number).entered();
        let Some(running) = self.steps.get_mut(&step) else { return };
        let values = match outcome {
            Ok(values) => values,
            Err(error) => return self.fail(step, error, context),
        };
        running.outstanding.retain(|peer| *peer != from);
        if from == self.link.local() {
            running.computed = computed;
        }
        let part = running.plan.parts.iter().find(|part| part.peer == from).expect("only those asked answer");
        for (fetch, value) in part.fetches.iter().zip(values) {
            running.fetches[*fetch as usize] = Some(value);
        }
        self.end_if_done(step, context);
    }

    fn end_if_done(&mut self, step: StepId, context: &mut Context<Self>) {
        if !self.steps[&step].outstanding.is_empty() {
            return;
        }
        let done = self.take_step(step, context);
        let fetches = done.fetches.into_iter().map(|value| value.expect("every partition brings its fetches"));
        answer(done.reply, Ok(StepDone { fetches: fetches.collect(), computed: done.computed }));
    }

    /// Ends a step for its first error, which is the root cause: what follows elsewhere is not reported.
    fn fail(&mut self, step: StepId, error: Error, context: &mut Context<Self>) {
        let failed = self.take_step(step, context);
        for part in &failed.plan.parts {
            self.link.send(part.peer, PeerMessage::AbortStep(step));
        }
        answer(failed.reply, Err(error));
    }

    fn take_step(&mut self, step: StepId, context: &mut Context<Self>) -> Step {
        let step = self.steps.remove(&step).expect("a step that ends runs");
        if let Some(timer) = step.timer {
            context.cancel_future(timer);
        }
        step
    }

    fn deadline_reached(&mut self, step: StepId, context: &mut Context<Self>) {
        if self.steps.contains_key(&step) {
            let message = format!("step {} took too long; no answer from {}", step.number, self.unanswered(step));
            self.fail(step, Error::new(Code::DeadlineExceeded, message), context);
        }
    }

    fn unanswered(&self, step: StepId) -> String {
        let names = self.steps[&step].outstanding.iter().map(|peer| self.link.name(*peer).to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    fn close_session(&mut self, session: SessionId, why: &str, context: &mut Context<Self>) {
        let isolated = self.sessions.contains_key(&session).then(|| self.scope_of(session)).flatten();
        let Some(closed) = self.sessions.remove(&session) else { return };
        let running: Vec<StepId> =
            self.steps.iter().filter(|(_, step)| step.session == session).map(|(id, _)| *id).collect();
        for step in running {
            self.fail(step, Error::new(Code::Cancelled, why), context);
        }
        let mut graphs: BTreeMap<PeerId, Vec<GraphHandle>> = BTreeMap::new();
        for plan in closed.plans.into_values() {
            let (parts, waiting) = plan.into_parts();
            waiting.into_iter().for_each(|run| refuse(run.reply, Error::new(Code::Cancelled, why)));
            for part in parts {
                graphs.entry(part.peer).or_default().push(part.graph);
            }
        }
        for (peer, graphs) in graphs {
            self.link.send(peer, PeerMessage::DeregisterGraphs { graphs, isolated });
        }
    }

    fn reset(&mut self, containers: Vec<String>, reply: oneshot::Sender<Result<()>>, context: &mut Context<Self>) {
        if self.reset.is_some() {
            let error = Error::new(Code::Aborted, "another reset is under way; try again");
            return answer(reply, Err(error));
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.close_session(session, "the session's server was reset", context);
        }
        let peers: Vec<PeerId> = self.devices.iter().filter_map(|device| self.link.resolve(device.task())).collect();
        for peer in &peers {
            self.link.send(*peer, PeerMessage::Reset(containers.clone()));
        }
        self.reset = Some(Reset { outstanding: peers.len(), variables: 0, containers, reply });
    }

    fn reset_done(&mut self, variables: u32) {
        let Some(reset) = &mut self.reset else { return };
        reset.outstanding -= 1;
        reset.variables += variables;
        if reset.outstanding > 0 {
            return;
        }
        let reset = self.reset.take().expect("it was just there");
        let found = reset.variables > 0 || reset.containers.is_empty();
        let none = || Error::new(Code::NotFound, format!("no variable is in {:?}", reset.containers));
        answer(reset.reply, if found { Ok(()) } else { Err(none()) });
    }

    fn inquire(&self, list: &WaitingList) {
        let who = self.link.name(self.link.local());
        let mut list = list.lock().expect("nobody panics while writing what it waits for");
        for step in self.steps.keys() {
            let who = format!("master of {who}, step {}", step.number);
            list.push(Waiting { who, what: self.unanswered(*step) });
        }
    }

    fn from_peer(&mut self, from: PeerId, message: PeerMessage, context: &mut Context<Self>) {
        match message {
            PeerMessage::GraphRegistered { graph, outcome } => self.registered(graph, outcome, context),
            PeerMessage::GraphDone { step, outcome, computed } => self.collect(from, step, outcome, computed, context),
            PeerMessage::ResetDone { variables } => self.reset_done(variables),
            other => tracing::warn!(?other, "not for a master; dropped"),
        }
    }
}

/// The text that TensorFlow's users look for when a session is closed under a step.
const CLOSED: &str = "the step was cancelled by an explicit call to `Session::close`";

fn refuse(reply: oneshot::Sender<Result<StepDone>>, error: Error) {
    answer(reply, Err(error));
}

fn answer<T>(reply: oneshot::Sender<Result<T>>, outcome: Result<T>) {
    if reply.send(outcome).is_err() {
        tracing::debug!("nobody waits for the answer any more");
    }
}

impl Actor for Master {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(0);
    }
}

impl Handler<MasterMessage> for Master {
    type Result = ();

    fn handle(&mut self, message: MasterMessage, context: &mut Self::Context) {
        match message {
            MasterMessage::CreateSession { options, reply } => answer(reply, Ok(self.create_session(options))),
            MasterMessage::ExtendSession { session, graph } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.graph = graph;
                }
            }
            MasterMessage::RunStep(run) => self.run_step(run, context),
            MasterMessage::CloseSession { session } => self.close_session(session, CLOSED, context),
            MasterMessage::Reset { containers, reply } => self.reset(containers, reply, context),
            MasterMessage::FromPeer { from, message } => self.from_peer(from, message, context),
            MasterMessage::DeadlineReached(step) => self.deadline_reached(step, context),
            MasterMessage::Inquire(list) => self.inquire(&list),
            MasterMessage::Stop => {
                let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
                for session in sessions {
                    self.close_session(session, "the server has stopped", context);
                }
            }
        }
        self.link.flush();
    }
}
