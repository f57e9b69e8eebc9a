//! The worker service of a task: keeps registered partitions, runs them, exchanges values.

mod arrivals;
pub(super) mod copied;
mod copies;
pub(super) mod executor;
mod flows;
mod kernels;
mod losses;
pub(super) mod memory;
mod pieces;
pub(super) mod plan;
mod read_ahead;
mod receivers;
mod registration;
mod rendezvous;
mod state_request;
mod trace;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, Context};
use smallvec::SmallVec;
use tracing::trace_span;

use crate::clock::Clock;
use crate::cluster::{DeviceName, LocalDevice};
use crate::kernels::Numerics;
use crate::partition::{CrossingId, Partition};
use crate::tensor::{Tensor, TensorError};
use crate::transport::PeerId;
use crate::units::Time;

use crate::runtime::compute::WorkerStep;
use crate::runtime::devices::Devices;
use crate::runtime::error::{Code, Error, Result};
use crate::runtime::link::Link;
use crate::runtime::mail::{ParameterServerMail, Waiting, WaitingList, WorkerMail, stopped};
use crate::runtime::mailbox::{Receive, tell};
use crate::runtime::messages::{
    GraphHandle, MasterMessage, Origin, StepId, StepPart, Values, WorkerMessage, unpacked,
};
use crate::runtime::ordered::Ordered;
use crate::runtime::state::{Served, Taken, Ticket};
use crate::runtime::worker::copies::Outlet;
use crate::runtime::worker::executor::{AtOnce, Executor, Ready};
use crate::runtime::worker::flows::{FlowSessions, RunningFlow};
use crate::runtime::worker::memory::DeviceMemory;
use crate::runtime::worker::pieces::Pieces;
use crate::runtime::worker::plan::Plan;
use crate::runtime::worker::read_ahead::Ahead;
use crate::runtime::worker::receivers::{Outgoing, Receivers};
use crate::runtime::worker::registration::Binding;
use crate::runtime::worker::rendezvous::Rendezvous;
use crate::runtime::worker::trace::Trace;

/// Runs the partitions that masters give to its task.
pub(crate) struct Worker {
    link: Link,
    clock: Rc<dyn Clock>,
    devices: Devices,
    /// The memories of the devices that have a limit.
    memories: BTreeMap<LocalDevice, Rc<DeviceMemory>>,
    /// Partitions whose variables the parameter server is looking up.
    binding: BTreeMap<GraphHandle, Binding>,
    graphs: Ordered<GraphHandle, Graph>,
    steps: Ordered<StepPart, Step>,
    /// The work to carry out for a step; empty between uses.
    ready: Ready,
    outgoing: Outgoing,
    rendezvous: Rendezvous,
    /// Counts the registrations.
    registrations: u64,
}

/// A partition that is ready to run.
struct Graph {
    master: PeerId,
    plan: Arc<Plan>,
    receivers: Receivers,
    /// By position of the receive: the sending peer, if it was known.
    senders: Vec<Option<PeerId>>,
    /// The sessions for its conditions and loops that run as steps.
    flow_sessions: FlowSessions,
    /// The memory of its device, if that is limited.
    memory: Option<Rc<DeviceMemory>>,
    /// Executors whose steps have finished, to be used again.
    idle: Vec<Executor>,
    /// The step for which variables have been read here and elsewhere, unless another is ordered.
    expected: Option<StepId>,
    /// What has been read here for it.
    ahead: Option<Ahead>,
}

impl Graph {
    /// Whether the value of `crossing` comes from `peer`.
    fn receives(&self, crossing: CrossingId, peer: PeerId, link: &Link) -> bool {
        let Some(receive) = self.plan.tables.receive_of(crossing) else { return false };
        match self.senders[receive as usize] {
            Some(sender) => sender == peer,
            // It had no address when the graph was registered, and has connected since.
            None => self.plan.partition.receives[receive as usize].from == link.name(peer),
        }
    }
}

/// A part of a step that runs here.
struct Step {
    graph: GraphHandle,
    master: PeerId,
    origin: Option<Origin>,
    executor: Executor,
    /// Its conditions and loops that run as steps.
    flows: Vec<RunningFlow>,
    /// When the device was given the kernels that it runs.
    launched: Time,
    /// The time of the kernels that have run, as if they had run without a pause.
    computed: Option<(Time, Time)>,
    /// The times of its operations, if they are recorded.
    trace: Option<Box<Trace>>,
    /// What has come and gone, of a step in pieces.
    pieces: Option<Box<Pieces>>,
    /// The step for which variables are read when this one has ended.
    next: Option<StepId>,
}

