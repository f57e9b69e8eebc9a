//! One step of one partition: runs its ready operations in a fixed order.
//!
//! A pure state machine. Its worker brings what arrives ([`Executor::feed`], [`Executor::receive`],
//! [`Executor::served`], [`Executor::computed`]) and carries out what [`Executor::run_ready`]
//! returns: operations for the parameter server, values to send, and a batch of kernels for the
//! device.
//!
//! Ready kernels run in the order in which the graph was built, in whatever order values arrived. A
//! batch ends when nothing is ready, or when there is something to send and the batch has run for a
//! while ([`SEND_AFTER`](progress::SEND_AFTER)): so a gradient is on its way while the next is
//! being computed. A kernel whose output shape depends on values ends its batch, too: its users
//! wait for the real output.

mod chain;
mod frame;
mod memo;
mod progress;
mod requests;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::trace_span;

use crate::cluster::TaskName;
use crate::tensor::Tensor;

use crate::runtime::error::Result;
use crate::runtime::messages::{Received, StepId, Values};
use crate::runtime::state::{StateRequest, StateValues};
use crate::runtime::worker::memory::{DeviceMemory, Ledger};
use crate::runtime::worker::plan::{Plan, Runs, slots_of};

pub(crate) use frame::{Batch, Frame, NodeFailure};
use progress::Progress;
use requests::{state_inputs, state_request};

/// Work to be carried out now.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Requests for the parameter server.
    pub(crate) state_requests: Vec<StateRequest>,
    /// Conditions and loops that run as steps, with their inputs.
    pub(crate) flows: Vec<(u32, Vec<Tensor>)>,
    /// Values for other devices, with the positions of their sends.
    pub(crate) sends: Vec<(u32, Option<Tensor>)>,
    /// Kernels for the device.
    pub(crate) kernels: Option<Box<Batch>>,
}

/// How many kernels the device is given at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtOnce {
    /// None before everything fetched has arrived.
    pub(crate) whole: bool,
    /// One after the other, so that the time of each is known.
    pub(crate) singly: bool,
}

/// One step of one partition.
pub(crate) struct Executor {
    step: StepId,
    plan: Arc<Plan>,
    /// In a box: executors are moved about, and a large cluster has many.
    progress: Box<Progress>,
    /// Whether nobody waits for the step any more; its batch reads it between two kernels.
    is_given_up: Arc<AtomicBool>,
}

impl Executor {
    /// An executor for the step `step` of the partition of `plan`, with nothing run yet. Its values
    /// are in `memory`, if that is limited.
    pub(crate) fn new(step: StepId, plan: &Arc<Plan>, memory: Option<&Rc<DeviceMemory>>) -> Self {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let mut progress = Box::new(Progress::new(plan, &is_given_up));
        progress.ledger = memory.map(|memory| Box::new(Ledger::new(Rc::clone(memory), plan)));
        let mut new = Self { step, plan: Arc::clone(plan), progress, is_given_up };
        new.begin(step);
        new
    }

    /// Makes a finished executor ready for the step `step` of the same partition.
    pub(crate) fn begin(&mut self, step: StepId) {
        self.step = step;
        let (plan, progress) = (&*self.plan, &mut *self.progress);
        progress.begin(plan);
        for node in &plan.tables.sources {
            progress.make_ready(plan, *node);
        }
        for (node, value) in &plan.tables.constants {
            progress.put(plan, plan.node(*node).first_output, value.clone());
            progress.finish(plan, *node);
        }
    }

    /// Takes the client's values, in the order of the partition's feeds.
    pub(crate) fn feed(&mut self, values: Values) {
        for ((_, slot), value) in self.plan.partition.feeds.iter().zip(values) {
            self.progress.put(&self.plan, *slot, value);
        }
    }

    /// Takes a value of a crossing edge. False if the edge is unknown, or has brought a value
    /// before.
    pub(crate) fn receive(&mut self, (crossing, value): Received) -> bool {
        let (plan, progress) = (&*self.plan, &mut *self.progress);
        let Some(receive) = plan.tables.receive_of(crossing) else { return false };
        if plan.tables.receives[receive as usize].slot.is_some() != value.is_some() {
            return false;
        }
        if std::mem::replace(&mut progress.received[receive as usize], true) {
            return false;
        }
        progress.unfinished -= 1;
        let receive = &plan.tables.receives[receive as usize];
        progress.to_fetch -= usize::from(!receive.is_answer);
        if let (Some(slot), Some(value)) = (receive.slot, value) {
            progress.put(plan, slot, value);
        }
        for node in &receive.before {
            progress.arrived(plan, *node);
        }
        true
    }

