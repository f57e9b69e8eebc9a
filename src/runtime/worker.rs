//! The worker service of a task: keeps registered partitions, runs them, brings values together.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, Context, Handler};
use smallvec::SmallVec;
use tracing::trace_span;

use crate::clock::Clock;
use crate::graph::Op;
use crate::kernels::Numerics;
use crate::partition::Partition;
use crate::tensor::{Tensor, TensorError};
use crate::transport::PeerId;
use crate::units::VirtualTime;

use super::compute::{ComputeModel, Work};
use super::error::{Code, Error, Result};
use super::executor::{Batch, Executor, Frame, Memos, NodeFailure, compute};
use super::link::Link;
use super::mailbox::tell;
use super::messages::{
    Arrival, GraphHandle, ParameterServerMessage, PeerMessage, Scope, Served, StepId, Values, VariableId, Waiting,
    WaitingList, WorkerMessage, stopped,
};
use super::plan::Plan;
use super::rendezvous::Rendezvous;

/// Runs the partitions that masters give to its task.
pub(crate) struct Worker {
    link: Link,
    clock: Rc<dyn Clock>,
    device: Rc<dyn ComputeModel>,
    /// Partitions whose variables the parameter server is looking up.
    binding: BTreeMap<GraphHandle, Binding>,
    graphs: BTreeMap<GraphHandle, Graph>,
    steps: BTreeMap<StepId, Step>,
    rendezvous: Rendezvous,
}

/// A partition whose variables are being looked up.
struct Binding {
    master: PeerId,
    partition: Arc<Partition>,
    scope: Option<Scope>,
}

/// A partition that is ready to run.
struct Graph {
    plan: Arc<Plan>,
    /// By position of the send: the peer that it goes to.
    receivers: Vec<PeerId>,
    memos: Memos,
}

/// A step that runs here.
struct Step {
    graph: GraphHandle,
    master: PeerId,
    executor: Executor,
    computed: Option<(VirtualTime, VirtualTime)>,
}

impl Worker {
    pub(crate) fn new(link: Link, clock: Rc<dyn Clock>, device: Rc<dyn ComputeModel>) -> Self {
        Self {
            link,
            clock,
            device,
            binding: BTreeMap::new(),
            graphs: BTreeMap::new(),
            steps: BTreeMap::new(),
            rendezvous: Rendezvous::default(),
        }
    }

    fn on_peer_message(&mut self, from: PeerId, message: PeerMessage) {
        match message {
            PeerMessage::RegisterGraph { graph, partition, isolated } => {
                self.register(from, graph, partition, isolated)
            }
            PeerMessage::DeregisterGraphs { graphs, isolated } => self.deregister(&graphs, isolated),
            PeerMessage::RunGraph { step, graph, feeds } => self.run_graph(from, step, graph, feeds),
            PeerMessage::Tensors { step, arrivals } => self.receive(step, arrivals),
            PeerMessage::AbortStep(step) => self.abort(step),
            other => tracing::warn!(?other, "not for a worker; dropped"),
        }
    }

    /// First half: the parameter server finds the variables; [`Worker::bound`] is the second.
    fn register(&mut self, from: PeerId, graph: GraphHandle, partition: Arc<Partition>, scope: Option<Scope>) {
        let variables = partition.variables.clone();
        self.binding.insert(graph, Binding { master: from, partition, scope });
        tell(&self.link.actors.parameter_server, ParameterServerMessage::Bind { graph, scope, variables });
    }

    fn bound(&mut self, graph: GraphHandle, outcome: Result<Vec<VariableId>>) {
        let Some(Binding { master, partition, scope }) = self.binding.remove(&graph) else { return };
        let outcome = outcome.and_then(|variables| {
            let receivers = self.receivers(&partition)?;
            self.refuse_hollow(partition.nodes.iter().filter_map(|node| match &node.op {
                Op::Const(value) => Some(value),
                _ => None,
            }))?;
            let memos = vec![None; partition.nodes.len()];
            self.graphs
                .insert(graph, Graph { plan: Arc::new(Plan::new(partition, variables, scope)), receivers, memos });
            Ok(())
        });
        self.link.send(master, PeerMessage::GraphRegistered { graph, outcome });
    }

    fn deregister(&mut self, graphs: &[GraphHandle], isolated: Option<Scope>) {
        // The order to abort a step can still be on its way.
        let orphans: Vec<StepId> =
            self.steps.iter().filter(|(_, step)| graphs.contains(&step.graph)).map(|(id, _)| *id).collect();
        orphans.into_iter().for_each(|step| self.abort(step));
        for graph in graphs {
            self.binding.remove(graph);
            self.graphs.remove(graph);
        }
        if let Some(scope) = isolated {
            tell(&self.link.actors.parameter_server, ParameterServerMessage::CloseScope(scope));
        }
    }

