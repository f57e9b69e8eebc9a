//! The steps that run on a task: their order, what they do as it comes up, and their end.

use std::ops::RangeInclusive;
use std::sync::Arc;

use actix::{ActorContext, Context};
use smallvec::SmallVec;
use tracing::trace_span;

use super::Worker;
use super::copies::Outlet;
use super::executor::{AtOnce, Executor, Ready};
use super::flows::RunningFlow;
use super::trace::Trace;
use crate::cluster::LocalDevice;
use crate::kernels::Numerics;
use crate::partition::Partition;
use crate::runtime::actors::Actors;
use crate::runtime::compute::WorkerStep;
use crate::runtime::error::{Code, Error, Result, stopped};
use crate::runtime::mail::ParameterServerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, MasterMessage, Origin, StepId, StepOrder, StepPart};
use crate::runtime::state::{Served, StateRequest, Taken, Ticket};
use crate::tensor::{Tensor, TensorError};
use crate::transport::PeerId;
use crate::units::Time;

/// A part of a step that runs here.
pub(super) struct RunningPartition {
    pub(super) graph: GraphHandle,
    pub(super) master: PeerId,
    pub(super) origin: Option<Origin>,
    pub(super) executor: Executor,
    /// Its conditions and loops that run as steps.
    pub(super) flows: Vec<RunningFlow>,
    /// The number of batches of kernels, and of own updates, that the devices have.
    pub(super) pieces: usize,
    /// When the devices were given the first of these pieces.
    pub(super) launched: Time,
    /// The time of the pieces that are done, as if they had been done without a pause.
    pub(super) computed: Option<(Time, Time)>,
    /// The times of its operations, if they are recorded.
    pub(super) trace: Option<Box<Trace>>,
    /// The step for which variables are read when this one has ended.
    pub(super) next: Option<StepId>,
}

impl RunningPartition {
    /// Hands the parameter server what the step asks of it, and leaves room for other requests.
    fn ask(&self, requests: &mut Vec<StateRequest>, actors: &Actors) {
        if let Some(origin) = self.origin {
            let taken = Taken { task: self.master, origin };
            requests.iter_mut().for_each(|request| request.action.originate(taken));
        }
        let requests = std::mem::replace(requests, actors.requests.take());
        tell(&actors.parameter_server, ParameterServerMail::Serve(requests));
    }
}

/// All steps of `master`.
pub(super) fn all_of(master: u64) -> RangeInclusive<StepId> {
    StepId { master, number: 0, trains: false }..=StepId { master, number: u64::MAX, trains: true }
}

impl Worker {
    /// Hop 3 of a step: takes the order to run it, and runs everything that is ready.
    pub(super) fn run_graph(&mut self, master: PeerId, order: StepOrder) {
        let StepOrder { step, graph, feeds, origin, is_traced, next } = order;
        let next = next.map(|number| StepId { number, ..step });
        let _span = trace_span!("run_graph", step = step.number).entered();
        self.rendezvous.regain(step.master);
        if self.rendezvous.is_aborted(step) {
            return;
        }
        let mut executor = match self.executor(step, graph, &feeds) {
            Ok(executor) => executor,
            Err(error) => {
                let outcome = Err(Box::new(error.on(&self.outbox.name(self.outbox.local()))));
                return self.outbox.send(
                    master,
                    MasterMessage::GraphDone { step, graph, outcome, computed: None },
                );
            }
        };
        self.expect(graph, step, next);
        let part = StepPart { step, device: executor.plan().partition.device };
        executor.feed(feeds);
        for arrival in self.rendezvous.take(part) {
            executor.receive(arrival);
        }
        let trace = is_traced.then(Box::default);
        let (flows, pieces, launched, computed) = (Vec::new(), 0, Time::ZERO, None);
        let running = RunningPartition {
            graph,
            master,
            origin,
            executor,
            flows,
            pieces,
            launched,
            computed,
            trace,
            next,
        };
        self.steps.insert(part, running);
        self.run_ready(part);
    }

