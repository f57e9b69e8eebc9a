//! The cut: adds each operation, in order, to the partition of its device, with sends and receives
//! for its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::lineage::{Lineage, Waits};
use super::{CrossingId, Node, Partition, Receive, Request, Send, Sent, ValueSlot};
use crate::cluster::{DeviceName, TaskName};
use crate::graph::{Edge, GraphDef, Op, OpId};

/// Cuts the operations `pruned` of `graph`, placed by `device_of`, into one partition a device.
///
/// A fetch of a fed edge is in no partition: the client has the value. Variables' declarations and
/// placeholders do nothing, so control edges from them are dropped.
pub(crate) fn split<'a>(
    graph: &GraphDef,
    pruned: &[OpId],
    device_of: impl Fn(OpId) -> &'a DeviceName,
    request: &Request,
) -> Vec<Partition> {
    let fed: BTreeMap<Edge, u32> =
        request.feeds.iter().zip(0..).map(|(edge, i)| (*edge, i)).collect();
    let mut cut = Cut {
        graph,
        fed,
        device_of,
        lineage: Lineage::default(),
        waits: Waits::default(),
        parts: BTreeMap::new(),
        sends: BTreeMap::new(),
        crossings: 0,
    };
    for id in pruned {
        cut.add(*id);
    }
    for (device, receive) in cut.waits.in_circles() {
        cut.part(&device).partition.receives[receive].is_answer = true;
    }
    for (fetch, edge) in (0u32..).zip(&request.fetches) {
        if !cut.fed.contains_key(edge) {
            let part = cut.part((cut.device_of)(edge.op));
            let slot = part.values[edge];
            part.partition.fetches.push((fetch, slot));
        }
    }
    cut.parts.into_values().map(|part| part.partition).collect()
}

struct Cut<'g, 'a, F> {
    graph: &'g GraphDef,
    /// By edge: its index among the step's feeds.
    fed: BTreeMap<Edge, u32>,
    device_of: F,
    lineage: Lineage<'a>,
    waits: Waits,
    parts: BTreeMap<DeviceName, PartitionBuilder>,
    /// By edge and task: the position of the send in the partition that the edge comes from.
    sends: BTreeMap<(Arc<str>, TaskName), usize>,
    crossings: u32,
}

/// A partition that is being built, and the places of the graph's parts in it.
struct PartitionBuilder {
    partition: Partition,
    /// The values that are computed here or received.
    values: BTreeMap<Edge, ValueSlot>,
    /// The values that are fed, even if an operation here computes them as well.
    fed: BTreeMap<Edge, ValueSlot>,
    nodes: BTreeMap<OpId, u32>,
    /// The receive of each control edge that came from another device.
    control_receives: BTreeMap<OpId, usize>,
    variables: BTreeMap<OpId, u32>,
}

impl<'a, F: Fn(OpId) -> &'a DeviceName> Cut<'_, 'a, F> {
    fn part(&mut self, device: &DeviceName) -> &mut PartitionBuilder {
        self.parts.entry(device.clone()).or_insert_with(|| PartitionBuilder::new(device))
    }

    fn add(&mut self, id: OpId) {
        let (graph, device) = (self.graph, (self.device_of)(id));
        let operation = graph.operation(id);
        if operation.op.is_declaration() {
            return;
        }
        let computed = operation.inputs.iter().filter(|edge| !self.fed.contains_key(edge));
        let on = computed.map(|edge| edge.op).chain(operation.control_inputs.iter().copied());
        self.lineage.add(id, device, on);
        let inputs = operation.inputs.iter().map(|edge| self.value(*edge, device)).collect();
        let mut after: SmallVec<[u32; 2]> = SmallVec::new();
        let mut awaited: SmallVec<[usize; 2]> = SmallVec::new();
        let waits = |id: &OpId| {
            let op = &graph.operation(*id).op;
            !op.is_declaration() && !matches!(op, Op::Placeholder { .. })
        };
        let controls: BTreeSet<OpId> =
            operation.control_inputs.iter().copied().filter(waits).collect();
        for control in controls {
            match self.control(control, device) {
                Control::Node(node) => after.push(node),
                Control::Receive(receive) => awaited.push(receive),
            }
        }
        let part = self.part(device);
        let variables =
            operation.variables.iter().map(|variable| part.variable(graph, *variable)).collect();
        let node = part.partition.nodes.len() as u32;
        let first_output = part.new_slots(operation.outputs.len() as u32);
        for output in 0..operation.outputs.len() as u32 {
            part.values.insert(Edge { op: id, output }, ValueSlot(first_output.0 + output));
        }
        for receive in awaited {
            part.partition.receives[receive].before.push(node);
        }
        part.nodes.insert(id, node);
        Arc::make_mut(&mut part.partition.nodes).push(Node {
            name: Arc::clone(&operation.name),
            op: operation.op.clone(),
            inputs,
            first_output,
            outputs: operation.outputs.len() as u32,
            after,
            variables,
        });
    }