/// An order to run a partition.
struct Order {
    step: StepId,
    graph: GraphHandle,
    /// The values fed to it; none if it is a step in pieces.
    feeds: Option<Values>,
    origin: Option<Origin>,
    is_traced: bool,
    next: Option<StepId>,
}

impl Step {
    /// The fetches of a step in pieces that are there now and have not been told.
    fn fetched(&mut self, step: StepId) -> Option<MasterMessage> {
        let fetches = self.executor.fetched(&mut self.pieces.as_mut()?.told);
        let graph = self.graph;
        (!fetches.is_empty()).then_some(MasterMessage::Fetched { step, graph, fetches })
    }
}

impl Worker {
    pub(crate) fn new(link: Link, clock: Rc<dyn Clock>, devices: Devices) -> Self {
        let task = link.name(link.local());
        let memory = |device: LocalDevice| {
            let capacity = devices.get(device).memory()?;
            let name = DeviceName::new(task.clone(), device);
            Some((device, Rc::new(DeviceMemory::new(name, capacity))))
        };
        Self {
            memories: devices.own().filter_map(memory).collect(),
            link,
            clock,
            devices,
            binding: BTreeMap::new(),
            graphs: Ordered::default(),
            steps: Ordered::default(),
            ready: Ready::default(),
            outgoing: Outgoing::default(),
            rendezvous: Rendezvous::default(),
            registrations: 0,
        }
    }

    /// Takes a message whose values are in the memory of the device that they are for.
    fn take(&mut self, from: PeerId, message: WorkerMessage) {
        match message {
            WorkerMessage::RegisterGraph { graph, partition, isolated, is_again, functions } => {
                let functions = functions.as_deref();
                self.register((from, graph), partition, (isolated, is_again), functions)
            }
            WorkerMessage::DeregisterGraphs { graphs, isolated } => {
                self.deregister(&graphs, isolated)
            }
            WorkerMessage::RunGraph { step, graph, feeds, origin, is_traced, next } => {
                let next = next.map(|number| StepId { number, ..step });
                let feeds = Some(feeds);
                self.run_graph(from, Order { step, graph, feeds, origin, is_traced, next })
            }
            WorkerMessage::RunInPieces { step, graph } => {
                let (feeds, origin, is_traced, next) = (None, None, false, None);
                self.run_graph(from, Order { step, graph, feeds, origin, is_traced, next })
            }
            WorkerMessage::Feed { step, graph, feeds } => self.feed(from, (step, graph), feeds),
            WorkerMessage::Tensors { step, devices, arrivals } => {
                self.receive(from, step, &devices, &arrivals)
            }
            WorkerMessage::PackedTensors { step, devices, arrivals } => {
                self.receive(from, step, &devices, &unpacked(arrivals))
            }
            WorkerMessage::AbortStep(step) => self.abort(step),
            WorkerMessage::AskForMaster { master } => {
                let is_known = self.link.actors.access.knows(master, from);
                self.link.send(from, MasterMessage::Known { is_known });
            }
        }
    }

    /// An executor for `step` of `graph`, if the step can run on `feeds`, or takes them later.
    fn executor(
        &mut self,
        step: StepId,
        handle: GraphHandle,
        feeds: Option<&[Tensor]>,
    ) -> Result<Executor> {
        self.refuse_hollow(feeds.into_iter().flatten())?;
        let gone = || {
            Error::new(
                Code::Aborted,
                "the graph is not registered here; this task may have restarted",
            )
        };
        let graph = self.graphs.get(&handle).ok_or_else(gone)?;
        let Partition { device, feeds: wanted, .. } = &graph.plan.partition;
        let refused = |message: String| Err(Error::new(Code::InvalidArgument, message));
        if self.steps.get(&StepPart { step, device: *device }).is_some() {
            let number = step.number;
            return refused(format!(
                "step {number} runs here already; its master ordered it twice"
            ));
        }
        if let Some(feeds) = feeds.filter(|feeds| feeds.len() != wanted.len()) {
            let (given, wanted) = (feeds.len(), wanted.len());
            return refused(format!("{given} values are fed to a graph that takes {wanted}"));
        }
        match self.take_ahead(handle, step)? {
            Some(ahead) => Ok(ahead),
            None => Ok(self.begin(handle, step)),
        }
    }

    /// An executor of `graph`, at the beginning of `step`.
    fn begin(&mut self, graph: GraphHandle, step: StepId) -> Executor {
        let graph = self.graphs.get_mut(&graph).expect("it was just there");
        let Some(mut idle) = graph.idle.pop() else {
            return Executor::new(step, &graph.plan, graph.memory.as_ref());
        };
        idle.begin(step);
        idle
    }

