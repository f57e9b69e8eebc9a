//! The cut: goes through the operations in order and gives each what it needs in its task's partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{CrossingId, Node, Partition, Receive, Request, Send, Sent, Slot};
use crate::cluster::TaskName;
use crate::graph::{Edge, GraphDef, Op, OpId};

/// Cuts the operations `pruned` of `graph`, placed by `task_of`, into one partition a task.
///
/// A fetch of a fed edge is no partition's: the client has it. To wait for a variable's declaration, or
/// for a placeholder, which is fed, is to wait for nothing.
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
    /// Which of the step's feeds an edge is.
    fed: BTreeMap<Edge, u32>,
    task_of: F,
    parts: BTreeMap<TaskName, Part>,
    crossings: u32,
}

/// A partition in the making: where what of the graph is in it.
struct Part {
    partition: Partition,
    /// What is computed here or received.
    values: BTreeMap<Edge, Slot>,
    /// What the client feeds, also where an operation here gives that value, too.
    fed: BTreeMap<Edge, Slot>,
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
        if operation.op.is_declaration() {
            return;
        }
        let inputs = operation.inputs.iter().map(|edge| self.value(*edge, task)).collect();
        let mut after: SmallVec<[u32; 2]> = SmallVec::new();
        let mut awaited: SmallVec<[usize; 2]> = SmallVec::new();
        let waits = |id: &OpId| {
            let op = &graph.operation(*id).op;
            !op.is_declaration() && !matches!(op, Op::Placeholder { .. })
        };
        let controls: BTreeSet<OpId> = operation.control_inputs.iter().copied().filter(waits).collect();
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
        if let Some(feed) = self.fed.get(&edge) {
            let feed = *feed;
            return self.part(task).feed(edge, feed);
        }
        let part = self.part(task);
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
            fed: BTreeMap::new(),
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

    fn feed(&mut self, edge: Edge, feed: u32) -> Slot {
        if let Some(slot) = self.fed.get(&edge) {
            return *slot;
        }
        let slot = self.new_slots(1);
        self.partition.feeds.push((feed, slot));
        self.fed.insert(edge, slot);
        slot
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
