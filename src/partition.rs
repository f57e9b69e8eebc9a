//! Partitions: a placed graph, cut by device, with a send and a receive for each edge that crosses.
//!
//! A crossing edge has one send to each task with a user of its value, and a receive on each device
//! with such a user, so that a value crosses the network once even if several devices of a task
//! need it. A crossing control edge carries no value. (TensorFlow: `graph_partition.cc`, which cuts
//! twice: by task in the master, by device in the worker.)

mod check;
mod cut;
mod lineage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cluster::{DeviceName, LocalDevice, TaskName};
use crate::graph::{Edge, Op, OpId, Replica, VariableSpec};

pub(crate) use cut::split;

/// The place of a value in a partition: of a node's output, a feed or a received value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueSlot(pub u32);

/// The number of a crossing edge, the same in the send and in the receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrossingId(pub u32);

/// The part of a step that one device of a task runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// The task.
    pub task: TaskName,
    /// The device among those of the task.
    pub device: LocalDevice,
    /// Its operations, each after those that it depends on.
    pub nodes: Arc<Vec<Node>>,
    /// The number of slots.
    pub slots: u32,
    /// The variables that the nodes use, each once.
    pub variables: Vec<VariableSpec>,
    /// The feeds: the index among the step's feeds, and the slot.
    pub feeds: Vec<(u32, ValueSlot)>,
    /// The fetches: the index among the step's fetches, and the slot.
    pub fetches: Vec<(u32, ValueSlot)>,
    /// The values sent to other devices.
    pub sends: Vec<Send>,
    /// The values received from other devices.
    pub receives: Vec<Receive>,
}

impl Partition {
    /// No operations, on device `device` of `task`.
    pub fn empty(task: TaskName, device: LocalDevice) -> Self {
        Self {
            task,
            device,
            nodes: Arc::default(),
            slots: 0,
            variables: Vec::new(),
            feeds: Vec::new(),
            fetches: Vec::new(),
            sends: Vec::new(),
            receives: Vec::new(),
        }
    }

    /// The full name of the device.
    pub(crate) fn device_name(&self) -> DeviceName {
        DeviceName::new(self.task.clone(), self.device)
    }

    /// The replicas whose training operations it has, each once.
    pub(crate) fn replicas(&self) -> Vec<Replica> {
        self.first_replicas(usize::MAX)
    }

    /// The first `most` of the replicas whose training operations it has, each once.
    fn first_replicas(&self, most: usize) -> Vec<Replica> {
        let mut replicas: Vec<Replica> = Vec::new();
        // A worker has one replica, or two where it trains a copy of its own as well.
        let mut of_worker: BTreeMap<u32, SmallVec<[Replica; 2]>> = BTreeMap::new();
        for node in self.nodes.iter() {
            let (Op::ApplyGradient { replica: Some(replica), .. }
            | Op::BeginStep(replica)
            | Op::CommitStep(replica)) = &node.op
            else {
                continue;
            };
            let known = of_worker.entry(replica.worker).or_default();
            if known.contains(replica) {
                continue;
            }
            if replicas.len() >= most {
                break;
            }
            known.push(*replica);
            replicas.push(*replica);
        }
        replicas
    }

    /// Takes the worker out of its training operations, which then name worker 0: the partitions of
    /// two workers are equal without it. If the operations are of several workers, or there are
    /// none, nothing changes, and there is no worker to return.
    pub(crate) fn take_worker(&mut self) -> Option<u32> {
        let [Replica { worker, .. }] = *self.replicas() else { return None };
        for node in Arc::make_mut(&mut self.nodes) {
            if let Op::ApplyGradient { replica: Some(replica), .. }
            | Op::BeginStep(replica)
            | Op::CommitStep(replica) = &mut node.op
            {
                replica.worker = 0;
            }
        }
        Some(worker)
    }

    /// Whether it counts training steps: its task has the global step.
    pub(crate) fn counts_steps(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.op, Op::CommitStep(_)))
    }
}

/// One operation of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The operation's name in the graph.
    pub name: Arc<str>,
    /// The operation.
    pub op: Op,
    /// The slots of its inputs.
    pub inputs: SmallVec<[ValueSlot; 3]>,
    /// The slot of its first output; the others follow.
    pub first_output: ValueSlot,
    /// The number of its outputs.
    pub outputs: u32,
    /// The nodes of this partition that must have run before it.
    pub after: SmallVec<[u32; 2]>,
    /// The variables that it uses, as indices into the partition's `variables`.
    pub variables: SmallVec<[u32; 2]>,
}

/// A send: of a value, or of the fact that a node has run, to devices of another task or of the
/// same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Send {
    /// The crossing edge.
    pub crossing: CrossingId,
    /// The content.
    pub what: Sent,
    /// The receiving task.
    pub to: TaskName,
    /// The receiving devices of that task.
    pub devices: SmallVec<[LocalDevice; 1]>,
    /// The edge's name, for errors: `x/read` or `^update`.
    pub name: Arc<str>,
}

/// The content of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    /// The value in a slot.
    Value(ValueSlot),
    /// The fact that a node has run.
    Done(u32),
}

/// A receive: of a value, or of the fact that a node has run, from another device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Receive {
    /// Which crossing edge.
    pub crossing: CrossingId,
    /// The slot of the value; none for a control edge.
    pub slot: Option<ValueSlot>,
    /// The nodes that wait for a control edge, if it is one.
    pub before: SmallVec<[u32; 2]>,
    /// Whether the value depends on an operation of this partition, so that it answers what the
    /// partition has sent; or comes from one that needs something of this one first. What is no
    /// answer is there before the partition computes anything.
    pub is_answer: bool,
    /// The sending task.
    pub from: TaskName,
    /// The edge's name, for errors.
    pub name: Arc<str>,
}

/// The feeds, fetches and targets of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// The edges that are fed.
    pub feeds: Vec<Edge>,
    /// The edges that are fetched.
    pub fetches: Vec<Edge>,
    /// The operations that are run for their effects.
    pub targets: Vec<OpId>,
}
