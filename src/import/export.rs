//! Our graphs as TensorFlow's: each operation becomes a node of its name, or several.

mod array;
mod kinds;
mod state;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::wire::{AttrValue, GraphDef as Def, NodeDef, TensorProto, TensorShapeProto, Value};
use crate::graph::{
    Edge, Graph, GraphDef, GraphError, Op, OpId, Operation, Output, TensorType, prune,
};
use crate::operations::{Array, Broadcast, Guard, Indexed, Rows};
use crate::tensor::{DType, PartialShape, Tensor};

/// Errors of writing a graph.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An operation has no counterpart in TensorFlow, or none that is written here.
    #[error(
        "`{operation}` ({kind}) can't be exported: TensorFlow has no such operation, or it is one \
         that is not written yet; export only the outputs that do not need it"
    )]
    NoCounterpart {
        /// Its name.
        operation: String,
        /// Its kind.
        kind: String,
    },
    /// A value is to be called what something else that is written is called.
    #[error(
        "`{0}` is another operation here than in TensorFlow, and needed: write a `tf.identity` of \
         it into the graph, and export that"
    )]
    NameTaken(String),
    /// The graph has a mistake, or an output is of another graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Writes the operations that `outputs` need as a binary GraphDef; all of the graph if none is
/// named. Names, devices and control inputs are kept; variables are resources.
///
/// # Errors
/// If an operation has no counterpart in TensorFlow that is written here: which one. If one of
/// `outputs` belongs to another graph, or the graph has a mistake.
#[track_caller]
pub fn to_graph_def(graph: &Graph, outputs: &[&Output]) -> Result<Vec<u8>, ExportError> {
    for output in outputs {
        graph.check_own("to_graph_def", output)?;
    }
    let wanted: Vec<End> = outputs.iter().map(|output| End::of(output.edge().op)).collect();
    let def = graph.snapshot()?;
    written(&def, &wanted)
}

/// What of a graph is written, with all that it needs.
pub(crate) struct End {
    op: OpId,
    /// An output, and the name that the graph is to have it by.
    alias: Option<(u32, String)>,
}

impl End {
    /// An operation, by its own name.
    pub(crate) fn of(op: OpId) -> Self {
        Self { op, alias: None }
    }

    /// A value, by another name than its operation's.
    pub(crate) fn named(value: Edge, name: &str) -> Self {
        Self { op: value.op, alias: Some((value.output, name.to_owned())) }
    }
}

/// The operations that those of `ends` need; all if none is named.
pub(crate) fn written(def: &GraphDef, ends: &[End]) -> Result<Vec<u8>, ExportError> {
    let wanted: Vec<OpId> = match ends {
        [] => def.iter().map(|(id, _)| id).collect(),
        ends => ends.iter().map(|end| end.op).collect(),
    };
    let mut writer = Writer::new(def);
    for id in prune(def, &BTreeSet::new(), &[], &wanted) {
        let operation = def.operation(id);
        writer.add(id, operation).ok_or_else(|| ExportError::NoCounterpart {
            operation: operation.name.to_string(),
            kind: operation.op.kind().to_owned(),
        })?;
    }
    for End { op, alias } in ends {
        let Some((output, name)) = alias else { continue };
        let is_taken = writer.nodes.iter().any(|node| node.name == *name);
        if is_taken {
            return Err(ExportError::NameTaken(name.clone()));
        }
        let edge = Edge { op: *op, output: *output };
        let t = ("T", Value::Type(number(def.edge_type(edge).dtype)));
        let input = writer.values[&edge].clone();
        writer.node(name, "Identity", vec![input], vec![t]);
    }
    Ok(Def { node: writer.nodes, library: None }.encode_to_vec())
}