    /// Refuses `values` of a program that lack the numbers this task needs to compute.
    fn refuse_hollow<'a>(&self, values: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
        let needs_numbers = self.devices.numerics() == Numerics::Real;
        match values.into_iter().find(|value| needs_numbers && value.is_hollow()) {
            Some(hollow) => Err(TensorError::Hollow(hollow.dtype(), hollow.shape()).into()),
            None => Ok(()),
        }
    }

    /// Hop 3 of a step: takes the order to run it, and runs everything that is ready. Without feeds
    /// it is a step in pieces.
    fn run_graph(&mut self, master: PeerId, order: Order) {
        let Order { step, graph, feeds, origin, is_traced, next } = order;
        let _span = trace_span!("run_graph", step = step.number).entered();
        self.rendezvous.regain(step.master);
        if self.rendezvous.is_aborted(step) {
            return;
        }
        let mut executor = match self.executor(step, graph, feeds.as_deref()) {
            Ok(executor) => executor,
            Err(error) => {
                let outcome = Err(error.on(&self.link.name(self.link.local())));
                return self.link.send(
                    master,
                    MasterMessage::GraphDone { step, graph, outcome, computed: None },
                );
            }
        };
        self.expect(graph, step, next);
        let part = StepPart { step, device: executor.plan().partition.device };
        let pieces = feeds.is_none().then(|| Box::new(Pieces::new(&executor.plan().partition)));
        executor.feed(feeds.unwrap_or_default());
        for arrival in self.rendezvous.take(part) {
            executor.receive(arrival);
        }
        let trace = is_traced.then(Box::default);
        let (flows, launched, computed) = (Vec::new(), Time::ZERO, None);
        let running = Step {
            graph,
            master,
            origin,
            executor,
            flows,
            launched,
            computed,
            trace,
            pieces,
            next,
        };
        self.steps.insert(part, running);
        self.run_ready(part);
    }

    fn served(&mut self, mut served: Vec<Served>) {
        let mut touched = SmallVec::<[StepPart; 4]>::new();
        for Served { ticket, outcome } in served.drain(..) {
            let part = StepPart { step: ticket.step, device: ticket.device };
            let Some(step) = self.steps.get_mut(&part) else { continue };
            match outcome {
                Ok(outputs) => {
                    step.executor.served(ticket.node, outputs);
                    if let Some(trace) = &mut step.trace {
                        trace.end(&[ticket.node], self.clock.now());
                    }
                }
                Err(error) => {
                    self.fail_node(part, ticket.node, error);
                    continue;
                }
            }
            if !touched.contains(&part) {
                touched.push(part);
            }
        }
        self.link.actors.served.give(served);
        for part in touched {
            self.run_ready(part);
        }
    }

    /// Carries out everything that is ready, and tells the master if that finished the step.
    fn run_ready(&mut self, part: StepPart) {
        let Some(running) = self.steps.get_mut(&part) else { return };
        let graph = self.graphs.get_mut(&running.graph).expect("a graph outlives its steps");
        let outlet = Outlet { link: &self.link, devices: &self.devices, from: part.device };
        if let Some(fetched) = running.fetched(part.step) {
            outlet.fetch(running.master, fetched);
        }
        let mut ready = std::mem::take(&mut self.ready);
        let device = self.devices.get(part.device);
        let whole = running.origin.is_some() && device.takes_steps_whole();
        let at_once = AtOnce { whole, singly: running.trace.is_some() };
        if let Err(error) = running.executor.run_ready(at_once, &mut ready) {
            return self.fail(part, error);
        }
        graph.receivers.send(&mut ready.sends, part.step, &outlet, &mut self.outgoing);
        let requests_made = ready.state_requests.len();
        if let Some(trace) = &mut running.trace {
            trace.begin(&ready, self.clock.now());
        }
        if requests_made > 0 {
            if let Some(origin) = running.origin {
                let taken = Taken { task: running.master, origin };
                for request in &mut ready.state_requests {
                    request.action.originate(taken);
                }
            }
            let requests =
                std::mem::replace(&mut ready.state_requests, self.link.actors.requests.take());
            tell(&self.link.actors.parameter_server, ParameterServerMail::Serve(requests));
        }
        let batch = ready.kernels.take();
        let kernels = batch.as_ref().map_or(0, |batch| batch.nodes.len());
        let operations = requests_made + kernels + ready.flows.len();
        for (node, inputs) in ready.flows.drain(..) {
            let ticket = Ticket { step: part.step, device: part.device, node };
            let flow = (Arc::clone(running.executor.plan()), ticket, inputs);
            running.flows.push(graph.flow_sessions.run(flow, &self.link.actors));
        }
        self.devices.get(part.device).operate(operations);
        self.ready = ready;
        if let Some(batch) = batch {
            running.launched = self.clock.now();
            let origin = running.origin;
            self.launch(batch, origin);
        } else if running.executor.is_finished() {
            self.finish(part);
        } else if let Some(fetched) = running.fetched(part.step) {
            outlet.fetch(running.master, fetched);
        }
    }

    fn finish(&mut self, part: StepPart) {
        let mut done = self.steps.remove(&part).expect("a step that finishes runs");
        let (step, graph) = (part.step, done.graph);
        let outlet = Outlet { link: &self.link, devices: &self.devices, from: part.device };
        if let Some(fetched) = done.fetched(step) {
            outlet.fetch(done.master, fetched);
        }
        let outcome = match done.pieces {
            Some(_) => Ok(Values::new()),
            None => Ok(done.executor.fetches()),
        };
        done.executor.end();
        if let Some(trace) = done.trace {
            let times = trace.times(&done.executor.plan().partition);
            self.link.send(done.master, MasterMessage::Traced { step, graph, times });
        }
        let computed = done.computed;
        let answer = MasterMessage::GraphDone { step, graph, outcome, computed };
        self.graphs.get_mut(&graph).expect("a graph outlives its steps").idle.push(done.executor);
        self.answer(done.master, answer, graph, done.next);
    }

    fn fail_node(&mut self, part: StepPart, node: u32, error: Error) {
        let Some(running) = self.steps.get(&part) else { return };
        let partition = &running.executor.plan().partition;
        let name = partition.nodes[node as usize].name.to_string();
        let error = error.in_operation(name).on(&partition.task);
        self.fail(part, error);
    }

    /// Ends a step on all devices of this task.
    fn fail(&mut self, part: StepPart, error: Error) {
        if let Some(failed) = self.steps.get(&part) {
            let (master, step, graph) = (failed.master, part.step, failed.graph);
            self.abort(step);
            self.link.send(
                master,
                MasterMessage::GraphDone { step, graph, outcome: Err(error), computed: None },
            );
        }
    }

    fn abort(&mut self, step: StepId) {
        self.rendezvous.abort(step);
        let running: SmallVec<[StepPart; 1]> =
            self.steps.keys().filter(|part| part.step == step).copied().collect();
        for part in &running {
            let given_up = self.steps.remove(part).expect("it was just there");
            given_up.executor.give_up();
            if let Some(origin) = given_up.origin {
                let step = WorkerStep { master: step.master, origin };
                self.devices.get(part.device).stop(step);
            }
        }
        tell(&self.link.actors.parameter_server, ParameterServerMail::Forget(step));
    }

    /// The server stops: tells the masters that wait for a step here, as far as messages still get
    /// out.
    fn stop(&mut self, context: &mut Context<Self>) {
        let name = self.link.name(self.link.local());
        let running: Vec<StepPart> = self.steps.keys().copied().collect();
        running.into_iter().for_each(|part| self.fail(part, stopped().on(&name)));
        context.stop();
    }

    fn inquire(&self, list: &WaitingList) {
        let who = self.link.name(self.link.local());
        let mut list = list.lock().expect("nobody panics while writing what it waits for");
        for (StepPart { step, .. }, running) in self.steps.iter() {
            let missing: Vec<String> = running.executor.missing().collect();
            if !missing.is_empty() {
                let what = missing.join(", ");
                list.push(Waiting { who: format!("worker of {who}, step {}", step.number), what });
            }
        }
        for (step, values) in self.rendezvous.waiting().filter(|(step, _)| !self.is_expected(step))
        {
            let what = format!("its order to run: {values} values are here");
            list.push(Waiting { who: format!("worker of {who}, step {}", step.number), what });
        }
    }
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Receive for Worker {
    type Message = WorkerMail;
    const ROLE: &'static str = "the worker";

    fn receive(&mut self, message: WorkerMail, context: &mut Context<Self>) {
        match message {
            WorkerMail::FromPeer { from, message } => self.arrived(from, message),
            WorkerMail::Lost { peer, masters, loss } => self.lost(peer, masters, loss),
            WorkerMail::Bound { graph, attempt, outcome } => {
                self.bound(graph, attempt, outcome);
            }
            WorkerMail::Served(served) => self.served(served),
            WorkerMail::ReadAhead { graph, step, served } => self.read_ahead(graph, step, served),
            WorkerMail::Cleared(containers) => self.cleared(&containers),
            WorkerMail::Computed(batch) => self.computed(batch),
            WorkerMail::Copied(copied) => self.copied(*copied),
            WorkerMail::Inquire(list) => self.inquire(&list),
            WorkerMail::Stop => self.stop(context),
        }
        self.link.flush();
    }
}
