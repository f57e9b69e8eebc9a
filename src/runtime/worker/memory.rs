//! The memory of a device that has a limit: what the steps that run there and its variables take.
//!
//! A value takes its size from when its kernel is given to the device until its last use. An
//! elementwise operation takes over the memory of an input of its size that nobody else needs, and
//! a value read from a variable is the variable's own, as in TensorFlow.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::cluster::DeviceName;
use crate::graph::Op;
use crate::partition::{Node, Partition, ValueSlot};
use crate::tensor::{DType, Shape};
use crate::units::Bytes;

use crate::runtime::error::{Code, Error, Result};
use crate::runtime::messages::Scope;
use crate::runtime::state::VariableId;
use crate::runtime::worker::executor::Frame;
use crate::runtime::worker::plan::{Plan, slots_of};

/// The memory of a device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    device: DeviceName,
    capacity: u64,
    used: Cell<u64>,
    /// The variables that it holds, each with its size.
    variables: RefCell<BTreeMap<(Option<Scope>, VariableId), u64>>,
}

impl DeviceMemory {
    pub(crate) fn new(device: DeviceName, capacity: Bytes) -> Self {
        let (used, variables) = (Cell::new(0), RefCell::default());
        Self { device, capacity: capacity.0, used, variables }
    }

    /// Makes room for the variables of a partition that are not here yet; `ids` are theirs.
    ///
    /// # Errors
    /// If there is too little.
    pub(super) fn hold(
        &self,
        partition: &Partition,
        ids: &[VariableId],
        scope: Option<Scope>,
    ) -> Result<()> {
        for (spec, id) in partition.variables.iter().zip(ids) {
            if self.variables.borrow().contains_key(&(scope, *id)) {
                continue;
            }
            self.take(spec.byte_size(), &spec.shared_name, "for the variable")?;
            self.variables.borrow_mut().insert((scope, *id), spec.byte_size());
        }
        Ok(())
    }

    /// The variables of a session are gone.
    pub(super) fn close(&self, scope: Scope) {
        self.release(|of, _| of == Some(scope));
    }

    /// These variables, which sessions shared, are gone: others have replaced them.
    pub(super) fn drop_shared(&self, ids: &[VariableId]) {
        self.release(|of, id| of.is_none() && ids.contains(&id));
    }

    fn release(&self, is_gone: impl Fn(Option<Scope>, VariableId) -> bool) {
        self.variables.borrow_mut().retain(|(of, id), bytes| {
            let is_gone = is_gone(*of, *id);
            self.give(if is_gone { *bytes } else { 0 });
            !is_gone
        });
    }

    fn take(&self, bytes: u64, operation: &str, what: &str) -> Result<()> {
        let Self { device, capacity, used, .. } = self;
        if used.get() + bytes <= *capacity {
            used.set(used.get() + bytes);
            return Ok(());
        }
        let free = Bytes(capacity.saturating_sub(used.get()));
        let (needed, capacity) = (Bytes(bytes), Bytes(*capacity));
        let message = format!(
            "out of memory: {device} has {free} left of {capacity}, and `{operation}` needs \
             {needed} {what}; take a smaller batch, or place a part of the model elsewhere"
        );
        let error = Error::new(Code::ResourceExhausted, message);
        Err(error.in_operation(operation).on(device.task()))
    }

    fn give(&self, bytes: u64) {
        self.used.set(self.used.get() - bytes);
    }
}

/// The name of what brings the value in `slot`.
fn source(partition: &Partition, slot: ValueSlot) -> String {
    let received = partition.receives.iter().find(|receive| receive.slot == Some(slot));
    let computed = || partition.nodes.iter().find(|node| slots_of(node).any(|own| own == slot));
    let name = received.map(|receive| &receive.name);
    name.or_else(|| computed().map(|node| &node.name))
        .map_or_else(|| "a feed".to_owned(), ToString::to_string)
}

