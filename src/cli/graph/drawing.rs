//! A partitioned graph for display: the operations of each task, and the values sent between tasks.

use std::collections::BTreeMap;

use serde_json::json;

use crate::graph::{GraphDef, TensorType};
use crate::partition::{CrossingId, Partition, Sent, ValueSlot};

/// A partitioned graph.
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) parts: Vec<TaskNodes>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) crossings: Vec<Crossing>,
}

/// One task's operations.
pub(super) struct TaskNodes {
    pub(super) task: String,
    pub(super) nodes: Vec<Node>,
}

/// An operation.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: &'static str,
    /// The types of its outputs.
    pub(super) types: Vec<TensorType>,
}

/// An edge from one operation to another.
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) is_control: bool,
    /// The size of a value that is sent between tasks.
    pub(super) label: Option<String>,
}

/// A value or control edge from one task to another.
pub(super) struct Crossing {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    /// The value's type; none for a control edge.
    pub(super) carries: Option<TensorType>,
}

impl Crossing {
    /// The size, such as `2560 bytes`, as far as it is known.
    pub(super) fn size(&self) -> String {
        match self.carries.map(|carries| (carries, carries.shape.known())) {
            None => "control".to_owned(),
            Some((carries, Some(shape))) => {
                format!("{} bytes", shape.elements() * carries.dtype.size())
            }
            Some((carries, None)) => {
                let known: usize = carries.shape.dims().iter().flatten().product();
                format!("{} bytes for each of ?", known * carries.dtype.size())
            }
        }
    }
}

/// The source of a value.
#[derive(Clone)]
struct Source<'a> {
    name: &'a str,
    label: Option<String>,
}

/// The sources of what goes from one task to another, by crossing edge.
type Sources<'a> = BTreeMap<CrossingId, Source<'a>>;

impl Source<'_> {
    fn arrow(&self, to: String, is_control: bool) -> Arrow {
        Arrow { from: self.name.to_owned(), to, is_control, label: self.label.clone() }
    }
}

impl Drawing {
    pub(super) fn new(title: String, graph: &GraphDef, partitions: &[Partition]) -> Self {
        let types: BTreeMap<&str, &[TensorType]> = graph
            .operations
            .iter()
            .map(|operation| (&*operation.name, &operation.outputs[..]))
            .collect();
        let type_of = |name: &str| {
            let (name, output) =
                name.rsplit_once(':').map_or((name, Some(0)), |(name, i)| (name, i.parse().ok()));
            types.get(name)?.get(output?).copied()
        };
        let mut drawing =
            Self { title, parts: Vec::new(), arrows: Vec::new(), crossings: Vec::new() };
        let mut sent = Sources::new();
        for partition in partitions {
            let node = |node: &crate::partition::Node| Node {
                name: node.name.to_string(),
                kind: node.op.kind(),
                types: types.get(&*node.name).map(|types| types.to_vec()).unwrap_or_default(),
            };
            let nodes = partition.nodes.iter().map(node).collect();
            drawing.parts.push(TaskNodes { task: partition.task.to_string(), nodes });
            let produced = producers(partition);
            for send in &partition.sends {
                let carries =
                    matches!(send.what, Sent::Value(_)).then(|| type_of(&send.name)).flatten();
                let (from, to) = (partition.task.to_string(), send.to.to_string());
                let crossing = Crossing { name: send.name.to_string(), from, to, carries };
                let name = match send.what {
                    Sent::Value(slot) => produced.get(&slot).copied(),
                    Sent::Done(node) => Some(&*partition.nodes[node as usize].name),
                };
                if let Some(name) = name {
                    let label = Some(crossing.size());
                    sent.entry(send.crossing).or_insert(Source { name, label });
                }
                drawing.crossings.push(crossing);
            }
        }
        for partition in partitions {
            drawing.draw_arrows(partition, &sent);
        }
        drawing
    }

    /// The operations by task, and what goes between tasks, as JSON.
    pub(super) fn json(&self) -> String {
        let node = |node: &Node| {
            let types: Vec<String> = node.types.iter().map(ToString::to_string).collect();
            json!({ "name": node.name, "kind": node.kind, "outputs": types })
        };
        let part = |part: &TaskNodes| {
            let operations: Vec<_> = part.nodes.iter().map(node).collect();
            json!({ "task": part.task, "operations": operations })
        };
        let crossing = |Crossing { name, from, to, carries }: &Crossing| {
            let carries = carries.map(|carries| carries.to_string());
            json!({ "name": name, "from": from, "to": to, "type": carries })
        };
        let parts: Vec<_> = self.parts.iter().map(part).collect();
        let crossings: Vec<_> = self.crossings.iter().map(crossing).collect();
        let drawn = json!({ "title": self.title, "tasks": parts, "between_tasks": crossings });
        format!("{drawn:#}\n")
    }

    fn draw_arrows(&mut self, partition: &Partition, sent: &Sources<'_>) {
        let name = |node: u32| partition.nodes[node as usize].name.to_string();
        let mut produced = BTreeMap::new();
        for (slot, name) in producers(partition) {
            produced.insert(slot, Source { name, label: None });
        }
        for receive in &partition.receives {
            if let Some((slot, source)) = receive.slot.zip(sent.get(&receive.crossing)) {
                produced.insert(slot, source.clone());
            }
        }
        for node in partition.nodes.iter() {
            for slot in &node.inputs {
                // A slot that is fed has no source.
                if let Some(source) = produced.get(slot) {
                    self.arrows.push(source.arrow(node.name.to_string(), false));
                }
            }
            for before in &node.after {
                let before = Source { name: &partition.nodes[*before as usize].name, label: None };
                self.arrows.push(before.arrow(node.name.to_string(), true));
            }
        }
        for receive in partition.receives.iter().filter(|receive| receive.slot.is_none()) {
            let Some(source) = sent.get(&receive.crossing) else { continue };
            for node in &receive.before {
                self.arrows.push(source.arrow(name(*node), true));
            }
        }
    }
}

/// The operations that fill the slots of a partition, by slot; none for one that is fed.
fn producers(partition: &Partition) -> BTreeMap<ValueSlot, &str> {
    let outputs = |node: &crate::partition::Node| {
        let first = node.first_output.0;
        (first..first + node.outputs).map(ValueSlot)
    };
    let nodes = partition.nodes.iter();
    nodes.flat_map(|node| outputs(node).map(|slot| (slot, &*node.name))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::{LocalDevice, TaskName};
    use crate::graph::{Graph, Op};

    #[test]
    fn a_chain_of_150_000_operations_has_an_arrow_between_each_two() {
        const LENGTH: u32 = 150_000; // which takes a minute if each arrow looks through all nodes
        let node = |i: u32| crate::partition::Node {
            name: i.to_string().into(),
            op: Op::Identity,
            inputs: [ValueSlot(i)].into_iter().collect(),
            first_output: ValueSlot(i + 1),
            outputs: 1,
            after: Default::default(),
            variables: Default::default(),
        };
        let mut chain = Partition::empty(TaskName::new("ps", 0), LocalDevice::cpu(0));
        chain.nodes = Arc::new((0..LENGTH).map(node).collect());
        let graph = Graph::new().snapshot().unwrap();
        let drawing = Drawing::new("chain".to_owned(), &graph, &[chain]);
        assert_eq!(drawing.arrows.len(), LENGTH as usize - 1);
        assert!(drawing.arrows.iter().zip(1..).all(|(arrow, to): (_, u32)| {
            arrow.from == (to - 1).to_string() && arrow.to == to.to_string()
        }));
    }
}
