//! A partitioned graph for display: the operations of each task, and the values sent between tasks.

use std::collections::BTreeMap;

use serde_json::json;

use crate::graph::{GraphDef, TensorType};
use crate::partition::{Partition, Sent, ValueSlot};

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
struct Source {
    name: String,
    label: Option<String>,
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
        for partition in partitions {
            let node = |node: &crate::partition::Node| Node {
                name: node.name.to_string(),
                kind: node.op.kind(),
                types: types.get(&*node.name).map(|types| types.to_vec()).unwrap_or_default(),
            };
            let nodes = partition.nodes.iter().map(node).collect();
            drawing.parts.push(TaskNodes { task: partition.task.to_string(), nodes });
            for send in &partition.sends {
                let carries =
                    matches!(send.what, Sent::Value(_)).then(|| type_of(&send.name)).flatten();
                let (from, to) = (partition.task.to_string(), send.to.to_string());
                drawing.crossings.push(Crossing { name: send.name.to_string(), from, to, carries });
            }
        }
        for partition in partitions {
            drawing.draw_arrows(partition, partitions);
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

    fn draw_arrows(&mut self, partition: &Partition, all: &[Partition]) {
        let name = |node: u32| partition.nodes[node as usize].name.to_string();
        let from_another = |receive: &crate::partition::Receive| {
            let mut sends =
                all.iter().flat_map(|part| part.sends.iter().map(move |send| (part, send)));
            let (part, send) = sends.find(|(_, send)| send.crossing == receive.crossing)?;
            let source = match send.what {
                Sent::Value(slot) => producer(part, slot)?,
                Sent::Done(node) => part.nodes[node as usize].name.to_string(),
            };
            let is_it = |crossing: &&Crossing| {
                *crossing.name == *send.name && crossing.from == part.task.to_string()
            };
            Some(Source {
                name: source,
                label: self.crossings.iter().find(is_it).map(Crossing::size),
            })
        };
        let mut arrows = Vec::new();
        for node in partition.nodes.iter() {
            for slot in &node.inputs {
                let received =
                    partition.receives.iter().find(|receive| receive.slot == Some(*slot));
                let here = || producer(partition, *slot).map(|name| Source { name, label: None });
                let Some(source) = received.and_then(from_another).or_else(here) else { continue };
                let to = node.name.to_string();
                arrows.push(Arrow {
                    from: source.name,
                    to,
                    is_control: false,
                    label: source.label,
                });
            }
            for before in &node.after {
                let (from, to) = (name(*before), node.name.to_string());
                arrows.push(Arrow { from, to, is_control: true, label: None });
            }
        }
        for receive in &partition.receives {
            let Some(source) = from_another(receive).filter(|_| receive.slot.is_none()) else {
                continue;
            };
            for node in &receive.before {
                let (from, to) = (source.name.clone(), name(*node));
                arrows.push(Arrow { from, to, is_control: true, label: source.label.clone() });
            }
        }
        self.arrows.extend(arrows);
    }
}

/// The operation that fills a slot; none if the slot is fed.
fn producer(partition: &Partition, slot: ValueSlot) -> Option<String> {
    let gives = |node: &&crate::partition::Node| {
        (node.first_output.0..node.first_output.0 + node.outputs).contains(&slot.0)
    };
    partition.nodes.iter().find(gives).map(|node| node.name.to_string())
}
