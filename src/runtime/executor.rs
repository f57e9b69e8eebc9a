//! One step of one partition: which operation is ready, in a fixed order, and what follows from it.
//!
//! A pure state machine. Its worker brings what arrives ([`Executor::feed`], [`Executor::receive`],
//! [`Executor::served`], [`Executor::computed`]) and carries out what [`Executor::run_ready`]
//! returns: operations for the parameter server, values to send, and a batch of kernels for the device.
//!
//! Ready kernels run in the order in which the graph was built, whatever arrived first. A batch ends
//! when nothing is ready, or when there is something to send and the batch has run for a while
//! ([`SEND_AFTER`]): so a gradient is on its way while the next is being computed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use smallvec::SmallVec;
use tracing::trace_span;

use crate::graph::{TensorType, infer};
use crate::kernels::{self, Cost};
use crate::partition::Slot;
use crate::tensor::{DType, Shape, Tensor};

use super::error::{Code, Error, Result};
use super::messages::{Arrival, StateRequest, StepId, Ticket, Values};
use super::plan::{Plan, slots_of};
use super::state_request::action;

/// How much a batch of kernels does before it stops to send what it has.
const SEND_AFTER: Cost = Cost { flops: 1 << 20, bytes: 1 << 22 };

/// The values of a step, and how often each is still needed.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    values: Vec<Option<Tensor>>,
    uses: Vec<u16>,
}

/// A kernel that could not do its work.
#[derive(Clone, Debug)]
pub(crate) struct NodeFailure {
    pub(crate) node: u32,
    pub(crate) message: String,
}

/// What is to be done now.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// For the parameter server.
    pub(crate) state_requests: Vec<StateRequest>,
    /// For other tasks: the position of the send, and the value.
    pub(crate) sends: Vec<(u32, Option<Tensor>)>,
    /// For the device.
    pub(crate) kernels: Option<Batch>,
}

/// Kernels for the device, to be run in this order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) nodes: Vec<u32>,
    pub(crate) frame: Frame,
    pub(crate) cost: Cost,
}

/// What a node gave and cost when its inputs last had these shapes.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    inputs: SmallVec<[Shape; 3]>,
    outputs: SmallVec<[(DType, Shape); 2]>,
    cost: Cost,
}

/// By node: what it gave and cost last. Kept from step to step, since shapes seldom change.
pub(crate) type Memos = Vec<Option<Memo>>;

/// One step of one partition.
pub(crate) struct Executor {
    step: StepId,
    plan: Arc<Plan>,
    /// With the device, while kernels run.
    frame: Option<Frame>,
    /// What arrived while the frame was with the device.
    held_back: Vec<(Slot, Tensor)>,
    /// The type of each slot whose value is there, or will be when the batch that is running has.
    types: Vec<(DType, Shape)>,
    pending: Vec<u16>,
    kernels: BinaryHeap<Reverse<u32>>,
    stateful: Vec<u32>,
    sends: Vec<(u32, Option<Tensor>)>,
    received: Vec<bool>,
    unfinished: usize,
}

impl Executor {
    /// The step `step` of the partition that `plan` is of, with nothing run yet.
    pub(crate) fn new(step: StepId, plan: &Arc<Plan>) -> Self {
        let frame = Frame { values: vec![None; plan.uses.len()], uses: plan.uses.clone() };
        let mut executor = Self {
            step,
            plan: Arc::clone(plan),
            frame: Some(frame),
            held_back: Vec::new(),
            types: vec![(DType::F32, Shape::SCALAR); plan.uses.len()],
            pending: plan.nodes.iter().map(|node| node.pending).collect(),
            kernels: BinaryHeap::new(),
            stateful: Vec::new(),
            sends: Vec::new(),
            received: vec![false; plan.partition.receives.len()],
            unfinished: plan.nodes.len() + plan.partition.receives.len(),
        };
        for node in &plan.sources {
            executor.make_ready(*node);
        }
        for (node, value) in &plan.constants {
            executor.put(plan.node(*node).first_output, value.clone());
            executor.finish(*node);
        }
        executor
    }

    /// The client's values, in the order of the partition's feeds.
    pub(crate) fn feed(&mut self, values: Values) {
        let plan = Arc::clone(&self.plan);
        for ((_, slot), value) in plan.partition.feeds.iter().zip(values) {
            self.put(*slot, value);
        }
    }

    /// What came over a crossing edge. False where no such edge, or a second value, was expected.
    pub(crate) fn receive(&mut self, (crossing, value): Arrival) -> bool {
        let plan = Arc::clone(&self.plan);
        let Some(receive) = plan.receive_of_crossing.get(crossing.0 as usize).copied().flatten() else { return false };
        if std::mem::replace(&mut self.received[receive as usize], true) {
            return false;
        }
        self.unfinished -= 1;
        let receive = &plan.partition.receives[receive as usize];
        if let (Some(slot), Some(value)) = (receive.slot, value) {
            self.put(slot, value);
        }
        for node in &receive.before {
            self.arrived(*node);
        }
        true
    }

