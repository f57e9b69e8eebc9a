//! The tables of a plan: who takes each slot's value, what each node waits for, which constants
//! there are. They name no task, so that equal partitions of many workers share them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::cluster::DeviceName;
use crate::graph::{Call, Known, Op, TensorType, VariableSpec};
use crate::kernels::{Cost, KernelKind};
use crate::operations::Flow;
use crate::partition::{CrossingId, Node, Partition, Sent, ValueSlot};
use crate::tensor::{DType, Shape, Tensor};

use super::slots_of;

/// The most that is sent for a step before it is ordered \[bytes\]. To send more takes longer than
/// the round trip that it saves, and is in vain if another step follows.
const MAX_READ_AHEAD: usize = 1 << 20;

/// The tables that an executor reads at each step.
#[derive(Debug, PartialEq)]
pub(crate) struct Tables {
    /// The partition's nodes.
    pub(crate) operations: Arc<Vec<Node>>,
    pub(crate) nodes: Vec<NodePlan>,
    /// The types of the partition's variables.
    pub(crate) variables: Vec<TensorType>,
    /// By slot: the nodes that take it as input, once for each time.
    pub(crate) users: Vec<SmallVec<[u32; 2]>>,
    /// By slot: the sends of its value.
    pub(crate) sends_of_slot: Vec<SmallVec<[u32; 1]>>,
    /// By slot: the number of uses before its value can be dropped.
    pub(crate) uses: Vec<u16>,
    /// Constants that wait for nothing, and their values: they have run before a step begins.
    pub(crate) constants: Vec<(u32, Tensor)>,
    /// By position: what each receive brings.
    pub(crate) receives: Vec<ReceivePlan>,
    /// The crossing edges, ordered, each with the position of its receive.
    receive_of_crossing: Vec<(CrossingId, u32)>,
    /// The number of receives that do not answer the partition's own sends.
    pub(crate) fetches: usize,
    /// The nodes that can run once feeds and constants are there, in order.
    pub(crate) sources: Vec<u32>,
    /// Those of them that read whole variables for other tasks; none if these are too large to be
    /// sent before they are asked for.
    pub(crate) read_first: Vec<u32>,
    inferred: SharedInferred,
}

/// An executor's table for one node.
#[derive(Debug, PartialEq)]
pub(crate) struct NodePlan {
    /// The number of inputs and control edges it waits for at the beginning of a step.
    pub(crate) pending: u16,
    /// The nodes that wait until it has run.
    pub(crate) before: SmallVec<[u32; 2]>,
    /// The sends that tell other tasks that it has run.
    pub(crate) done_sends: SmallVec<[u32; 1]>,
    /// Whether one of its outputs is sent to another task.
    pub(crate) feeds_send: bool,
    /// The input through which it can go on with a chain of elementwise operations, and the node
    /// that gives it. That node can be part of a chain too, and nobody else needs its output.
    pub(crate) chained: Option<(usize, u32)>,
    /// The part of the task that runs it.
    pub(crate) runs: Runs,
}

/// An executor's table for one receive.
#[derive(Debug, PartialEq)]
pub(crate) struct ReceivePlan {
    /// The slot of the value; none for a control edge.
    pub(crate) slot: Option<ValueSlot>,
    /// The nodes that wait for a control edge, if it is one.
    pub(crate) before: SmallVec<[u32; 2]>,
    /// Whether it answers what the partition has sent.
    pub(crate) is_answer: bool,
}

/// The part of a task that runs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Nothing: its value is known. If it waits for something, its value is put out only then.
    Constant,
    /// A kernel of the device.
    Kernel,
    /// The parameter server.
    State,
    /// Steps of the task's own master: a condition or a loop, of which a part is elsewhere.
    Steps,
}

/// The last inference for a node: the types of its outputs and its cost, for these input types.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(crate) inputs: SmallVec<[Known; 3]>,
    /// `None` if the shapes depend on the inputs' values, so that only the kernel can tell them.
    pub(crate) outputs: Option<SmallVec<[Known; 2]>>,
    pub(crate) cost: Cost,
    pub(crate) kind: KernelKind,
}

/// The memos of an executor's nodes. Executors with equal tables share them, one at a time.
#[derive(Debug)]
pub(crate) struct Inferred {
    /// By node: its last memo. Kept from step to step, since shapes seldom change.
    pub(crate) memos: Vec<Option<Memo>>,
    /// By slot: the type of the value that the batch which is being put together will give.
    pub(crate) types: Vec<Known>,
}

#[derive(Debug)]
struct SharedInferred(Mutex<Inferred>);

impl PartialEq for SharedInferred {
    /// It follows from the nodes, so it never tells tables apart.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Tables {
    /// The tables of `partition`.
    pub(super) fn new(partition: &Partition) -> Self {
        let slots = partition.slots as usize;
        let mut tables = Self {
            operations: Arc::clone(&partition.nodes),
            nodes: NodePlan::all(partition),
            variables: partition.variables.iter().map(VariableSpec::tensor_type).collect(),
            users: vec![SmallVec::new(); slots],
            sends_of_slot: vec![SmallVec::new(); slots],
            uses: vec![0; slots],
            constants: Vec::new(),
            receives: Vec::new(),
            receive_of_crossing: Vec::new(),
            fetches: partition.receives.iter().filter(|receive| !receive.is_answer).count(),
            sources: Vec::new(),
            read_first: Vec::new(),
            inferred: SharedInferred::new(partition.nodes.len(), slots),
        };
        tables.index_nodes(&partition.nodes);
        tables.index_edges(partition);
        tables.index_chains(&partition.nodes);
        tables.find_sources(&partition.nodes);
        tables.find_first_reads(partition);
        tables
    }

