//! A placed graph, cut into one partition a task, with a send and a receive wherever an edge crosses.
//!
//! Each crossing edge has one pair for each task it goes to, however many users it has there. A
//! control edge that crosses is a pair that carries nothing.
//! (TensorFlow: `graph_partition.cc`, which cuts twice: by task in the master, by device in the worker.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::TaskName;
use crate::graph::{Edge, GraphDef, Op, OpId, VariableSpec};

/// The place of a value within a partition: an output of a node, a feed, or what a receive brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// An edge of a cut graph that crosses between tasks: the same number on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CrossingId(pub u32);

/// What one task runs of a step.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The task.
    pub task: TaskName,
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
    /// What is sent to other tasks.
    pub sends: Vec<Send>,
    /// What comes from other tasks.
    pub receives: Vec<Receive>,
}

/// One operation of a partition.
#[derive(Clone, Debug)]
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

/// A value, or the news that a node has run, on its way to another task.
#[derive(Clone, Debug)]
pub struct Send {
    /// Which crossing edge.
    pub crossing: CrossingId,
    /// What is sent.
    pub what: Sent,
    /// To which task.
    pub to: TaskName,
    /// The edge's name, for errors: `x/read` or `^update`.
    pub name: Arc<str>,
}

/// What a send sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The value in a slot.
    Value(Slot),
    /// That a node has run.
    Done(u32),
}

/// A value, or the news that a node has run, from another task.
#[derive(Clone, Debug)]
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

/// Cuts the operations `pruned` of `graph`, placed by `task_of`, into one partition a task.
///
/// A fetch of a fed edge is no partition's: the client has it.
pub(crate) fn split<'a>(
    graph: &GraphDef,
    pruned: &[OpId],
    task_of: impl Fn(OpId) -> &'a TaskName,
    request: &Request,
) -> Vec<Partition> {
    let fed: BTreeMap<Edge, u32> = request.feeds.iter().zip(0..).map(|(edge, i)| (*edge, i)).collect();
    let mut cut = Cut { graph, fed, task_of, parts: BTreeMap::new(), crossings: 0 };
    for id in pruned {
        cut.add(*id);
    }
    for (fetch, edge) in (0u32..).zip(&request.fetches) {
        if !cut.fed.contains_key(edge) {
            let part = cut.part((cut.task_of)(edge.op));
            let slot = part.values[edge];
            part.partition.fetches.push((fetch, slot));
        }
    }
    cut.parts.into_values().map(|part| part.partition).collect()
}

struct Cut<'a, F> {
    graph: &'a GraphDef,
    fed: BTreeMap<Edge, u32>,
    task_of: F,
    parts: BTreeMap<TaskName, Part>,
    crossings: u32,
}

/// A partition in the making: where what of the graph is in it.
struct Part {
    partition: Partition,
    values: BTreeMap<Edge, Slot>,
    nodes: BTreeMap<OpId, u32>,
    /// The receive of each control edge that came from another task.
    control_receives: BTreeMap<OpId, usize>,
    variables: BTreeMap<OpId, u32>,
}