/// All of the graph, to be looked at: an operation without a counterpart keeps its own kind and has
/// no attributes, and large constants have no value.
///
/// # Errors
/// If the graph has a mistake.
pub(crate) fn drawn(graph: &Graph) -> Result<Vec<u8>, GraphError> {
    let def = graph.snapshot()?;
    let mut writer = Writer::new(&def);
    def.iter().for_each(|(id, operation)| writer.draw(id, operation));
    Ok(Def { node: writer.nodes, library: None }.encode_to_vec())
}

/// TensorFlow's number of an element type.
fn number(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::F64 => 2,
        DType::I32 => 3,
        DType::I8 => 6,
        DType::I64 => 9,
        DType::Bool => 10,
        DType::BF16 => 14,
    }
}

fn shape(shape: &PartialShape) -> TensorShapeProto {
    let dim = |dim: &Option<usize>| super::wire::Dim { size: dim.map_or(-1, |dim| dim as i64) };
    TensorShapeProto { dim: shape.dims().iter().map(dim).collect(), unknown_rank: false }
}

/// The longest value of a constant in a graph that is drawn \[bytes\]: TensorBoard leaves out
/// longer attributes.
const DRAWN_BYTES: usize = 1024;

/// The attributes of a node.
type Attributes<'a> = Vec<(&'a str, Value)>;

/// What an operation becomes; `None` if it has no counterpart that is written here.
type Written = Option<()>;