    /// The slot of `edge` in the partition of `device`: fed, received or computed there.
    fn value(&mut self, edge: Edge, device: &DeviceName) -> ValueSlot {
        if let Some(feed) = self.fed.get(&edge) {
            let feed = *feed;
            return self.part(device).feed(edge, feed);
        }
        let part = self.part(device);
        if let Some(slot) = part.values.get(&edge) {
            return *slot;
        }
        let slot = part.new_slots(1);
        part.values.insert(edge, slot);
        let source = (self.device_of)(edge.op);
        assert_ne!(source, device, "inputs are added before their users");
        let sent = self.parts[source].values[&edge];
        let name = edge_name(self.graph, edge);
        let receive = self.cross(source, device, Sent::Value(sent), Some(slot), name);
        self.note_answer(edge.op, source, device, receive);
        slot
    }

    /// Notes whether what `device` receives of the operation `id` answers what it has sent.
    fn note_answer(&mut self, id: OpId, from: &DeviceName, device: &DeviceName, receive: usize) {
        let is_answer = self.lineage.depends_on(id, device);
        self.part(device).partition.receives[receive].is_answer = is_answer;
        // What is read is sent without any computing.
        if !is_answer && !matches!(self.graph.operation(id).op, Op::ReadVariable) {
            self.waits.add(device, from, receive);
        }
    }

    /// Makes a node on `device` wait for operation `id`.
    fn control(&mut self, id: OpId, device: &DeviceName) -> Control {
        let source = (self.device_of)(id);
        if source == device {
            return Control::Node(self.parts[device].nodes[&id]);
        }
        if let Some(receive) = self.part(device).control_receives.get(&id) {
            return Control::Receive(*receive);
        }
        let node = self.parts[source].nodes[&id];
        let name = format!("^{}", self.graph.operation(id).name).into();
        let receive = self.cross(source, device, Sent::Done(node), None, name);
        self.note_answer(id, source, device, receive);
        self.part(device).control_receives.insert(id, receive);
        Control::Receive(receive)
    }

    /// Adds a receive to `to`, and a send to `from` unless one goes to that task already. Returns
    /// the position of the receive.
    fn cross(
        &mut self,
        from: &DeviceName,
        to: &DeviceName,
        what: Sent,
        slot: Option<ValueSlot>,
        name: Arc<str>,
    ) -> usize {
        let key = (Arc::clone(&name), to.task().clone());
        let send = match self.sends.get(&key) {
            Some(send) => *send,
            None => {
                let send = self.send(from, to.task(), what, Arc::clone(&name));
                self.sends.insert(key, send);
                send
            }
        };
        let send = &mut self.part(from).partition.sends[send];
        send.devices.push(to.local());
        let crossing = send.crossing;
        let receives = &mut self.part(to).partition.receives;
        receives.push(Receive {
            crossing,
            slot,
            before: SmallVec::new(),
            is_answer: false,
            from: from.task().clone(),
            name,
        });
        receives.len() - 1
    }

    /// Adds a send without devices. Returns its position.
    fn send(&mut self, from: &DeviceName, to: &TaskName, what: Sent, name: Arc<str>) -> usize {
        let crossing = CrossingId(self.crossings);
        self.crossings += 1;
        let sends = &mut self.part(from).partition.sends;
        sends.push(Send { crossing, what, to: to.clone(), devices: SmallVec::new(), name });
        sends.len() - 1
    }
}

enum Control {
    Node(u32),
    Receive(usize),
}

impl PartitionBuilder {
    fn new(device: &DeviceName) -> Self {
        Self {
            partition: Partition::empty(device.task().clone(), device.local()),
            values: BTreeMap::new(),
            fed: BTreeMap::new(),
            nodes: BTreeMap::new(),
            control_receives: BTreeMap::new(),
            variables: BTreeMap::new(),
        }
    }

    fn new_slots(&mut self, count: u32) -> ValueSlot {
        let first = self.partition.slots;
        self.partition.slots += count;
        ValueSlot(first)
    }

    fn feed(&mut self, edge: Edge, feed: u32) -> ValueSlot {
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
            let spec = graph.variable(id).expect("only variables are used as variables");
            self.partition.variables.push(spec.clone());
            self.partition.variables.len() as u32 - 1
        })
    }
}

fn edge_name(graph: &GraphDef, edge: Edge) -> Arc<str> {
    let name = &graph.operation(edge.op).name;
    if edge.output == 0 { Arc::clone(name) } else { format!("{name}:{}", edge.output).into() }
}