    fn receivers(&self, partition: &Partition) -> Result<Vec<PeerId>> {
        let resolve = |task| {
            let unknown = || format!("{} does not know the task {task}, to which it has to send", partition.task);
            self.link.resolve(task).ok_or_else(|| Error::new(Code::Unavailable, unknown()))
        };
        partition.sends.iter().map(|send| resolve(&send.to)).collect()
    }

    /// The plan of `graph`, if it can be run on `feeds`.
    fn admit(&self, graph: GraphHandle, feeds: &[Tensor]) -> Result<&Arc<Plan>> {
        self.refuse_hollow(feeds)?;
        let gone = || Error::new(Code::Aborted, "the graph is not registered here; this task may have restarted");
        Ok(&self.graphs.get(&graph).ok_or_else(gone)?.plan)
    }

    /// Whether `values`, which come from a program, have the numbers that this task computes with.
    fn refuse_hollow<'a>(&self, values: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
        let needs_numbers = self.device.numerics() == Numerics::Real;
        match values.into_iter().find(|value| needs_numbers && value.is_hollow()) {
            Some(hollow) => Err(TensorError::Hollow(hollow.dtype(), hollow.shape()).into()),
            None => Ok(()),
        }
    }

    /// Hop 3 of a step: its order is here; whatever is ready runs.
    fn run_graph(&mut self, master: PeerId, step: StepId, graph: GraphHandle, feeds: Values) {
        let _span = trace_span!("run_graph", step = step.number).entered();
        if self.rendezvous.is_aborted(step) {
            return;
        }
        let plan = match self.admit(graph, &feeds) {
            Ok(plan) => plan,
            Err(error) => {
                let outcome = Err(error.on(&self.link.name(self.link.local())));
                return self.link.send(master, PeerMessage::GraphDone { step, outcome, computed: None });
            }
        };
        let mut executor = Executor::new(step, plan);
        executor.feed(feeds);
        for arrival in self.rendezvous.take(step) {
            executor.receive(arrival);
        }
        self.steps.insert(step, Step { graph, master, executor, computed: None });
        self.run_ready(step);
    }

    /// Hop 6 of a step: values from other tasks meet who waits for them.
    fn receive(&mut self, step: StepId, arrivals: SmallVec<[Arrival; 1]>) {
        let _span = trace_span!("rendezvous", step = step.number, values = arrivals.len()).entered();
        let Some(running) = self.steps.get_mut(&step) else { return self.rendezvous.offer(step, arrivals) };
        for arrival in arrivals {
            let crossing = arrival.0;
            if !running.executor.receive(arrival) {
                tracing::warn!(step = step.number, ?crossing, "a value that nobody waits for; dropped");
            }
        }
        self.run_ready(step);
    }

    fn served(&mut self, served: Vec<Served>) {
        let mut touched = SmallVec::<[StepId; 4]>::new();
        for Served { ticket, outcome } in served {
            let Some(step) = self.steps.get_mut(&ticket.step) else { continue };
            match outcome {
                Ok(outputs) => step.executor.served(ticket.node, outputs),
                Err(error) => {
                    self.fail_node(ticket.step, ticket.node, error);
                    continue;
                }
            }
            if !touched.contains(&ticket.step) {
                touched.push(ticket.step);
            }
        }
        for step in touched {
            self.run_ready(step);
        }
    }

    fn computed(&mut self, step: StepId, nodes: &[u32], frame: Frame, outcome: Result<(), NodeFailure>) {
        let now = self.clock.now();
        let Some(running) = self.steps.get_mut(&step) else { return };
        if let Some((_, until)) = &mut running.computed {
            *until = now;
        }
        match outcome {
            Ok(()) => {
                running.executor.computed(nodes, frame);
                self.run_ready(step);
            }
            Err(NodeFailure { node, message }) => {
                self.fail_node(step, node, Error::new(Code::InvalidArgument, message));
            }
        }
    }

    /// Carries out what is ready, and tells the master when that was the last of it.
    fn run_ready(&mut self, step: StepId) {
        let Some(running) = self.steps.get_mut(&step) else { return };
        let graph = self.graphs.get_mut(&running.graph).expect("a graph outlives its steps");
        let ready = match running.executor.run_ready(&mut graph.memos) {
            Ok(ready) => ready,
            Err(error) => return self.fail(step, error),
        };
        let mut arrivals: BTreeMap<PeerId, SmallVec<[Arrival; 1]>> = BTreeMap::new();
        for (send, value) in ready.sends {
            let crossing = graph.plan.partition.sends[send as usize].crossing;
            arrivals.entry(graph.receivers[send as usize]).or_default().push((crossing, value));
        }
        for (peer, arrivals) in arrivals {
            self.link.send(peer, PeerMessage::Tensors { step, arrivals });
        }
        if !ready.state_requests.is_empty() {
            tell(&self.link.actors.parameter_server, ParameterServerMessage::Serve(ready.state_requests));
        }
        if let Some(batch) = ready.kernels {
            let plan = Arc::clone(running.executor.plan());
            running.computed.get_or_insert_with(|| (self.clock.now(), self.clock.now()));
            self.launch(step, plan, batch);
        } else if running.executor.is_finished() {
            self.finish(step);
        }
    }

    /// Hop 5 of a step: kernels go to the device, which brings them back as `Computed`.
    fn launch(&self, step: StepId, plan: Arc<Plan>, batch: Batch) {
        let _span = trace_span!("kernels", step = step.number, count = batch.nodes.len()).entered();
        let Batch { nodes, mut frame, cost } = batch;
        let worker = self.link.actors.worker.clone();
        let numerics = self.device.numerics();
        let run = move || {
            let outcome = compute(&plan, &nodes, &mut frame, numerics);
            (nodes, frame, outcome)
        };
        let done = move |(nodes, frame, outcome)| {
            tell(&worker, WorkerMessage::Computed { step, nodes, frame, outcome });
        };
        self.device.launch(Work::new(Some(step), cost, run, done));
    }

    fn finish(&mut self, step: StepId) {
        let mut done = self.steps.remove(&step).expect("a step that finishes runs");
        let outcome = Ok(done.executor.fetches());
        self.link.send(done.master, PeerMessage::GraphDone { step, outcome, computed: done.computed });
    }

    fn fail_node(&mut self, step: StepId, node: u32, error: Error) {
        let Some(running) = self.steps.get(&step) else { return };
        let partition = &running.executor.plan().partition;
        let name = partition.nodes[node as usize].name.to_string();
        let error = error.in_operation(name).on(&partition.task);
        self.fail(step, error);
    }

    fn fail(&mut self, step: StepId, error: Error) {
        if let Some(failed) = self.steps.get(&step) {
            let master = failed.master;
            self.abort(step);
            self.link.send(master, PeerMessage::GraphDone { step, outcome: Err(error), computed: None });
        }
    }

    fn abort(&mut self, step: StepId) {
        self.rendezvous.abort(step);
        if self.steps.remove(&step).is_some() {
            tell(&self.link.actors.parameter_server, ParameterServerMessage::Forget(step));
        }
    }

    /// The server stops: who waits for a step here is told, as far as messages still get out.
    fn stop(&mut self, context: &mut Context<Self>) {
        let name = self.link.name(self.link.local());
        let running: Vec<StepId> = self.steps.keys().copied().collect();
        running.into_iter().for_each(|step| self.fail(step, stopped().on(&name)));
        context.stop();
    }

    fn inquire(&self, list: &WaitingList) {
        let who = self.link.name(self.link.local());
        let mut list = list.lock().expect("nobody panics while writing what it waits for");
        for (step, running) in &self.steps {
            let missing: Vec<String> = running.executor.missing().collect();
            if !missing.is_empty() {
                let what = missing.join(", ");
                list.push(Waiting { who: format!("worker of {who}, step {}", step.number), what });
            }
        }
        for (step, values) in self.rendezvous.waiting() {
            let what = format!("its order to run: {values} values are here");
            list.push(Waiting { who: format!("worker of {who}, step {}", step.number), what });
        }
    }
}

impl Actor for Worker {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(0);
    }
}

impl Handler<WorkerMessage> for Worker {
    type Result = ();

    fn handle(&mut self, message: WorkerMessage, context: &mut Self::Context) {
        match message {
            WorkerMessage::FromPeer { from, message } => self.on_peer_message(from, message),
            WorkerMessage::Bound { graph, outcome } => self.bound(graph, outcome),
            WorkerMessage::Served(served) => self.served(served),
            WorkerMessage::Computed { step, nodes, frame, outcome } => self.computed(step, &nodes, frame, outcome),
            WorkerMessage::Inquire(list) => self.inquire(&list),
            WorkerMessage::Stop => self.stop(context),
        }
        self.link.flush();
    }
}