    /// What the parameter server gave for a node.
    pub(crate) fn served(&mut self, node: u32, outputs: Values) {
        let plan = Arc::clone(&self.plan);
        for (slot, value) in slots_of(plan.node(node)).zip(outputs) {
            self.put(slot, value);
        }
        self.finish(node);
    }

    /// The device has run `nodes`.
    pub(crate) fn computed(&mut self, nodes: &[u32], frame: Frame) {
        self.frame = Some(frame);
        let plan = Arc::clone(&self.plan);
        for node in nodes {
            for slot in slots_of(plan.node(*node)) {
                self.send(slot);
                for user in &plan.users[slot.0 as usize] {
                    if plan.node(*user).op.is_stateful() {
                        self.arrived(*user);
                    }
                }
            }
            self.finish(*node);
        }
        for (slot, value) in std::mem::take(&mut self.held_back) {
            self.put(slot, value);
        }
    }

    /// Hop 4 of a step: takes all that can be done now.
    ///
    /// # Errors
    /// If the inputs that a step brought don't fit an operation.
    pub(crate) fn run_ready(&mut self, memos: &mut Memos) -> Result<Ready> {
        let _span = trace_span!("run_ready", step = self.step.number).entered();
        let mut ready = Ready { sends: std::mem::take(&mut self.sends), ..Ready::default() };
        if self.frame.is_some() {
            let stateful = std::mem::take(&mut self.stateful);
            ready.state_requests = stateful.into_iter().map(|node| self.state_request(node)).collect();
            ready.kernels = self.batch(memos)?;
        }
        Ok(ready)
    }

    /// Whether all has run, received and been sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// The values that the client fetches from this partition, in their order.
    pub(crate) fn fetches(&mut self) -> Values {
        let plan = Arc::clone(&self.plan);
        let frame = self.frame.as_mut().expect("a finished step has its values");
        plan.partition.fetches.iter().map(|(_, slot)| frame.take(*slot)).collect()
    }

    /// The names of what has not come from other tasks, and from which.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let receives = self.plan.partition.receives.iter().zip(&self.received);
        receives.filter(|(_, here)| !**here).map(|(receive, _)| format!("`{}` from {}", receive.name, receive.from))
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Ready kernels in order, and those that they make ready, until there is something to send.
    fn batch(&mut self, memos: &mut Memos) -> Result<Option<Batch>> {
        if self.kernels.is_empty() {
            return Ok(None);
        }
        let plan = Arc::clone(&self.plan);
        let (mut nodes, mut cost) = (Vec::new(), Cost::default());
        while let Some(Reverse(node)) = self.kernels.pop() {
            cost = cost + self.foresee(node, memos)?;
            nodes.push(node);
            self.make_users_ready(&plan, node);
            let enough = cost.flops >= SEND_AFTER.flops || cost.bytes >= SEND_AFTER.bytes;
            if enough && plan.nodes[node as usize].feeds_send {
                break;
            }
        }
        let frame = self.frame.take().expect("a batch is made only while the frame is here");
        Ok(Some(Batch { nodes, frame, cost }))
    }

    /// Kernels that only waited for `node` can follow it within the same batch.
    fn make_users_ready(&mut self, plan: &Plan, node: u32) {
        for slot in slots_of(plan.node(node)) {
            for user in &plan.users[slot.0 as usize] {
                if !plan.node(*user).op.is_stateful() {
                    self.arrived(*user);
                }
            }
        }
    }

    /// What `node` will give and cost, from the shapes of its inputs.
    fn foresee(&mut self, node: u32, memos: &mut Memos) -> Result<Cost> {
        let plan = Arc::clone(&self.plan);
        let inputs: SmallVec<[(DType, Shape); 3]> =
            plan.node(node).inputs.iter().map(|slot| self.types[slot.0 as usize]).collect();
        let memo = &mut memos[node as usize];
        let fits = |memo: &Memo| memo.inputs.iter().zip(&inputs).all(|(seen, (_, shape))| seen == shape);
        if !memo.as_ref().is_some_and(fits) {
            *memo = Some(foresee(&plan, node, &inputs)?);
        }
        let memo = memo.as_ref().expect("it was just written");
        for (slot, output) in slots_of(plan.node(node)).zip(&memo.outputs) {
            self.types[slot.0 as usize] = *output;
        }
        Ok(memo.cost)
    }

