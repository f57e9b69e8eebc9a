//! A partition made ready to run: each slot's users, each node's inputs to wait for, constants.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::DeviceName;
use crate::graph::{Call, Op};
use crate::operations::Flow;
use crate::partition::{CrossingId, Node, Partition, Sent, ValueSlot};
use crate::sync::Epoch;
use crate::tensor::Tensor;

use crate::runtime::messages::Scope;
use crate::runtime::state::{Bound, VariableId};

/// The most that is sent for a step before it is ordered \[bytes\]. To send more takes longer than
/// the round trip that it saves, and is in vain if another step follows.
const MAX_READ_AHEAD: usize = 1 << 20;

/// A partition, with the tables that its executor looks up at each step.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) partition: Arc<Partition>,
    /// The variables' ids, by position in the partition's `variables`.
    pub(crate) variables: Vec<VariableId>,
    /// The epoch of the task when the partition was made ready.
    pub(crate) epoch: Epoch,
    /// The session, if its state is its own.
    pub(crate) scope: Option<Scope>,
    pub(crate) nodes: Vec<NodePlan>,
    /// By slot: the nodes that take it as input, once for each time.
    pub(crate) users: Vec<SmallVec<[u32; 2]>>,
    /// By slot: the sends of its value.
    pub(crate) sends_of_slot: Vec<SmallVec<[u32; 1]>>,
    /// By slot: the number of uses before its value can be dropped.
    pub(crate) uses: Vec<u16>,
    /// Constants that wait for nothing, and their values: they have run before a step begins.
    pub(crate) constants: Vec<(u32, Tensor)>,
    /// The crossing edges, ordered, each with the position of its receive.
    receive_of_crossing: Vec<(CrossingId, u32)>,
    /// The number of receives that do not answer the partition's own sends.
    pub(crate) fetches: usize,
    /// The nodes that can run once feeds and constants are there, in order.
    pub(crate) sources: Vec<u32>,
    /// Those of them that read whole variables for other tasks; none if these are too large to be
    /// sent before they are asked for.
    pub(crate) read_first: Vec<u32>,
}

/// An executor's table for one node.
#[derive(Debug)]
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
    /// What runs it.
    pub(crate) runs: Runs,
}

/// What runs a node.
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

impl Plan {
    /// Makes `partition` ready with its bound variables; in `scope`, if its session's state is its
    /// own.
    pub(crate) fn new(
        partition: Arc<Partition>,
        Bound { variables, epoch }: Bound,
        scope: Option<Scope>,
    ) -> Self {
        let slots = partition.slots as usize;
        let mut plan = Self {
            nodes: NodePlan::all(&partition),
            users: vec![SmallVec::new(); slots],
            sends_of_slot: vec![SmallVec::new(); slots],
            uses: vec![0; slots],
            constants: Vec::new(),
            receive_of_crossing: Vec::new(),
            fetches: partition.receives.iter().filter(|receive| !receive.is_answer).count(),
            sources: Vec::new(),
            read_first: Vec::new(),
            variables,
            epoch,
            scope,
            partition: Arc::clone(&partition),
        };
        plan.index_nodes(&partition.nodes);
        plan.index_edges(&partition);
        plan.index_chains(&partition.nodes);
        plan.find_sources(&partition.nodes);
        plan.find_first_reads();
        plan
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
            self.receive_of_crossing.push((receive.crossing, index));
            for node in &receive.before {
                self.nodes[*node as usize].pending += 1;
            }
        }
        self.receive_of_crossing.sort_unstable();
        for (plan, node) in self.nodes.iter_mut().zip(&partition.nodes) {
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

    fn find_first_reads(&mut self) {
        let is_read = |node: &u32| {
            let node = self.node(*node);
            matches!(node.op, Op::ReadVariable) && self.is_used(node.first_output)
        };
        let reads: Vec<u32> = self.sources.iter().copied().filter(is_read).collect();
        let size_sent = |node: &u32| {
            let node = self.node(*node);
            let variable = &self.partition.variables[node.variables[0] as usize];
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

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.partition.nodes[node as usize]
    }

    /// Whether anything in the step needs the value in `slot`.
    pub(crate) fn is_used(&self, slot: ValueSlot) -> bool {
        self.uses[slot.0 as usize] > 0
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

/// The slots of a node's outputs, in order.
pub(crate) fn slots_of(node: &Node) -> impl Iterator<Item = ValueSlot> + use<> {
    (node.first_output.0..node.first_output.0 + node.outputs).map(ValueSlot)
}
