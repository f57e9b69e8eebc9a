//! The values of a step, and the kernels that run on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::chain;
use crate::graph::Known;
use crate::kernels::{Costs, Numerics};
use crate::operations::until_given_up;
use crate::partition::ValueSlot;
use crate::runtime::error::Code;
use crate::runtime::messages::{StepId, StepPart};
use crate::runtime::worker::plan::{Plan, slots_of};
use crate::tensor::{Tensor, within_memory};

/// The values of a step, each with the number of uses still to come.
#[derive(Debug)]
pub(crate) struct Frame {
    values: Vec<Option<Tensor>>,
    uses: Vec<u16>,
}

impl Frame {
    fn new(plan: &Plan) -> Self {
        Self { values: vec![None; plan.tables.uses.len()], uses: plan.tables.uses.clone() }
    }

    /// Begins a step. The one before has used all of its values.
    fn begin(&mut self, plan: &Plan) {
        debug_assert!(self.values.iter().all(Option::is_none), "a step uses up its values");
        self.uses.copy_from_slice(&plan.tables.uses);
    }

    pub(super) fn put(&mut self, slot: ValueSlot, value: Tensor) {
        self.values[slot.0 as usize] = Some(value);
    }

    /// The type of the value in `slot`, if it is there.
    pub(crate) fn known(&self, slot: ValueSlot) -> Option<Known> {
        self.values[slot.0 as usize].as_ref().map(|value| (value.dtype(), value.shape()))
    }

    pub(super) fn get(&self, slot: ValueSlot) -> &Tensor {
        self.values[slot.0 as usize].as_ref().expect("a node runs once its inputs are there")
    }

    /// Uses the value in `slot` once: the last use takes it out.
    pub(super) fn take(&mut self, slot: ValueSlot) -> Tensor {
        if self.uses[slot.0 as usize] > 1 {
            self.uses[slot.0 as usize] -= 1;
            return self.get(slot).clone();
        }
        self.uses[slot.0 as usize] = 0;
        self.values[slot.0 as usize].take().expect("a value is taken as often as it is used")
    }

    /// Whether the value in `slot` is needed only once more.
    pub(super) fn is_last_use(&self, slot: ValueSlot) -> bool {
        self.uses[slot.0 as usize] == 1
    }

    pub(super) fn release(&mut self, slot: ValueSlot) {
        let uses = &mut self.uses[slot.0 as usize];
        *uses -= 1;
        if *uses == 0 {
            self.values[slot.0 as usize] = None;
        }
    }
}

/// The values of a step, and the kernels to run on them next, in order.
///
/// It goes to the device and comes back, for as long as there are steps of its partition.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) part: StepPart,
    plan: Arc<Plan>,
    is_given_up: Arc<AtomicBool>,
    pub(crate) nodes: Vec<u32>,
    /// By node: whether it runs together with its only user, as a part of the same chain.
    pub(super) chained: Vec<bool>,
    pub(super) frame: Frame,
    pub(crate) cost: Costs,
    pub(crate) numerics: Numerics,
    /// The outcome of the last run.
    pub(crate) outcome: Result<(), NodeFailure>,
}

impl Batch {
    /// An empty batch: no kernels, and no values.
    pub(super) fn new(plan: &Arc<Plan>, is_given_up: &Arc<AtomicBool>) -> Self {
        Self {
            part: StepPart {
                step: StepId { master: 0, number: 0, trains: false },
                device: plan.partition.device,
            },
            plan: Arc::clone(plan),
            is_given_up: Arc::clone(is_given_up),
            nodes: Vec::new(),
            chained: vec![false; plan.tables.nodes.len()],
            frame: Frame::new(plan),
            cost: Costs::default(),
            numerics: Numerics::Real,
            outcome: Ok(()),
        }
    }

    /// Begins a step.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.frame.begin(plan);
        self.chained.fill(false);
    }

    /// Runs the kernels.
    pub(crate) fn compute(&mut self) {
        let (plan, is_given_up) = (Arc::clone(&self.plan), Arc::clone(&self.is_given_up));
        self.outcome = until_given_up(&is_given_up, || compute(&plan, self));
    }
}

/// A kernel that could not do its work.
#[derive(Clone, Debug)]
pub(crate) struct NodeFailure {
    pub(crate) node: u32,
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Runs the kernels of `nodes` on the values of `frame`, to the extent of `numerics`, until the
/// step is given up.
///
/// # Errors
/// The first kernel that could not do its work, because of its input values, or for lack of memory.
fn compute(plan: &Plan, batch: &mut Batch) -> Result<(), NodeFailure> {
    let mut at = 0;
    let outcome = within_memory(|| compute_each(plan, batch, &mut at));
    outcome.unwrap_or_else(|refused| {
        let (code, message) = (Code::ResourceExhausted, refused.to_string());
        Err(NodeFailure { node: at, code, message })
    })
}

/// As [`compute`]; `at` is the node that runs.
fn compute_each(plan: &Plan, batch: &mut Batch, at: &mut u32) -> Result<(), NodeFailure> {
    let Batch { nodes, frame, numerics, chained, is_given_up, .. } = batch;
    let is_real = *numerics == Numerics::Real;
    for index in nodes.iter() {
        if is_given_up.load(Ordering::Relaxed) {
            break;
        }
        if !is_real {
            chained[*index as usize] = false;
        } else if chained[*index as usize] {
            continue;
        }
        *at = *index;
        let node = plan.node(*index);
        if is_real && chain::run(plan, *index, frame, chained) {
            continue;
        }
        let inputs: SmallVec<[&Tensor; 3]> =
            node.inputs.iter().map(|slot| frame.get(*slot)).collect();
        let outputs = numerics.call(&node.op, &inputs).map_err(|error| {
            let (code, message) = (Code::InvalidArgument, error.to_string());
            NodeFailure { node: *index, code, message }
        })?;
        drop(inputs);
        for slot in &node.inputs {
            frame.release(*slot);
        }
        for (slot, value) in slots_of(node).zip(outputs) {
            if plan.is_used(slot) {
                frame.put(slot, value);
            }
        }
    }
    Ok(())
}
