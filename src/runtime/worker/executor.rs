//! One step of one partition: runs its ready operations in a fixed order.
//!
//! A pure state machine. Its worker brings what arrives ([`Executor::feed`], [`Executor::receive`],
//! [`Executor::served`], [`Executor::computed`]) and carries out what [`Executor::run_ready`]
//! returns: operations for the parameter server, values to send, and a batch of kernels for the
//! device.
//!
//! Ready kernels run in the order in which the graph was built, in whatever order values arrived. A
//! batch ends when nothing is ready, or when there is something to send and the batch has run for a
//! while ([`SEND_AFTER`]): so a gradient is on its way while the next is being computed. A kernel
//! whose output shape depends on values ends its batch, too: its users wait for the real output.

mod chain;
mod frame;
mod memo;
mod pieces;
mod requests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tracing::trace_span;

use crate::cluster::TaskName;
use crate::graph::Op;
use crate::kernels::{Cost, Costs, KernelKind};
use crate::partition::ValueSlot;
use crate::tensor::{DType, Shape, Tensor};

use crate::runtime::error::Result;
use crate::runtime::messages::{Arrival, StepId, Values};
use crate::runtime::state::{StateRequest, StateValues};
use crate::runtime::worker::memory::{DeviceMemory, Ledger};
use crate::runtime::worker::plan::{Plan, slots_of};

use frame::Frame;
pub(crate) use frame::{Batch, NodeFailure};
pub(crate) use memo::Memos;
use memo::infer_types;
use requests::{state_inputs, state_request};

/// The work that a batch of kernels does before it stops to send its results.
const SEND_AFTER: Cost = Cost { flops: 1 << 20, bytes: 1 << 22 };

/// Work to be carried out now.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Requests for the parameter server.
    pub(crate) state_requests: Vec<StateRequest>,
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
    progress: Progress,
    /// Whether nobody waits for the step any more; its batch reads it between two kernels.
    is_given_up: Arc<AtomicBool>,
}

/// The progress of a step; its methods take the step's plan.
struct Progress {
    /// The values of the step; absent while the device runs kernels on them.
    batch: Option<Box<Batch>>,
    /// Values that arrived while the device had the others.
    held_back: Vec<(ValueSlot, Tensor)>,
    /// The type of each slot whose value is there, or will be once the running batch is done.
    types: Vec<(DType, Shape)>,
    /// The node that ended the batch because only its kernel can tell its outputs' shapes.
    unknown_shapes: Option<u32>,
    pending: Vec<u16>,
    /// By node: the number of the last batch it was in. `batch_number` is the current batch's.
    batches: Vec<u64>,
    batch_number: u64,
    kernels: BinaryHeap<Reverse<u32>>,
    stateful: Vec<u32>,
    /// Constants that had to wait, and whose wait is over.
    constants: Vec<u32>,
    sends: Vec<(u32, Option<Tensor>)>,
    received: Vec<bool>,
    /// The number of receives to come that do not answer the step's own sends.
    to_fetch: usize,
    unfinished: usize,
    /// The memory that its values take, where that is limited.
    ledger: Option<Ledger>,
}

impl Executor {
    /// An executor for the step `step` of the partition of `plan`, with nothing run yet. Its values
    /// are in `memory`, if that is limited.
    pub(crate) fn new(step: StepId, plan: &Arc<Plan>, memory: Option<&Rc<DeviceMemory>>) -> Self {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let mut progress = Progress::new(plan, &is_given_up);
        progress.ledger = memory.map(|memory| Ledger::new(Rc::clone(memory), plan));
        let mut new = Self { step, plan: Arc::clone(plan), progress, is_given_up };
        new.begin(step);
        new
    }