    /// Takes the outputs of a node that the parameter server, or steps of its own, have run.
    pub(crate) fn served(&mut self, node: u32, outputs: StateValues) {
        for (slot, value) in slots_of(self.plan.node(node)).zip(outputs) {
            self.progress.put(&self.plan, slot, value);
        }
        self.progress.finish(&self.plan, node);
    }

    /// Takes back `batch`, which the device has run.
    pub(crate) fn computed(&mut self, mut batch: Box<Batch>) {
        let (plan, progress) = (&*self.plan, &mut *self.progress);
        let unknown_shapes = progress.unknown_shapes.take();
        if let (Some(ledger), Some(node)) = (&mut progress.ledger, unknown_shapes) {
            ledger.ran(plan.node(node), &batch.frame, &plan.partition);
        }
        let mut nodes = std::mem::take(&mut batch.nodes);
        progress.batch = Some(batch);
        for node in &nodes {
            let had_unknown_shapes = unknown_shapes == Some(*node);
            for slot in slots_of(plan.node(*node)) {
                progress.send(plan, slot);
                for user in &plan.tables.users[slot.0 as usize] {
                    if had_unknown_shapes || plan.tables.nodes[*user as usize].runs != Runs::Kernel
                    {
                        progress.arrived(plan, *user);
                    }
                }
            }
            progress.finish(plan, *node);
        }
        nodes.clear();
        progress.batch_mut().nodes = nodes;
        let mut held_back = std::mem::take(&mut progress.held_back);
        held_back.drain(..).for_each(|(slot, value)| progress.put(plan, slot, value));
        progress.held_back = held_back;
    }

    /// Hop 4 of a step: adds to `ready` all that can be done now.
    ///
    /// # Errors
    /// If the inputs that a step brought don't fit an operation.
    pub(crate) fn run_ready(&mut self, at_once: AtOnce, ready: &mut Ready) -> Result<()> {
        let _span = trace_span!("run_ready", step = self.step.number).entered();
        let (plan, progress) = (&*self.plan, &mut *self.progress);
        let inferred = &mut *plan.tables.inferred();
        progress.run_constants(plan);
        progress.ledger.as_mut().map_or(Ok(()), |ledger| ledger.check())?;
        ready.sends.append(&mut progress.sends);
        if let Some(batch) = &mut progress.batch {
            let mut take = |node| -> Result<StateValues> {
                let inputs = state_inputs(plan, &mut batch.frame, node, &mut inferred.memos)?;
                if let Some(ledger) = &mut progress.ledger {
                    plan.node(node).inputs.iter().for_each(|slot| ledger.used(*slot));
                }
                Ok(inputs)
            };
            for node in progress.stateful.drain(..) {
                ready.state_requests.push(state_request(plan, self.step, node, take(node)?)?);
            }
            for node in progress.flows.drain(..) {
                ready.flows.push((node, take(node)?.into_vec()));
            }
            if !at_once.whole || progress.to_fetch == 0 {
                ready.kernels = progress.batch(plan, self.step, at_once.singly, inferred)?;
            }
        }
        Ok(())
    }

    /// Requests for the variables that the step reads first. Whatever else can be done now is left
    /// for [`Executor::run_ready`].
    pub(crate) fn read_first(&mut self, reads: &mut Vec<StateRequest>) -> Result<()> {
        let (plan, progress) = (&*self.plan, &mut *self.progress);
        progress.stateful.retain(|node| !plan.tables.read_first.contains(node));
        for node in &plan.tables.read_first {
            reads.push(state_request(plan, self.step, *node, StateValues::new())?);
        }
        Ok(())
    }

    /// The values that can be sent now.
    pub(crate) fn sends(&mut self) -> &mut Vec<(u32, Option<Tensor>)> {
        &mut self.progress.sends
    }

    /// Whether everything has run, been received and been sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.progress.unfinished == 0
    }

    /// The values that the client fetches from this partition, in order.
    pub(crate) fn fetches(&mut self) -> Values {
        let frame = &mut self.progress.batch_mut().frame;
        self.plan.partition.fetches.iter().map(|(_, slot)| frame.take(*slot)).collect()
    }

    /// Gives back the memory that the step's values take.
    pub(crate) fn end(&mut self) {
        if let Some(ledger) = &mut self.progress.ledger {
            ledger.end();
        }
    }

    /// Nobody waits for the step any more: the kernel that runs ends, and none follows.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// The names of values that have not come from other devices, with their tasks.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let receives = self.plan.partition.receives.iter().zip(&self.progress.received);
        receives
            .filter(|(_, here)| !**here)
            .map(|(receive, _)| format!("`{}` from {}", receive.name, receive.from))
    }

    /// Whether a value has not come from `task`.
    pub(crate) fn waits_for(&self, task: &TaskName) -> bool {
        let mut receives = self.plan.partition.receives.iter().zip(&self.progress.received);
        receives.any(|(receive, here)| !here && receive.from == *task)
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}