    fn state_request(&mut self, node: u32) -> StateRequest {
        let plan = Arc::clone(&self.plan);
        let frame = self.frame.as_mut().expect("a node becomes ready only while the frame is here");
        let inputs: Values = plan.node(node).inputs.iter().map(|slot| frame.take(*slot)).collect();
        StateRequest { ticket: Ticket { step: self.step, node }, action: action(&plan, node, inputs) }
    }

    /// Puts a value where it belongs, and lets go on what waited for it.
    fn put(&mut self, slot: Slot, value: Tensor) {
        let Some(frame) = &mut self.frame else {
            self.held_back.push((slot, value));
            return;
        };
        self.types[slot.0 as usize] = (value.dtype(), value.shape());
        if !self.plan.is_used(slot) {
            return;
        }
        frame.values[slot.0 as usize] = Some(value);
        self.send(slot);
        let plan = Arc::clone(&self.plan);
        for user in &plan.users[slot.0 as usize] {
            self.arrived(*user);
        }
    }

    /// Sends what is in `slot` to whom it is for.
    fn send(&mut self, slot: Slot) {
        let frame = self.frame.as_mut().expect("values are sent while the frame is here");
        for send in &self.plan.sends_of_slot[slot.0 as usize] {
            self.sends.push((*send, Some(frame.take(slot))));
        }
    }

    /// `node` has run.
    fn finish(&mut self, node: u32) {
        self.unfinished -= 1;
        let plan = Arc::clone(&self.plan);
        let node = &plan.nodes[node as usize];
        self.sends.extend(node.done_sends.iter().map(|send| (*send, None)));
        for after in &node.before {
            self.arrived(*after);
        }
    }

    /// One of the things that `node` waits for is here.
    fn arrived(&mut self, node: u32) {
        let pending = &mut self.pending[node as usize];
        *pending -= 1;
        if *pending == 0 {
            self.make_ready(node);
        }
    }

    /// A constant is never ready: it was there from the beginning.
    fn make_ready(&mut self, node: u32) {
        if self.plan.nodes[node as usize].is_constant {
        } else if self.plan.node(node).op.is_stateful() {
            self.stateful.push(node);
        } else {
            self.kernels.push(Reverse(node));
        }
    }
}

fn foresee(plan: &Plan, node: u32, inputs: &[(DType, Shape)]) -> Result<Memo> {
    let op = &plan.node(node).op;
    let types: SmallVec<[TensorType; 3]> =
        inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect();
    let outputs = infer(op, &types, &[]).map_err(|problem| {
        let error = Error::new(Code::InvalidArgument, problem.to_string());
        error.in_operation(plan.node(node).name.to_string()).on(&plan.partition.task)
    })?;
    let known = |output: &TensorType| output.shape.known().expect("known inputs make known outputs");
    let outputs: SmallVec<[(DType, Shape); 2]> = outputs.iter().map(|output| (output.dtype, known(output))).collect();
    let inputs: SmallVec<[Shape; 3]> = inputs.iter().map(|(_, shape)| *shape).collect();
    let output_shapes: SmallVec<[Shape; 2]> = outputs.iter().map(|(_, shape)| *shape).collect();
    let cost = kernels::cost_of(op, &inputs, &output_shapes);
    Ok(Memo { inputs, outputs, cost })
}

/// Runs the kernels of `nodes` on the values of `frame`.
///
/// # Errors
/// The first kernel that could not do its work, on account of the values it was given.
pub(crate) fn compute(plan: &Plan, nodes: &[u32], frame: &mut Frame) -> Result<(), NodeFailure> {
    for index in nodes {
        let node = plan.node(*index);
        let inputs: SmallVec<[&Tensor; 3]> = node.inputs.iter().map(|slot| frame.get(*slot)).collect();
        let outputs = kernels::call(&node.op, &inputs)
            .map_err(|error| NodeFailure { node: *index, message: error.to_string() })?;
        drop(inputs);
        for slot in &node.inputs {
            frame.release(*slot);
        }
        for (slot, value) in slots_of(node).zip(outputs) {
            if plan.is_used(slot) {
                frame.values[slot.0 as usize] = Some(value);
            }
        }
    }
    Ok(())
}

impl Frame {
    fn get(&self, slot: Slot) -> &Tensor {
        self.values[slot.0 as usize].as_ref().expect("a node runs once its inputs are there")
    }

    /// Uses the value in `slot` once: the last use takes it out.
    fn take(&mut self, slot: Slot) -> Tensor {
        let value = self.get(slot).clone();
        self.release(slot);
        value
    }

    fn release(&mut self, slot: Slot) {
        let uses = &mut self.uses[slot.0 as usize];
        *uses -= 1;
        if *uses == 0 {
            self.values[slot.0 as usize] = None;
        }
    }
}