    /// Makes a finished executor ready for the step `step` of the same partition.
    pub(crate) fn begin(&mut self, step: StepId) {
        self.step = step;
        let (plan, progress) = (&*self.plan, &mut self.progress);
        progress.begin(plan);
        for node in &plan.sources {
            progress.make_ready(plan, *node);
        }
        for (node, value) in &plan.constants {
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
    pub(crate) fn receive(&mut self, (crossing, value): Arrival) -> bool {
        let (plan, progress) = (&*self.plan, &mut self.progress);
        let Some(receive) = plan.receive_of(crossing) else { return false };
        if plan.partition.receives[receive as usize].slot.is_some() != value.is_some() {
            return false;
        }
        if std::mem::replace(&mut progress.received[receive as usize], true) {
            return false;
        }
        progress.unfinished -= 1;
        let receive = &plan.partition.receives[receive as usize];
        progress.to_fetch -= usize::from(!receive.is_answer);
        if let (Some(slot), Some(value)) = (receive.slot, value) {
            progress.put(plan, slot, value);
        }
        for node in &receive.before {
            progress.arrived(plan, *node);
        }
        true
    }

    /// Takes the parameter server's outputs for a node.
    pub(crate) fn served(&mut self, node: u32, outputs: StateValues) {
        for (slot, value) in slots_of(self.plan.node(node)).zip(outputs) {
            self.progress.put(&self.plan, slot, value);
        }
        self.progress.finish(&self.plan, node);
    }

    /// Takes back `batch`, which the device has run.
    pub(crate) fn computed(&mut self, mut batch: Box<Batch>) {
        let (plan, progress) = (&*self.plan, &mut self.progress);
        let unknown_shapes = progress.unknown_shapes.take();
        progress.learn_types(plan, unknown_shapes, &batch.frame);
        if let (Some(ledger), Some(node)) = (&mut progress.ledger, unknown_shapes) {
            ledger.ran(plan.node(node), &progress.types, &plan.partition);
        }
        let mut nodes = std::mem::take(&mut batch.nodes);
        progress.batch = Some(batch);
        for node in &nodes {
            let had_unknown_shapes = unknown_shapes == Some(*node);
            for slot in slots_of(plan.node(*node)) {
                progress.send(plan, slot);
                for user in &plan.users[slot.0 as usize] {
                    if had_unknown_shapes || plan.node(*user).op.is_stateful() {
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
    pub(crate) fn run_ready(
        &mut self,
        at_once: AtOnce,
        memos: &mut Memos,
        ready: &mut Ready,
    ) -> Result<()> {
        let _span = trace_span!("run_ready", step = self.step.number).entered();
        let (plan, progress) = (&*self.plan, &mut self.progress);
        progress.run_constants(plan);
        progress.ledger.as_mut().map_or(Ok(()), Ledger::check)?;
        ready.sends.append(&mut progress.sends);
        if let Some(batch) = &mut progress.batch {
            for node in progress.stateful.drain(..) {
                let inputs = state_inputs(plan, &mut batch.frame, node, memos)?;
                if let Some(ledger) = &mut progress.ledger {
                    plan.node(node).inputs.iter().for_each(|slot| ledger.used(*slot));
                }
                ready.state_requests.push(state_request(plan, self.step, node, inputs)?);
            }
            if !at_once.whole || progress.to_fetch == 0 {
                ready.kernels = progress.batch(plan, self.step, at_once.singly, memos)?;
            }
        }
        Ok(())
    }

    /// Requests for the variables that the step reads first. Whatever else can be done now is left
    /// for [`Executor::run_ready`].
    pub(crate) fn read_first(&mut self, reads: &mut Vec<StateRequest>) -> Result<()> {
        let (plan, progress) = (&*self.plan, &mut self.progress);
        progress.stateful.retain(|node| !plan.read_first.contains(node));
        for node in &plan.read_first {
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

impl Progress {
    fn new(plan: &Arc<Plan>, is_given_up: &Arc<AtomicBool>) -> Self {
        Self {
            batch: Some(Box::new(Batch::new(plan, is_given_up))),
            held_back: Vec::new(),
            types: vec![(DType::F32, Shape::SCALAR); plan.uses.len()],
            unknown_shapes: None,
            pending: vec![0; plan.nodes.len()],
            batches: vec![0; plan.nodes.len()],
            batch_number: 0,
            kernels: BinaryHeap::new(),
            stateful: Vec::new(),
            constants: Vec::new(),
            sends: Vec::new(),
            received: vec![false; plan.partition.receives.len()],
            to_fetch: 0,
            unfinished: 0,
            ledger: None,
        }
    }

    /// Resets the progress. The types stay those of the step before; each is set anew before it is
    /// read.
    fn begin(&mut self, plan: &Plan) {
        self.batch_mut().begin(plan);
        if let Some(ledger) = &mut self.ledger {
            ledger.begin(plan);
        }
        self.pending
            .iter_mut()
            .zip(&plan.nodes)
            .for_each(|(pending, node)| *pending = node.pending);
        self.received.fill(false);
        self.to_fetch = plan.fetches;
        self.unfinished = plan.nodes.len() + plan.partition.receives.len();
    }

    /// The values and their kernels, while they are not with the device.
    fn batch_mut(&mut self) -> &mut Batch {
        self.batch
            .as_mut()
            .expect("the values of a step are not with the device while no kernel runs")
    }

    /// Ready kernels in order, and those that they make ready, until there is something to send.
    fn batch(
        &mut self,
        plan: &Plan,
        step: StepId,
        singly: bool,
        memos: &mut Memos,
    ) -> Result<Option<Box<Batch>>> {
        if self.kernels.is_empty() {
            return Ok(None);
        }
        let (mut nodes, mut costs) =
            (std::mem::take(&mut self.batch_mut().nodes), Costs::default());
        let mut total = Cost::default();
        self.batch_number += 1;
        while let Some(Reverse(node)) = self.kernels.pop() {
            let ((kind, cost), has_known_shapes) = self.infer_types(plan, node, memos)?;
            if let Some(ledger) = self.ledger.as_mut().filter(|_| has_known_shapes) {
                ledger.run(plan.node(node), &self.types)?;
            }
            nodes.push(node);
            self.batches[node as usize] = self.batch_number;
            costs.add(kind, cost);
            total = total + cost;
            let saved = self.chain(plan, node);
            costs.save(kind, saved);
            total.bytes -= saved;
            if !has_known_shapes {
                self.unknown_shapes = Some(node);
                break;
            }
            self.make_users_ready(plan, node);
            let enough = total.flops >= SEND_AFTER.flops || total.bytes >= SEND_AFTER.bytes;
            if singly || (enough && plan.nodes[node as usize].feeds_send) {
                break;
            }
        }
        let batch = self.batch_mut();
        (batch.part.step, batch.nodes, batch.cost) = (step, nodes, costs);
        Ok(self.batch.take())
    }

    /// Joins `node` to the chain of the node it follows, if that one is in this batch and their
    /// types fit. Returns the memory traffic saved \[bytes\]: the value between them is neither
    /// written nor read.
    fn chain(&mut self, plan: &Plan, node: u32) -> u64 {
        let Some((at, giver)) = plan.nodes[node as usize].chained else { return 0 };
        let (of_giver, of_node) = (self.types(plan, giver), self.types(plan, node));
        let is_in_batch = self.batches[giver as usize] == self.batch_number;
        if !is_in_batch || !chain::goes_on(plan, (giver, &of_giver), (node, at, &of_node)) {
            return 0;
        }
        self.batch_mut().chained[giver as usize] = true;
        let (dtype, shape) = of_giver.1;
        2 * (dtype.size() * shape.elements()) as u64
    }

    /// The types of the inputs and of the output of `node`.
    fn types(&self, plan: &Plan, node: u32) -> chain::Types {
        let node = plan.node(node);
        let of = |slot: &ValueSlot| self.types[slot.0 as usize];
        (node.inputs.iter().map(of).collect(), of(&node.first_output))
    }

    /// Makes ready the kernels that only waited for `node`: they can follow it in the same batch.
    fn make_users_ready(&mut self, plan: &Plan, node: u32) {
        for slot in slots_of(plan.node(node)) {
            for user in &plan.users[slot.0 as usize] {
                if !plan.node(*user).op.is_stateful() {
                    self.arrived(plan, *user);
                }
            }
        }
    }

    /// Notes the types of the outputs of `node`.
    fn learn_types(&mut self, plan: &Plan, node: Option<u32>, frame: &Frame) {
        for slot in node.into_iter().flat_map(|node| slots_of(plan.node(node))) {
            if let Some(known) = frame.known(slot) {
                self.types[slot.0 as usize] = known;
            }
        }
    }

    /// The kind and the cost of `node`, and whether its outputs' types are known before it runs; if
    /// so, notes them.
    fn infer_types(
        &mut self,
        plan: &Plan,
        node: u32,
        memos: &mut Memos,
    ) -> Result<((KernelKind, Cost), bool)> {
        let inputs = plan.node(node).inputs.iter().map(|slot| self.types[slot.0 as usize]);
        let inputs: SmallVec<[(DType, Shape); 3]> = inputs.collect();
        let memo = infer_types(&mut memos[node as usize], plan, node, &inputs)?;
        for (slot, output) in slots_of(plan.node(node)).zip(memo.outputs.iter().flatten()) {
            self.types[slot.0 as usize] = *output;
        }
        Ok(((memo.kind, memo.cost), memo.outputs.is_some()))
    }

    /// Puts a value into its slot, and makes ready the nodes that waited for it.
    fn put(&mut self, plan: &Plan, slot: ValueSlot, value: Tensor) {
        let Some(batch) = &mut self.batch else {
            self.held_back.push((slot, value));
            return;
        };
        self.types[slot.0 as usize] = (value.dtype(), value.shape());
        if !plan.is_used(slot) {
            return;
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.bring(slot, value.byte_len(), &plan.partition);
        }
        batch.frame.put(slot, value);
        self.send(plan, slot);
        for user in &plan.users[slot.0 as usize] {
            self.arrived(plan, *user);
        }
    }

    /// Sends the value in `slot` to its receivers.
    fn send(&mut self, plan: &Plan, slot: ValueSlot) {
        for send in &plan.sends_of_slot[slot.0 as usize] {
            let value = self.batch_mut().frame.take(slot);
            if let Some(ledger) = &mut self.ledger {
                ledger.used(slot);
            }
            self.sends.push((*send, Some(value)));
        }
    }

    /// Notes that `node` has run.
    fn finish(&mut self, plan: &Plan, node: u32) {
        self.unfinished -= 1;
        let node = &plan.nodes[node as usize];
        self.sends.extend(node.done_sends.iter().map(|send| (*send, None)));
        for after in &node.before {
            self.arrived(plan, *after);
        }
    }

    /// Notes that one of the things `node` waits for is there.
    fn arrived(&mut self, plan: &Plan, node: u32) {
        let pending = &mut self.pending[node as usize];
        *pending -= 1;
        if *pending == 0 {
            self.make_ready(plan, node);
        }
    }

    /// Puts out the values of constants that had to wait. It takes no time and needs no device.
    fn run_constants(&mut self, plan: &Plan) {
        while let Some(node) = self.constants.pop() {
            let Op::Const(value) = &plan.node(node).op else {
                unreachable!("only constants wait here");
            };
            self.put(plan, plan.node(node).first_output, value.clone());
            self.finish(plan, node);
        }
    }

    fn make_ready(&mut self, plan: &Plan, node: u32) {
        if plan.nodes[node as usize].is_constant {
            self.constants.push(node);
        } else if plan.node(node).op.is_stateful() {
            self.stateful.push(node);
        } else {
            self.kernels.push(Reverse(node));
        }
    }
}
