//! The progress of a step: which nodes are ready, which batch they go to, what is still to come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;

use crate::graph::{Known, Op};
use crate::kernels::{Cost, Costs, KernelKind};
use crate::partition::ValueSlot;
use crate::runtime::error::Result;
use crate::runtime::messages::StepId;
use crate::runtime::worker::memory::Ledger;
use crate::runtime::worker::plan::{Inferred, Plan, Runs, slots_of};
use crate::tensor::Tensor;

use super::chain;
use super::frame::{Batch, Frame};
use super::memo::infer_types;

/// The work that a batch of kernels does before it stops to send its results.
pub(super) const SEND_AFTER: Cost = Cost { flops: 1 << 20, bytes: 1 << 22, is_unbounded: false };

/// The progress of a step; its methods take the step's plan.
pub(super) struct Progress {
    /// The values of the step; absent while the device runs kernels on them.
    pub(super) batch: Option<Box<Batch>>,
    /// Values that arrived while the device had the others.
    pub(super) held_back: Vec<(ValueSlot, Tensor)>,
    /// The node that ended the batch because only its kernel can tell its outputs' shapes.
    pub(super) unknown_shapes: Option<u32>,
    pub(super) pending: Vec<u16>,
    pub(super) kernels: BinaryHeap<Reverse<u32>>,
    pub(super) stateful: Vec<u32>,
    /// Conditions and loops that run as steps.
    pub(super) flows: Vec<u32>,
    /// Constants that had to wait, and whose wait is over.
    pub(super) constants: Vec<u32>,
    pub(super) sends: Vec<(u32, Option<Tensor>)>,
    pub(super) received: Vec<bool>,
    /// The number of receives to come that do not answer the step's own sends.
    pub(super) to_fetch: usize,
    pub(super) unfinished: usize,
    /// The memory that its values take, where that is limited.
    pub(super) ledger: Option<Box<Ledger>>,
}

impl Progress {
    pub(super) fn new(plan: &Arc<Plan>, is_given_up: &Arc<AtomicBool>) -> Self {
        Self {
            batch: Some(Box::new(Batch::new(plan, is_given_up))),
            held_back: Vec::new(),
            unknown_shapes: None,
            pending: vec![0; plan.tables.nodes.len()],
            kernels: BinaryHeap::new(),
            stateful: Vec::new(),
            flows: Vec::new(),
            constants: Vec::new(),
            sends: Vec::new(),
            received: vec![false; plan.tables.receives.len()],
            to_fetch: 0,
            unfinished: 0,
            ledger: None,
        }
    }

