//! A placed graph, cut into one partition a device, with a send and a receive wherever an edge
//! crosses.
//!
//! Each crossing edge has one send for each task it goes to, however many users it has there, and a
//! receive on each of that task's devices with such a user: what several devices of a task need
//! crosses the network once. A control edge that crosses carries nothing.
//! (TensorFlow: `graph_partition.cc`, which cuts twice: by task in the master, by device in the
//! worker.)

mod check;
mod cut;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cluster::TaskName;
use crate::graph::{Edge, Op, OpId, Replica, VariableSpec};

pub(crate) use cut::split;

/// The place of a value within a partition: an output of a node, a feed, or what a receive brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u32);

/// An edge of a cut graph that crosses to a task, or between its devices: the same number on both
/// sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrossingId(pub u32);

/// What one device of a task runs of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// The task.
    pub task: TaskName,
    /// Which of the task's devices: `/device:CPU:` this.
    pub device: u32,
    /// Its operations, in an order in which they could run.
    pub nodes: Vec<Node>,
    /// How many slots the values need.
    pub slots: u32,
    /// The variables that the nodes touch, each once.
    pub variables: Vec<VariableSpec>,
    /// What the client feeds: which of the step's feeds, and where it goes.
    pub feeds: Vec<(u32, Slot)>,
    /// What the client fetches: which of the step's fetches, and where it is.
    pub fetches: Vec<(u32, Slot)>,
    /// What is sent to other devices.
    pub sends: Vec<Send>,
    /// What comes from other devices.
    pub receives: Vec<Receive>,
}

impl Partition {
    /// The replicas whose training steps it is a part of, each once.
    pub(crate) fn replicas(&self) -> Vec<Replica> {
        let mut replicas: Vec<Replica> = Vec::new();
        for node in &self.nodes {
            let (Op::ApplyGradient { replica: Some(replica), .. }
            | Op::Vote(replica)
            | Op::CommitStep(replica)) = &node.op
            else {
                continue;
            };
            if !replicas.contains(replica) {
                replicas.push(*replica);
            }
        }
        replicas
    }
}

/// One operation of a partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The operation's name in the graph.
    pub name: Arc<str>,
    /// What it does.
    pub op: Op,
    /// Where its inputs are.
    pub inputs: SmallVec<[Slot; 3]>,
    /// The first of its outputs' slots; the others follow.
    pub first_output: Slot,
    /// How many outputs it has.
    pub outputs: u32,
    /// The nodes of this partition that must have run before it.
    pub after: SmallVec<[u32; 2]>,
    /// Positions in the partition's `variables`.
    pub variables: SmallVec<[u32; 2]>,
}

/// A value, or the news that a node has run, on its way to another task, or to other devices of its
/// own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Send {
    /// Which crossing edge.
    pub crossing: CrossingId,
    /// What is sent.
    pub what: Sent,
    /// To which task.
    pub to: TaskName,
    /// To which devices there.
    pub devices: SmallVec<[u32; 1]>,
    /// The edge's name, for errors: `x/read` or `^update`.
    pub name: Arc<str>,
}

/// What a send sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    /// The value in a slot.
    Value(Slot),
    /// That a node has run.
    Done(u32),
}

/// A value, or the news that a node has run, from another device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Receive {
    /// Which crossing edge.
    pub crossing: CrossingId,
    /// Where the value goes; none for a control edge.
    pub slot: Option<Slot>,
    /// The nodes that wait for a control edge.
    pub before: SmallVec<[u32; 2]>,
    /// From which task.
    pub from: TaskName,
    /// The edge's name, for errors.
    pub name: Arc<str>,
}

/// What a client asks of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The edges that it feeds.
    pub feeds: Vec<Edge>,
    /// The edges that it fetches.
    pub fetches: Vec<Edge>,
    /// The operations that it wants run.
    pub targets: Vec<OpId>,
}
