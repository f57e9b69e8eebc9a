//! The values of a step, and the kernels that run on them.

use smallvec::SmallVec;

use super::super::plan::{Plan, slots_of};
use crate::kernels::{Known, Numerics};
use crate::partition::Slot;
use crate::tensor::Tensor;

/// The values of a step, and how often each is still needed.
#[derive(Debug)]
pub(crate) struct Frame {
    values: Vec<Option<Tensor>>,
    uses: Vec<u16>,
}

impl Frame {
    /// The frame of a step that has no values yet.
    pub(super) fn new(plan: &Plan) -> Self {
        Self { values: vec![None; plan.uses.len()], uses: plan.uses.clone() }
    }

    pub(super) fn put(&mut self, slot: Slot, value: Tensor) {
        self.values[slot.0 as usize] = Some(value);
    }

    /// The type of the value in `slot`, where it is there.
    pub(super) fn known(&self, slot: Slot) -> Option<Known> {
        self.values[slot.0 as usize].as_ref().map(|value| (value.dtype(), value.shape()))
    }

    fn get(&self, slot: Slot) -> &Tensor {
        self.values[slot.0 as usize].as_ref().expect("a node runs once its inputs are there")
    }

    /// Uses the value in `slot` once: the last use takes it out.
    pub(super) fn take(&mut self, slot: Slot) -> Tensor {
        if self.uses[slot.0 as usize] > 1 {
            self.uses[slot.0 as usize] -= 1;
            return self.get(slot).clone();
        }
        self.uses[slot.0 as usize] = 0;
        self.values[slot.0 as usize].take().expect("a value is taken as often as it is used")
    }

    fn release(&mut self, slot: Slot) {
        let uses = &mut self.uses[slot.0 as usize];
        *uses -= 1;
        if *uses == 0 {
            self.values[slot.0 as usize] = None;
        }
    }
}

/// A kernel that could not do its work.
#[derive(Clone, Debug)]
pub(crate) struct NodeFailure {
    pub(crate) node: u32,
    pub(crate) message: String,
}

/// Runs the kernels of `nodes` on the values of `frame`, as far as `numerics` has them computed.
///
/// # Errors
/// The first kernel that could not do its work, on account of the values it was given.
pub(crate) fn compute(plan: &Plan, nodes: &[u32], frame: &mut Frame, numerics: Numerics) -> Result<(), NodeFailure> {
    for index in nodes {
        let node = plan.node(*index);
        let inputs: SmallVec<[&Tensor; 3]> = node.inputs.iter().map(|slot| frame.get(*slot)).collect();
        let outputs = numerics
            .call(&node.op, &inputs)
            .map_err(|error| NodeFailure { node: *index, message: error.to_string() })?;
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