    /// An executor for `step` of `graph`, if the step can run on `feeds`.
    fn executor(
        &mut self,
        step: StepId,
        handle: GraphHandle,
        feeds: &[Tensor],
    ) -> Result<Executor> {
        self.refuse_hollow(feeds)?;
        let gone = || {
            Error::new(
                Code::Aborted,
                "the graph is not registered here; this task may have restarted",
            )
        };
        let registered = self.registered.get(&handle).ok_or_else(gone)?;
        let Partition { device, feeds: wanted, .. } = &registered.plan.partition;
        let refused = |message: String| Err(Error::new(Code::InvalidArgument, message));
        if step.master != handle.master {
            return refused("its graph is another master's".to_owned());
        }
        let part = StepPart { step, device: *device };
        if self.steps.get(&part).is_some() {
            let number = step.number;
            return refused(format!(
                "step {number} runs here already; its master ordered it twice"
            ));
        }
        if feeds.len() != wanted.len() {
            let (given, wanted) = (feeds.len(), wanted.len());
            return refused(format!("{given} values are fed to a graph that takes {wanted}"));
        }
        if let Some(refused) = self.rendezvous.refusal(part) {
            self.abort(step);
            return Err(refused);
        }
        match self.take_ahead(handle, step)? {
            Some(ahead) => Ok(ahead),
            None => Ok(self.begin(handle, step)),
        }
    }

    /// An executor of `graph`, at the beginning of `step`.
    pub(super) fn begin(&mut self, graph: GraphHandle, step: StepId) -> Executor {
        let registered = self.registered.get_mut(&graph).expect("it was just there");
        let Some(mut idle) = registered.idle.pop() else {
            return Executor::new(step, &registered.plan, registered.memory.as_ref());
        };
        idle.begin(step);
        idle
    }

    /// Refuses `values` of a program that lack the numbers this task needs to compute.
    pub(super) fn refuse_hollow<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<()> {
        let needs_numbers = self.devices.numerics() == Numerics::Real;
        match values.into_iter().find(|value| needs_numbers && value.is_hollow()) {
            Some(hollow) => Err(TensorError::Hollow(hollow.dtype(), hollow.shape()).into()),
            None => Ok(()),
        }
    }