    /// Resets the progress.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.batch_mut().begin(plan);
        if let Some(ledger) = &mut self.ledger {
            ledger.begin(plan);
        }
        self.pending
            .iter_mut()
            .zip(&plan.tables.nodes)
            .for_each(|(pending, node)| *pending = node.pending);
        self.received.fill(false);
        self.to_fetch = plan.tables.fetches;
        self.unfinished = plan.tables.nodes.len() + plan.tables.receives.len();
    }

    /// The values and their kernels, while they are not with the device.
    pub(super) fn batch_mut(&mut self) -> &mut Batch {
        self.batch
            .as_mut()
            .expect("the values of a step are not with the device while no kernel runs")
    }

    /// Ready kernels in order, and those that they make ready, until there is something to send.
    pub(super) fn batch(
        &mut self,
        plan: &Plan,
        step: StepId,
        singly: bool,
        inferred: &mut Inferred,
    ) -> Result<Option<Box<Batch>>> {
        if self.kernels.is_empty() {
            return Ok(None);
        }
        let (mut nodes, mut costs) =
            (std::mem::take(&mut self.batch_mut().nodes), Costs::default());
        let mut total = Cost::default();
        while let Some(Reverse(node)) = self.kernels.pop() {
            let ((kind, cost), has_known_shapes) = self.infer_types(plan, node, inferred)?;
            if let Some(ledger) = self.ledger.as_mut().filter(|_| has_known_shapes) {
                ledger.run(plan.node(node), &inferred.types)?;
            }
            nodes.push(node);
            costs.add(kind, cost);
            total = total + cost;
            let saved = self.chain(plan, node, inferred);
            costs.save(kind, saved);
            total.bytes -= saved;
            if !has_known_shapes {
                self.unknown_shapes = Some(node);
                break;
            }
            self.make_users_ready(plan, node);
            let enough = total.flops >= SEND_AFTER.flops || total.bytes >= SEND_AFTER.bytes;
            if singly || (enough && plan.tables.nodes[node as usize].feeds_send) {
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
    fn chain(&mut self, plan: &Plan, node: u32, inferred: &Inferred) -> u64 {
        let Some((at, giver)) = plan.tables.nodes[node as usize].chained else { return 0 };
        let batch = self.batch_mut();
        let has_run = batch.frame.known(plan.node(giver).first_output).is_some();
        if has_run {
            return 0; // in an earlier batch
        }
        let types = |node| types(plan, node, &batch.frame, inferred);
        let (of_giver, of_node) = (types(giver), types(node));
        if !chain::goes_on(plan, (giver, &of_giver), (node, at, &of_node)) {
            return 0;
        }
        batch.chained[giver as usize] = true;
        let (dtype, shape) = of_giver.1;
        2 * (dtype.size() * shape.elements()) as u64
    }

    /// Makes ready the kernels that only waited for `node`: they can follow it in the same batch.
    pub(super) fn make_users_ready(&mut self, plan: &Plan, node: u32) {
        for slot in slots_of(plan.node(node)) {
            for user in &plan.tables.users[slot.0 as usize] {
                if plan.tables.nodes[*user as usize].runs == Runs::Kernel {
                    self.arrived(plan, *user);
                }
            }
        }
    }

    /// The kind and the cost of `node`, and whether its outputs' types are known before it runs; if
    /// so, notes them.
    pub(super) fn infer_types(
        &mut self,
        plan: &Plan,
        node: u32,
        Inferred { memos, types }: &mut Inferred,
    ) -> Result<((KernelKind, Cost), bool)> {
        let frame = &self.batch_mut().frame;
        let inputs = plan.node(node).inputs.iter().map(|slot| type_of(*slot, frame, types));
        let inputs: SmallVec<[Known; 3]> = inputs.collect();
        let memo = infer_types(&mut memos[node as usize], plan, node, &inputs)?;
        for (slot, output) in slots_of(plan.node(node)).zip(memo.outputs.iter().flatten()) {
            types[slot.0 as usize] = *output;
        }
        Ok(((memo.kind, memo.cost), memo.outputs.is_some()))
    }

    /// Puts a value into its slot, and makes ready the nodes that waited for it.
    pub(super) fn put(&mut self, plan: &Plan, slot: ValueSlot, value: Tensor) {
        let Some(batch) = &mut self.batch else {
            self.held_back.push((slot, value));
            return;
        };
        if !plan.is_used(slot) {
            return;
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.bring(slot, value.byte_len(), &plan.partition);
        }
        batch.frame.put(slot, value);
        self.send(plan, slot);
        for user in &plan.tables.users[slot.0 as usize] {
            self.arrived(plan, *user);
        }
    }

    /// Sends the value in `slot` to its receivers.
    pub(super) fn send(&mut self, plan: &Plan, slot: ValueSlot) {
        for send in &plan.tables.sends_of_slot[slot.0 as usize] {
            let value = self.batch_mut().frame.take(slot);
            if let Some(ledger) = &mut self.ledger {
                ledger.used(slot);
            }
            self.sends.push((*send, Some(value)));
        }
    }

    /// Notes that `node` has run.
    pub(super) fn finish(&mut self, plan: &Plan, node: u32) {
        self.unfinished -= 1;
        let node = &plan.tables.nodes[node as usize];
        self.sends.extend(node.done_sends.iter().map(|send| (*send, None)));
        for after in &node.before {
            self.arrived(plan, *after);
        }
    }

    /// Notes that one of the things `node` waits for is there.
    pub(super) fn arrived(&mut self, plan: &Plan, node: u32) {
        let pending = &mut self.pending[node as usize];
        *pending -= 1;
        if *pending == 0 {
            self.make_ready(plan, node);
        }
    }

    /// Puts out the values of constants that had to wait. It takes no time and needs no device.
    pub(super) fn run_constants(&mut self, plan: &Plan) {
        while let Some(node) = self.constants.pop() {
            let Op::Const(value) = &plan.node(node).op else {
                unreachable!("only constants wait here");
            };
            self.put(plan, plan.node(node).first_output, value.clone());
            self.finish(plan, node);
        }
    }

    pub(super) fn make_ready(&mut self, plan: &Plan, node: u32) {
        match plan.tables.nodes[node as usize].runs {
            Runs::Constant => self.constants.push(node),
            Runs::Kernel => self.kernels.push(Reverse(node)),
            Runs::State => self.stateful.push(node),
            Runs::Steps => self.flows.push(node),
        }
    }
}

/// The type of the value in `slot`: of the one that is there or, of an output of the batch that is
/// being put together, as it was inferred.
fn type_of(slot: ValueSlot, frame: &Frame, inferred: &[Known]) -> Known {
    frame.known(slot).unwrap_or(inferred[slot.0 as usize])
}

/// The types of the inputs and of the output of `node`.
fn types(plan: &Plan, node: u32, frame: &Frame, inferred: &Inferred) -> chain::Types {
    let node = plan.node(node);
    let of = |slot: &ValueSlot| type_of(*slot, frame, &inferred.types);
    (node.inputs.iter().map(of).collect(), of(&node.first_output))
}
