//! The check of a partition from another process. Its parts refer to each other by number.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::graph::{Op, Replica};

use super::{Node, Partition, Sent, ValueSlot};

/// The most that one operation waits for, and the most uses of one value: what the executor counts.
const MOST: usize = u16::MAX as usize;
/// The most slots, and the most crossing edges, of a partition.
const MAX_SLOTS: u32 = 1 << 22;
/// The most outputs of one operation.
const MAX_OUTPUTS: u32 = 1 << 12;
/// The most workers of a training: the size of its tables.
const MAX_WORKERS: u32 = 1 << 20;
/// The most replicas that a partition trains. A program is one worker, and has two replicas where
/// it trains a copy of its own as well; only one that runs the steps of several workers as one step
/// has more.
const MAX_REPLICAS: usize = 1 << 10;

impl Partition {
    /// Checks a partition that another process made.
    ///
    /// # Errors
    /// The first number out of range, value with two sources or none, operation before its inputs,
    /// or coordination that can't be.
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
        self.check_names()?;
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
        for (index, node) in (0u32..).zip(self.nodes.iter()) {
            self.check_node(index, node, &mut checked)?;
        }
        for send in &self.sends {
            match send.what {
                Sent::Value(slot) => checked.take(&send.name, slot)?,
                Sent::Done(node) => self.nodes_exist(&send.name, &[node])?,
            }
        }
        self.fetches.iter().try_for_each(|(_, slot)| checked.take("a fetch", *slot))?;
        self.check_counts()?;
        // The tables of the trainings are gone through for each replica.
        if self.first_replicas(MAX_REPLICAS + 1).len() > MAX_REPLICAS {
            return Err(format!("a step trains for more than {MAX_REPLICAS} workers"));
        }
        match checked.slots.iter().position(|slot| matches!(slot, Value::Missing)) {
            Some(slot) => Err(format!("nothing sets value {slot}")),
            None => Ok(()),
        }
    }

    /// Checks that no variable and no crossing edge is there twice.
    fn check_names(&self) -> Result<(), String> {
        let mut variables = BTreeSet::new();
        for variable in &self.variables {
            if !variables.insert((&variable.container, &variable.shared_name)) {
                return Err(format!("it has the variable `{}` twice", variable.shared_name));
            }
        }
        let mut crossings = BTreeSet::new();
        match self.receives.iter().find(|receive| !crossings.insert(receive.crossing)) {
            Some(twice) => Err(format!("it receives `{}` twice", twice.name)),
            None => Ok(()),
        }
    }

    /// Checks that no operation waits for more, and no value is used more often, than the executor
    /// can count. Every slot and every index of an operation must be valid: [`Self::check`] sees to
    /// that for partitions from outside.
    ///
    /// # Errors
    /// The first operation or value with too many.
    pub(crate) fn check_counts(&self) -> Result<(), String> {
        let of_node = |node: &Node| node.inputs.len() + node.after.len();
        let mut waits: Vec<usize> = self.nodes.iter().map(of_node).collect();
        for before in self.receives.iter().flat_map(|receive| &receive.before) {
            waits[*before as usize] += 1;
        }
        if let Some((node, waits)) = self.nodes.iter().zip(&waits).find(|(_, waits)| **waits > MOST)
        {
            let name = &node.name;
            return Err(format!("`{name}` waits for {waits} others, more than {MOST}: group them"));
        }
        let mut uses = vec![0; self.slots as usize];
        let sent = self.sends.iter().filter_map(|send| match send.what {
            Sent::Value(slot) => Some(slot),
            Sent::Done(_) => None,
        });
        let inputs = self.nodes.iter().flat_map(|node| &node.inputs).copied();
        let fetched = self.fetches.iter().map(|(_, slot)| *slot);
        inputs.chain(sent).chain(fetched).for_each(|slot| uses[slot.0 as usize] += 1);
        match uses.iter().position(|uses| *uses > MOST) {
            Some(slot) => Err(format!(
                "a value of {} is used {} times, more than {MOST}: make copies by `identity`",
                self.giver(slot as u32),
                uses[slot]
            )),
            None => Ok(()),
        }
    }

    /// What gives the value in `slot`, in words.
    fn giver(&self, slot: u32) -> String {
        let gives =
            |node: &&Node| (0..node.outputs).contains(&slot.wrapping_sub(node.first_output.0));
        let node = self.nodes.iter().find(gives);
        node.map_or_else(
            || "another task, or of a feed".to_owned(),
            |node| format!("`{}`", node.name),
        )
    }

    fn check_node(&self, index: u32, node: &Node, checked: &mut Checked) -> Result<(), String> {
        let name = &node.name;
        node.inputs.iter().try_for_each(|slot| checked.take(name, *slot))?;
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
        let mut touched = BTreeSet::new();
        if !node.variables.iter().all(|variable| touched.insert(variable)) {
            return Err(format!("`{name}` touches a variable twice"));
        }
        if let Some((replica, needs_cancel)) = replica(&node.op) {
            check_replica(replica, needs_cancel).map_err(|why| format!("`{name}`: {why}"))?;
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
    /// It has a source.
    There,
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
        match std::mem::replace(self.slot(name, slot)?, Value::There) {
            Value::Missing => Ok(()),
            Value::There => {
                Err(format!("`{name}` sets value {}, which another sets as well", slot.0))
            }
        }
    }

    /// Notes that `name` uses the value in `slot`.
    fn take(&mut self, name: &str, slot: ValueSlot) -> Result<(), String> {
        match self.slot(name, slot)? {
            Value::There => Ok(()),
            Value::Missing => {
                Err(format!("`{name}` uses value {}, which nothing before it sets", slot.0))
            }
        }
    }
}