    pub(super) fn served(&mut self, mut served: Vec<Served>) {
        let (now, local) = (self.clock.now(), self.outbox.local());
        let mut touched = SmallVec::<[StepPart; 4]>::new();
        for Served { ticket, outcome } in served.drain(..) {
            let part = StepPart { step: ticket.step, device: ticket.device };
            let Some(step) = self.steps.get_mut(&part) else { continue };
            match outcome {
                Ok(outputs) => {
                    if step.is_own_update(ticket.node, local) {
                        step.end_piece(now);
                    }
                    step.executor.served(ticket.node, outputs);
                    if let Some(trace) = &mut step.trace {
                        trace.end(&[ticket.node], now);
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
        self.outbox.actors.served.give(served);
        for part in touched {
            self.run_ready(part);
        }
    }

    /// Carries out everything that is ready, and tells the master if that finished the step.
    pub(super) fn run_ready(&mut self, part: StepPart) {
        let Self { steps, registered, outbox, clock, devices, ready, outgoing, .. } = self;
        let Some(running) = steps.get_mut(&part) else { return };
        let partition = registered.get_mut(&running.graph).expect("a partition outlives its steps");
        let outlet = Outlet { outbox, devices, from: part.device };
        let device = devices.get(part.device);
        let whole = running.origin.is_some() && device.takes_steps_whole();
        let at_once = AtOnce { whole, singly: running.trace.is_some() };
        if let Err(error) = running.executor.run_ready(at_once, ready) {
            *ready = Ready::default(); // what the step had ready goes with it
            return self.fail(part, error);
        }
        partition.receivers.send(&mut ready.sends, part.step, &outlet, outgoing);
        if let Some(trace) = &mut running.trace {
            trace.begin(ready, clock.now());
        }
        let batch = ready.kernels.take();
        let kernels = batch.as_ref().map_or(0, |batch| batch.nodes.len());
        let operations = ready.state_requests.len() + kernels + ready.flows.len();
        if !ready.state_requests.is_empty() {
            let asked = ready.state_requests.iter().map(|request| request.ticket.node);
            let updates = asked.filter(|node| running.is_own_update(*node, outbox.local())).count();
            running.begin_pieces(updates, clock.now());
            running.ask(&mut ready.state_requests, &outbox.actors);
        }
        for (node, inputs) in ready.flows.drain(..) {
            let ticket = Ticket { step: part.step, device: part.device, node };
            let plan = Arc::clone(running.executor.plan());
            let flow = partition.flow_sessions.run(plan, ticket, inputs, &outbox.actors);
            running.flows.push(flow);
        }
        device.operate(operations);
        if let Some(batch) = batch {
            running.begin_pieces(1, clock.now());
            let origin = running.origin;
            self.launch(batch, origin);
        } else if running.executor.is_finished() {
            self.finish(part);
        }
    }

    fn finish(&mut self, part: StepPart) {
        let mut done = self.steps.remove(&part).expect("a step that finishes runs");
        let (step, graph) = (part.step, done.graph);
        let outcome = Ok(done.executor.fetches());
        done.executor.end();
        if let Some(trace) = done.trace {
            let times = trace.times(&done.executor.plan().partition);
            self.outbox.send(done.master, MasterMessage::Traced { step, graph, times });
        }
        let computed = done.computed;
        let answer = MasterMessage::GraphDone { step, graph, outcome, computed };
        let registered = self.registered.get_mut(&graph).expect("a partition outlives its steps");
        registered.idle.push(done.executor);
        self.answer(done.master, answer, graph, done.next);
    }

    pub(super) fn fail_node(&mut self, part: StepPart, node: u32, error: Error) {
        let Some(running) = self.steps.get(&part) else { return };
        let partition = &running.executor.plan().partition;
        let name = partition.nodes[node as usize].name.to_string();
        let error = error.in_operation(name).on(&partition.task);
        self.fail(part, error);
    }

    /// Ends a step on all devices of this task.
    pub(super) fn fail(&mut self, part: StepPart, error: Error) {
        if let Some(failed) = self.steps.get(&part) {
            let (master, step, graph) = (failed.master, part.step, failed.graph);
            self.abort(step);
            let outcome = Err(Box::new(error));
            let done = MasterMessage::GraphDone { step, graph, outcome, computed: None };
            self.outbox.send(master, done);
        }
    }

    pub(super) fn abort(&mut self, step: StepId) {
        self.rendezvous.abort(step);
        let running: SmallVec<[StepPart; 1]> =
            self.steps_within(step..=step).map(|(part, _)| *part).collect();
        for part in &running {
            let given_up = self.steps.remove(part).expect("it was just there");
            given_up.executor.give_up();
            if let Some(origin) = given_up.origin {
                let step = WorkerStep { master: step.master, origin };
                self.devices.get(part.device).stop(step);
            }
        }
        tell(&self.outbox.actors.parameter_server, ParameterServerMail::Forget(step));
    }

    /// The parts of these steps that run here.
    pub(super) fn steps_within(
        &self,
        steps: RangeInclusive<StepId>,
    ) -> impl Iterator<Item = (&StepPart, &RunningPartition)> {
        let first = StepPart { step: *steps.start(), device: LocalDevice::cpu(0) };
        self.steps.range(first..).take_while(move |(part, _)| part.step <= *steps.end())
    }

    /// The server stops: tells the masters that wait for a step here, as far as messages still get
    /// out.
    pub(super) fn stop(&mut self, context: &mut Context<Self>) {
        let name = self.outbox.name(self.outbox.local());
        let running: Vec<StepPart> = self.steps.keys().copied().collect();
        running.into_iter().for_each(|part| self.fail(part, stopped().on(&name)));
        context.stop();
    }
}