/// A GraphDef in the making.
struct Writer<'a> {
    def: &'a GraphDef,
    nodes: Vec<NodeDef>,
    /// By value: its name in TensorFlow.
    values: BTreeMap<Edge, String>,
    /// The names of all operations, and of the nodes beside them.
    taken: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    fn new(def: &'a GraphDef) -> Self {
        let taken = def.operations.iter().map(|operation| operation.name.to_string()).collect();
        Self { def, nodes: Vec::new(), values: BTreeMap::new(), taken }
    }

    fn add(&mut self, id: OpId, operation: &Operation) -> Written {
        let first = self.nodes.len();
        self.translate(id, operation)?;
        self.end(first, id, operation);
        Some(())
    }

    fn draw(&mut self, id: OpId, operation: &Operation) {
        let first = self.nodes.len();
        if self.translate(id, operation).is_none() {
            for node in self.nodes.drain(first..).filter(|node| node.name != *operation.name) {
                self.taken.remove(&node.name);
            }
            let handles = operation.variables.iter();
            let handles = handles.map(|id| self.def.operation(*id).name.to_string());
            let inputs = handles.chain(self.inputs(operation)).collect();
            self.node(&operation.name, operation.op.kind(), inputs, vec![]);
        }
        for node in &mut self.nodes[first..] {
            let is_short = |attribute: &AttrValue| match &attribute.value {
                Some(Value::Tensor(value)) => value.tensor_content.len() <= DRAWN_BYTES,
                _ => true,
            };
            node.attr.retain(|_, attribute| is_short(attribute));
        }
        self.end(first, id, operation);
    }

    /// Adds the nodes that the operation becomes.
    fn translate(&mut self, id: OpId, operation: &Operation) -> Written {
        match &operation.op {
            Op::Defined(op) => {
                if let Some(op) = op.get::<Array>() {
                    self.array(operation, op)
                } else if let Some(op) = op.get::<Indexed>() {
                    self.indexed(operation, op)
                } else if let Some(op) = op.get::<Broadcast>() {
                    self.broadcast(operation, *op)
                } else if let Some(op) = op.get::<Rows>() {
                    self.rows(operation, *op)
                } else if let Some(op) = op.get::<Guard>() {
                    self.guard(operation, op)
                } else {
                    self.plain(operation, op)
                }
            }
            _ => self.built_in(id, operation),
        }
    }

    /// Gives the operation's nodes, those from `first` on, its control inputs and device, and its
    /// outputs their names.
    fn end(&mut self, first: usize, id: OpId, operation: &Operation) {
        let controls: Vec<String> = operation
            .control_inputs
            .iter()
            .map(|id| format!("^{}", self.def.operation(*id).name))
            .collect();
        let device = operation.device.to_string();
        for node in &mut self.nodes[first..] {
            node.device.clone_from(&device);
            node.input.extend(controls.iter().cloned());
        }
        for output in 0..operation.outputs.len() as u32 {
            if let Entry::Vacant(entry) = self.values.entry(Edge { op: id, output }) {
                entry.insert(named(&operation.name, output));
            }
        }
    }

    /// Input `i` of an operation.
    fn input(&self, operation: &Operation, i: usize) -> String {
        self.values[&operation.inputs[i]].clone()
    }

    fn inputs(&self, operation: &Operation) -> Vec<String> {
        (0..operation.inputs.len()).map(|i| self.input(operation, i)).collect()
    }

    fn type_of(&self, operation: &Operation, i: usize) -> TensorType {
        self.def.edge_type(operation.inputs[i])
    }

    /// The type of input `i` as the attribute `T`.
    fn t(&self, operation: &Operation, i: usize) -> (&'static str, Value) {
        ("T", Value::Type(number(self.type_of(operation, i).dtype)))
    }

    /// Adds the node of the operation itself.
    fn own(
        &mut self,
        operation: &Operation,
        kind: &str,
        inputs: Vec<String>,
        attributes: Attributes<'_>,
    ) -> Written {
        self.node(&operation.name, kind, inputs, attributes);
        Some(())
    }

    /// Adds a node beside the operation's own, and gives its value.
    fn helper(
        &mut self,
        operation: &Operation,
        part: &str,
        kind: &str,
        inputs: Vec<String>,
        attributes: Attributes<'_>,
    ) -> String {
        let mut name = format!("{}/{part}", operation.name);
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        self.node(&name, kind, inputs, attributes);
        name
    }

    fn node(&mut self, name: &str, kind: &str, input: Vec<String>, attributes: Attributes<'_>) {
        let attr = attributes
            .into_iter()
            .map(|(name, value)| (name.to_owned(), AttrValue { value: Some(value) }));
        self.nodes.push(NodeDef {
            name: name.to_owned(),
            op: kind.to_owned(),
            input,
            attr: attr.collect(),
            ..NodeDef::default()
        });
    }

    /// A constant beside the operation.
    fn constant(&mut self, operation: &Operation, part: &str, value: &Tensor) -> String {
        self.helper(operation, part, "Const", vec![], constant(value))
    }

    /// A vector of i32 beside the operation.
    fn ints(&mut self, operation: &Operation, part: &str, values: &[i64]) -> Option<String> {
        let values = values.iter().map(|value| i32::try_from(*value).ok());
        let values = values.collect::<Option<Vec<i32>>>()?;
        let tensor = Tensor::new([values.len()], &values).ok()?;
        Some(self.constant(operation, part, &tensor))
    }

    /// An i32 beside the operation.
    fn int(&mut self, operation: &Operation, part: &str, value: usize) -> Option<String> {
        let value = Tensor::scalar(i32::try_from(value).ok()?);
        Some(self.constant(operation, part, &value))
    }

    /// The shape of a value as a vector.
    fn shape_of(&mut self, operation: &Operation, i: usize) -> String {
        let (x, t) = (self.input(operation, i), self.t(operation, i));
        self.helper(operation, "shape", "Shape", vec![x], vec![t])
    }
}

fn named(name: &str, output: u32) -> String {
    if output == 0 { name.to_owned() } else { format!("{name}:{output}") }
}

/// The attributes of a constant.
fn constant(value: &Tensor) -> Attributes<'static> {
    let dtype = number(value.dtype());
    let proto = TensorProto {
        dtype,
        tensor_shape: Some(shape(&value.shape().into())),
        tensor_content: value.bytes().to_vec(),
        ..TensorProto::default()
    };
    vec![("dtype", Value::Type(dtype)), ("value", Value::Tensor(proto))]
}