fn outputs(node: &Node) -> Result<Range<u32>, String> {
    let first = node.first_output.0;
    let end = first.checked_add(node.outputs).filter(|_| node.outputs <= MAX_OUTPUTS);
    Ok(first..end.ok_or_else(|| format!("`{}` has too many outputs", node.name))?)
}

/// The replica that an operation is part of the training of, and whether the operation is only for
/// modes that stop late workers.
fn replica(op: &Op) -> Option<(Replica, bool)> {
    match op {
        Op::ApplyGradient { replica, .. } => replica.map(|replica| (replica, false)),
        Op::BeginStep(replica) => Some((*replica, true)),
        Op::CommitStep(replica)
        | Op::Fence(replica)
        | Op::LiftFence(replica)
        | Op::AwaitDepartures(replica) => Some((*replica, false)),
        _ => None,
    }
}

fn check_replica(replica: Replica, needs_cancel: bool) -> Result<(), String> {
    let Replica { worker, workers, mode } = replica;
    if worker >= workers || workers > MAX_WORKERS {
        return Err(format!("worker {worker} of {workers}"));
    }
    mode.check(workers).map_err(|(parameter, problem)| format!("{parameter} {problem}"))?;
    if needs_cancel && !mode.needs().stops_late() {
        return Err(format!("nobody is stopped in the mode {mode}"));
    }
    Ok(())
}

/// The numbers of inputs, variables and outputs of an operation on state, and of those whose
/// outputs are used before their types are inferred. All are checked again then.
fn needs(op: &Op) -> (Range<usize>, Range<usize>, Range<usize>) {
    const ANY: Range<usize> = 0..usize::MAX;
    let exactly = |count: usize| count..count + 1;
    match op {
        Op::ReadVariable => (exactly(0), exactly(1), exactly(2)),
        Op::ResourceGather => (exactly(1), exactly(1), exactly(2)),
        Op::Assign | Op::AssignAdd => (1..3, exactly(1), ANY),
        Op::IsVariableInitialized | Op::AwaitVariable => (exactly(0), exactly(1), ANY),
        Op::ApplyGradient { rule, is_sparse, replica } => {
            let votes = replica.is_some_and(|replica| replica.mode.needs().has_votes());
            let least = 2 + usize::from(*is_sparse) + usize::from(votes);
            (least..usize::MAX, exactly(1 + rule.slots().len()), exactly(0))
        }
        Op::BeginStep(_) => (1..usize::MAX, exactly(1), exactly(0)),
        Op::CommitStep(_) => (1..usize::MAX, 1..usize::MAX, ANY),
        Op::Fence(_) | Op::LiftFence(_) | Op::AwaitDepartures(_) => {
            (exactly(0), exactly(1), exactly(0))
        }
        Op::Const(_) => (exactly(0), exactly(0), exactly(1)),
        // These declare, and are not run.
        Op::Placeholder { .. } | Op::Variable(_) | Op::Resource(_) => {
            (exactly(0), exactly(0), exactly(usize::MAX - 1))
        }
        op if op.elementwise().is_some() => (1..3, exactly(0), exactly(1)),
        _ => (ANY, ANY, ANY),
    }
}