impl<'a, F: Fn(OpId) -> &'a TaskName> Cut<'_, F> {
    fn part(&mut self, task: &TaskName) -> &mut Part {
        self.parts.entry(task.clone()).or_insert_with(|| Part::new(task.clone()))
    }

    fn add(&mut self, id: OpId) {
        let (graph, task) = (self.graph, (self.task_of)(id));
        let operation = graph.operation(id);
        if matches!(operation.op, Op::Variable(_)) {
            return;
        }
        let inputs = operation.inputs.iter().map(|edge| self.value(*edge, task)).collect();
        let mut after: SmallVec<[u32; 2]> = SmallVec::new();
        let mut awaited: SmallVec<[usize; 2]> = SmallVec::new();
        let controls: BTreeSet<OpId> = operation.control_inputs.iter().copied().collect();
        for control in controls {
            match self.control(control, task) {
                Control::Node(node) => after.push(node),
                Control::Receive(receive) => awaited.push(receive),
            }
        }
        let part = self.part(task);
        let variables = operation.variables.iter().map(|variable| part.variable(graph, *variable)).collect();
        let node = part.partition.nodes.len() as u32;
        let first_output = part.new_slots(operation.outputs.len() as u32);
        for output in 0..operation.outputs.len() as u32 {
            part.values.insert(Edge { op: id, output }, Slot(first_output.0 + output));
        }
        for receive in awaited {
            part.partition.receives[receive].before.push(node);
        }
        part.nodes.insert(id, node);
        part.partition.nodes.push(Node {
            name: Arc::clone(&operation.name),
            op: operation.op.clone(),
            inputs,
            first_output,
            outputs: operation.outputs.len() as u32,
            after,
            variables,
        });
    }

    /// The slot of `edge` in the partition of `task`, fed, received or computed there.
    fn value(&mut self, edge: Edge, task: &TaskName) -> Slot {
        let feed = self.fed.get(&edge).copied();
        let part = self.part(task);
        if let (Some(feed), fed_slot) = (feed, part.fed_slot(edge)) {
            return fed_slot.unwrap_or_else(|| {
                let slot = part.new_slots(1);
                part.partition.feeds.push((feed, slot));
                part.values.insert(edge, slot);
                slot
            });
        }
        if let Some(slot) = part.values.get(&edge) {
            return *slot;
        }
        let slot = part.new_slots(1);
        part.values.insert(edge, slot);
        let source = (self.task_of)(edge.op);
        assert_ne!(source, task, "inputs are added before their users");
        let sent = self.parts[source].values[&edge];
        let name = edge_name(self.graph, edge);
        self.cross(source, task, Sent::Value(sent), Some(slot), name);
        slot
    }

    /// What a node on `task` waits for so that operation `id` has run.
    fn control(&mut self, id: OpId, task: &TaskName) -> Control {
        let source = (self.task_of)(id);
        if source == task {
            return Control::Node(self.parts[task].nodes[&id]);
        }
        if let Some(receive) = self.part(task).control_receives.get(&id) {
            return Control::Receive(*receive);
        }
        let node = self.parts[source].nodes[&id];
        let name = format!("^{}", self.graph.operation(id).name).into();
        let receive = self.cross(source, task, Sent::Done(node), None, name);
        self.part(task).control_receives.insert(id, receive);
        Control::Receive(receive)
    }

    /// Adds a send to `from` and its receive to `to`; returns the position of the receive.
    fn cross(&mut self, from: &TaskName, to: &TaskName, what: Sent, slot: Option<Slot>, name: Arc<str>) -> usize {
        let crossing = CrossingId(self.crossings);
        self.crossings += 1;
        let send = Send { crossing, what, to: to.clone(), name: Arc::clone(&name) };
        self.part(from).partition.sends.push(send);
        let receives = &mut self.part(to).partition.receives;
        receives.push(Receive { crossing, slot, before: SmallVec::new(), from: from.clone(), name });
        receives.len() - 1
    }
}

enum Control {
    Node(u32),
    Receive(usize),
}

impl Part {
    fn new(task: TaskName) -> Self {
        Self {
            partition: Partition {
                task,
                nodes: Vec::new(),
                slots: 0,
                variables: Vec::new(),
                feeds: Vec::new(),
                fetches: Vec::new(),
                sends: Vec::new(),
                receives: Vec::new(),
            },
            values: BTreeMap::new(),
            nodes: BTreeMap::new(),
            control_receives: BTreeMap::new(),
            variables: BTreeMap::new(),
        }
    }

    fn new_slots(&mut self, count: u32) -> Slot {
        let first = self.partition.slots;
        self.partition.slots += count;
        Slot(first)
    }

    fn fed_slot(&self, edge: Edge) -> Option<Slot> {
        let slot = self.values.get(&edge)?;
        self.partition.feeds.iter().any(|(_, fed)| fed == slot).then_some(*slot)
    }

    fn variable(&mut self, graph: &GraphDef, id: OpId) -> u32 {
        *self.variables.entry(id).or_insert_with(|| {
            let spec = graph.variable(id).expect("only variables are touched as variables");
            self.partition.variables.push(spec.clone());
            self.partition.variables.len() as u32 - 1
        })
    }
}

fn edge_name(graph: &GraphDef, edge: Edge) -> Arc<str> {
    let name = &graph.operation(edge.op).name;
    if edge.output == 0 { Arc::clone(name) } else { format!("{name}:{}", edge.output).into() }
}