    /// A number that equal tables have in common, and others seldom.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.operations.iter().for_each(|node| node.name.hash(&mut hasher));
        (self.uses.as_slice(), self.sources.as_slice()).hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn inferred(&self) -> MutexGuard<'_, Inferred> {
        self.inferred.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index_nodes(&mut self, nodes: &[Node]) {
        for (index, node) in (0u32..).zip(nodes) {
            for input in &node.inputs {
                self.users[input.0 as usize].push(index);
                self.uses[input.0 as usize] += 1;
            }
            for before in &node.after {
                self.nodes[*before as usize].before.push(index);
            }
        }
    }

    fn index_edges(&mut self, partition: &Partition) {
        for (index, send) in (0u32..).zip(&partition.sends) {
            match send.what {
                Sent::Value(slot) => {
                    self.sends_of_slot[slot.0 as usize].push(index);
                    self.uses[slot.0 as usize] += 1;
                }
                Sent::Done(node) => self.nodes[node as usize].done_sends.push(index),
            }
        }
        for (_, slot) in &partition.fetches {
            self.uses[slot.0 as usize] += 1;
        }
        for (index, receive) in (0u32..).zip(&partition.receives) {
            let (slot, is_answer) = (receive.slot, receive.is_answer);
            let before = receive.before.clone();
            self.receives.push(ReceivePlan { slot, before, is_answer });
            self.receive_of_crossing.push((receive.crossing, index));
            for node in &receive.before {
                self.nodes[*node as usize].pending += 1;
            }
        }
        self.receive_of_crossing.sort_unstable();
        for (plan, node) in self.nodes.iter_mut().zip(partition.nodes.iter()) {
            plan.feeds_send =
                slots_of(node).any(|slot| !self.sends_of_slot[slot.0 as usize].is_empty());
        }
    }

    fn index_chains(&mut self, nodes: &[Node]) {
        let mut givers = vec![None; self.uses.len()];
        for (index, node) in (0u32..).zip(nodes).filter(|(_, node)| node.op.elementwise().is_some())
        {
            let only_here = |slot: &ValueSlot| self.uses[slot.0 as usize] == 1;
            let giver = |(at, slot): (usize, &ValueSlot)| {
                Some((at, givers[slot.0 as usize].filter(|_| only_here(slot))?))
            };
            self.nodes[index as usize].chained = node.inputs.iter().enumerate().find_map(giver);
            givers[node.first_output.0 as usize] = Some(index);
        }
    }

    fn find_sources(&mut self, nodes: &[Node]) {
        for (index, node) in (0u32..).zip(nodes) {
            if self.nodes[index as usize].pending > 0 {
                continue;
            }
            match &node.op {
                Op::Const(value) => self.constants.push((index, value.clone())),
                _ => self.sources.push(index),
            }
        }
    }

    fn find_first_reads(&mut self, partition: &Partition) {
        let node = |node: &u32| &partition.nodes[*node as usize];
        let is_read = |one: &u32| {
            let node = node(one);
            matches!(node.op, Op::ReadVariable) && self.uses[node.first_output.0 as usize] > 0
        };
        let reads: Vec<u32> = self.sources.iter().copied().filter(is_read).collect();
        let size_sent = |one: &u32| {
            let node = node(one);
            let variable = &partition.variables[node.variables[0] as usize];
            let sends = &self.sends_of_slot[node.first_output.0 as usize];
            variable.dtype.size() * variable.shape.elements() * sends.len()
        };
        if (1..=MAX_READ_AHEAD).contains(&reads.iter().map(size_sent).sum()) {
            self.read_first = reads;
        }
    }

    /// The position of the receive of a crossing edge.
    pub(crate) fn receive_of(&self, crossing: CrossingId) -> Option<u32> {
        let found = self.receive_of_crossing.binary_search_by_key(&crossing, |(one, _)| *one);
        found.ok().map(|at| self.receive_of_crossing[at].1)
    }
}

impl SharedInferred {
    fn new(nodes: usize, slots: usize) -> Self {
        let types = vec![(DType::F32, Shape::SCALAR); slots];
        Self(Mutex::new(Inferred { memos: vec![None; nodes], types }))
    }
}

impl NodePlan {
    fn all(partition: &Partition) -> Vec<Self> {
        let device = partition.device_name();
        partition.nodes.iter().map(|node| Self::new(node, &device)).collect()
    }

    fn new(node: &Node, device: &DeviceName) -> Self {
        Self {
            pending: (node.inputs.len() + node.after.len()) as u16,
            before: SmallVec::new(),
            done_sends: SmallVec::new(),
            feeds_send: false,
            chained: None,
            runs: Runs::of(&node.op, device),
        }
    }
}

impl Runs {
    fn of(op: &Op, device: &DeviceName) -> Self {
        let is_elsewhere = |call: &Call| !call.device.matches(device);
        match op {
            Op::Const(_) => Self::Constant,
            op if op.is_stateful() => Self::State,
            op if Flow::of(op).is_some_and(|flow| flow.has(&is_elsewhere)) => Self::Steps,
            _ => Self::Kernel,
        }
    }
}
