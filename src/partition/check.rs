//! The check of a partition from another process. Its parts refer to each other by number.

use std::ops::Range;

use crate::graph::Op;

use super::{Node, Partition, Sent, ValueSlot};

/// The most slots, and the most crossing edges, of a partition.
const MAX_SLOTS: u32 = 1 << 22;

impl Partition {
    /// Checks a partition that another process made.
    ///
    /// # Errors
    /// The first number out of range, value with two sources, or operation before its inputs.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut checked =
            Checked { slots: vec![Value::Missing; self.slots.min(MAX_SLOTS) as usize] };
        if self.slots > MAX_SLOTS || self.nodes.len() > MAX_SLOTS as usize {
            return Err(format!(
                "a partition of {} operations and {} values",
                self.nodes.len(),
                self.slots
            ));
        }
        for (_, slot) in &self.feeds {
            checked.bring("a feed", *slot)?;
        }
        for receive in &self.receives {
            if receive.crossing.0 >= MAX_SLOTS {
                return Err(format!("`{}` crosses as number {}", receive.name, receive.crossing.0));
            }
            receive.slot.map_or(Ok(()), |slot| checked.bring(&receive.name, slot))?;
            self.nodes_exist(&receive.name, &receive.before)?;
        }
        for (index, node) in (0u32..).zip(&self.nodes) {
            self.check_node(index, node, &mut checked)?;
        }
        for send in &self.sends {
            match send.what {
                Sent::Value(slot) => checked.take(&send.name, slot)?,
                Sent::Done(node) => self.nodes_exist(&send.name, &[node])?,
            }
        }
        self.fetches.iter().try_for_each(|(_, slot)| checked.take("a fetch", *slot))
    }

    fn check_node(&self, index: u32, node: &Node, checked: &mut Checked) -> Result<(), String> {
        let name = &node.name;
        node.inputs.iter().try_for_each(|slot| checked.take(name, *slot))?;
        if node.inputs.len() + node.after.len() >= usize::from(u16::MAX) / 2 {
            return Err(format!(
                "`{name}` waits for {} others",
                node.inputs.len() + node.after.len()
            ));
        }
        if let Some(after) = node.after.iter().find(|after| **after >= index) {
            return Err(format!("`{name}`, number {index}, runs after number {after}"));
        }
        if let Some(variable) =
            node.variables.iter().find(|variable| **variable as usize >= self.variables.len())
        {
            return Err(format!(
                "`{name}` touches variable {variable} of {}",
                self.variables.len()
            ));
        }
        for slot in outputs(node)? {
            checked.bring(name, ValueSlot(slot))?;
        }
        let (inputs, variables, outputs) = needs(&node.op);
        let counts = [node.inputs.len(), node.variables.len(), node.outputs as usize];
        if inputs.contains(&counts[0])
            && variables.contains(&counts[1])
            && outputs.contains(&counts[2])
        {
            return Ok(());
        }
        let [inputs, variables, outputs] = counts;
        let kind = node.op.kind();
        Err(format!(
            "`{name}` ({kind}) has {inputs} inputs, {variables} variables and {outputs} outputs"
        ))
    }

    fn nodes_exist(&self, name: &str, nodes: &[u32]) -> Result<(), String> {
        match nodes.iter().find(|node| **node as usize >= self.nodes.len()) {
            Some(node) => Err(format!("`{name}` names operation {node} of {}", self.nodes.len())),
            None => Ok(()),
        }
    }
}

/// The state of a value during the check.
#[derive(Clone, Copy)]
enum Value {
    Missing,
    /// It has a source, and this many uses.
    There(u16),
}

/// The values of a partition during the check.
struct Checked {
    slots: Vec<Value>,
}

impl Checked {
    fn slot(&mut self, name: &str, slot: ValueSlot) -> Result<&mut Value, String> {
        let slots = self.slots.len();
        self.slots
            .get_mut(slot.0 as usize)
            .ok_or_else(|| format!("`{name}` names value {} of {slots}", slot.0))
    }

    /// Notes that `name` is the source of the value in `slot`.
    fn bring(&mut self, name: &str, slot: ValueSlot) -> Result<(), String> {
        match std::mem::replace(self.slot(name, slot)?, Value::There(0)) {
            Value::Missing => Ok(()),
            Value::There(_) => {
                Err(format!("`{name}` sets value {}, which another sets as well", slot.0))
            }
        }
    }

    /// Notes that `name` uses the value in `slot`.
    fn take(&mut self, name: &str, slot: ValueSlot) -> Result<(), String> {
        match self.slot(name, slot)? {
            Value::There(uses) if *uses < u16::MAX => *uses += 1,
            Value::There(_) => return Err(format!("value {} is used too often", slot.0)),
            Value::Missing => {
                return Err(format!(
                    "`{name}` uses value {}, which nothing before it sets",
                    slot.0
                ));
            }
        }
        Ok(())
    }
}

fn outputs(node: &Node) -> Result<Range<u32>, String> {
    let first = node.first_output.0;
    let end = first
        .checked_add(node.outputs)
        .ok_or_else(|| format!("`{}` has too many outputs", node.name))?;
    Ok(first..end)
}

/// The numbers of inputs, variables and outputs of an operation on state. The numbers of a kernel's
/// are checked when its types are inferred.
fn needs(op: &Op) -> (Range<usize>, Range<usize>, Range<usize>) {
    const ANY: Range<usize> = 0..usize::MAX;
    let exactly = |count: usize| count..count + 1;
    match op {
        Op::ReadVariable => (exactly(0), exactly(1), exactly(2)),
        Op::ResourceGather => (exactly(1), exactly(1), exactly(2)),
        Op::Assign | Op::AssignAdd => (exactly(1), exactly(1), ANY),
        Op::IsVariableInitialized | Op::AwaitVariable => (exactly(0), exactly(1), ANY),
        Op::ApplyGradient { rule, is_sparse, .. } => {
            let least = 2 + usize::from(*is_sparse);
            (least..usize::MAX, exactly(1 + rule.slots().len()), ANY)
        }
        Op::BeginStep(_) => (1..usize::MAX, exactly(1), exactly(0)),
        Op::CommitStep(_) => (1..usize::MAX, exactly(1), ANY),
        Op::Fence(_) | Op::LiftFence(_) => (exactly(0), exactly(1), exactly(0)),
        _ => (ANY, ANY, ANY),
    }
}