/// What the values of a step take of the memory of its device.
#[derive(Debug)]
pub(super) struct Ledger {
    memory: Rc<DeviceMemory>,
    /// By slot: what its value takes \[bytes\].
    held: Vec<u64>,
    /// By slot: the uses to come.
    uses: Vec<u16>,
    /// By slot: whether its value is a variable's own.
    is_variables: Vec<bool>,
    /// The first value that there was no room for.
    lack: Option<Error>,
}

impl Ledger {
    pub(super) fn new(memory: Rc<DeviceMemory>, plan: &Plan) -> Self {
        let mut is_variables = vec![false; plan.tables.uses.len()];
        let reads = |node: &&Node| node.op == Op::ReadVariable;
        for slot in plan.partition.nodes.iter().filter(reads).flat_map(slots_of) {
            is_variables[slot.0 as usize] = true;
        }
        Self { memory, held: Vec::new(), uses: Vec::new(), is_variables, lack: None }
    }

    /// Begins a step: nothing is there yet.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.end();
        self.held.resize(plan.tables.uses.len(), 0);
        self.uses.clone_from(&plan.tables.uses);
    }

    /// Gives back all that the step has.
    pub(super) fn end(&mut self) {
        self.lack = None;
        self.held.drain(..).for_each(|bytes| self.memory.give(bytes));
    }

    /// Makes room for a value that comes to the device. [`Ledger::check`] says if there was none.
    pub(super) fn bring(&mut self, slot: ValueSlot, bytes: usize, partition: &Partition) {
        let at = slot.0 as usize;
        if self.uses[at] == 0 || self.is_variables[at] || self.lack.is_some() {
            return;
        }
        match self.memory.take(bytes as u64, &source(partition, slot), "for its value") {
            Ok(()) => self.held[at] = bytes as u64,
            Err(lack) => self.lack = Some(lack),
        }
    }

    /// Checks that there was room for everything that came.
    ///
    /// # Errors
    /// For the first value that there was none for.
    pub(super) fn check(&mut self) -> Result<()> {
        self.lack.take().map_or(Ok(()), Err)
    }

    /// Makes room for the outputs of `node`, whose types are `types`, by slot; then its inputs have
    /// been used.
    ///
    /// # Errors
    /// If there is too little.
    pub(super) fn run(&mut self, node: &Node, types: &[(DType, Shape)]) -> Result<()> {
        let size = |slot: ValueSlot| {
            let (dtype, shape) = types[slot.0 as usize];
            (dtype.size() * shape.elements()) as u64
        };
        let mut inputs: SmallVec<[ValueSlot; 3]> = node.inputs.clone();
        if node.op.elementwise().is_some() {
            let output = size(node.first_output);
            let is_free = |slot: &ValueSlot| {
                self.uses[slot.0 as usize] == 1 && self.held[slot.0 as usize] == output
            };
            if let Some(place) = inputs.iter().position(is_free) {
                self.used(inputs.remove(place));
            }
        }
        for slot in slots_of(node) {
            let bytes = size(slot);
            let what = format!("for {}{}", types[slot.0 as usize].0, types[slot.0 as usize].1);
            self.memory.take(bytes, &node.name, &what)?;
            if self.uses[slot.0 as usize] > 0 {
                self.held[slot.0 as usize] = bytes;
            } else {
                self.memory.give(bytes);
            }
        }
        inputs.into_iter().for_each(|slot| self.used(slot));
        Ok(())
    }

    /// `node` has run, whose outputs' types only its kernel could tell: they are in `frame`.
    /// [`Ledger::check`] says if there was no room for them.
    pub(super) fn ran(&mut self, node: &Node, frame: &Frame, partition: &Partition) {
        for slot in slots_of(node) {
            if let Some((dtype, shape)) = frame.known(slot) {
                self.bring(slot, dtype.size() * shape.elements(), partition);
            }
        }
        node.inputs.iter().for_each(|slot| self.used(*slot));
    }

    /// The value in `slot` has been used once: the last use gives its memory back.
    pub(super) fn used(&mut self, slot: ValueSlot) {
        let uses = &mut self.uses[slot.0 as usize];
        *uses -= 1;
        if *uses == 0 {
            self.memory.give(std::mem::take(&mut self.held[slot.0 as usize]));
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.end();
    }
}
