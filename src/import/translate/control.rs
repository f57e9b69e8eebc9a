//! Conditions and loops of TensorFlow's second kind, whose branches and bodies are functions of the
//! graph's library.

use std::panic::Location;

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Function, Graph, Output};
use crate::import::order;
use crate::import::wire::{
    AttrValue, Dim, FunctionDef, GraphDef, Library, NodeDef, TensorShapeProto, Value as Attribute,
};
use crate::operations::{If, While};

/// The deepest nesting of functions.
const DEEPEST: usize = 8;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "If" | "StatelessIf" => Box::new(condition),
        "While" | "StatelessWhile" => Box::new(repetition),
        _ => return None,
    })
}

/// `(condition, inputs…)`
fn condition(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let inputs = importer.inputs(node)?;
    let op = If {
        then: function(importer, node.def.function("then_branch")?, &inputs[1..])?,
        otherwise: function(importer, node.def.function("else_branch")?, &inputs[1..])?,
    };
    importer.emit(node, op, &inputs)
}

/// `(variables…)`; those that the body hands on as they are are constants there, too.
fn repetition(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let inputs = importer.inputs(node)?;
    let op = While {
        condition: function(importer, node.def.function("cond")?, &inputs)?,
        body: function(importer, node.def.function("body")?, &inputs)?,
        maximum: None,
    };
    importer.emit(node, op, &inputs)
}

/// The function `name` of the library, for these inputs.
fn function(
    importer: &Importer<'_>,
    name: &str,
    inputs: &[Output],
) -> Result<Function, NodeProblem> {
    let named = |def: &&FunctionDef| def.signature.as_ref().is_some_and(|own| own.name == name);
    let missing = || NodeProblem::unsupported(format!("the graph has no function `{name}`"));
    let def = importer.library.iter().find(named).ok_or_else(missing)?;
    let inside =
        |problem: String| NodeProblem::unsupported(format!("in the function `{name}`: {problem}"));
    if importer.depth == DEEPEST {
        return Err(inside("functions are nested too deeply".to_owned()));
    }
    imported(importer, def, inputs).map_err(inside)
}

/// Imports a function's nodes into a graph of their own.
fn imported(
    importer: &Importer<'_>,
    def: &FunctionDef,
    inputs: &[Output],
) -> Result<Function, String> {
    let signature = def.signature.clone().unwrap_or_default();
    if signature.input_arg.len() != inputs.len() {
        return Err(format!("it takes {} inputs, not {}", signature.input_arg.len(), inputs.len()));
    }
    let arguments = signature.input_arg.iter().zip(inputs);
    let placeholders =
        arguments.map(|(argument, x)| placeholder(&argument.name, argument.dtype, x));
    let own = def.node_def.iter().map(|node| {
        let input = node.input.iter().map(|input| flat(input, &def.node_def));
        Ok(NodeDef { input: input.collect::<Result<_, String>>()?, ..node.clone() })
    });
    let node = placeholders.map(Ok).chain(own).collect::<Result<Vec<_>, String>>()?;
    let library = Some(Library { function: importer.library.to_vec() });
    let whole = GraphDef { node, library };
    let result = |argument: &crate::import::wire::Argument| {
        let missing = || format!("it has no result `{}`", argument.name);
        flat(def.ret.get(&argument.name).ok_or_else(missing)?, &def.node_def)
    };
    let results = signature.output_arg.iter().map(result).collect::<Result<Vec<_>, _>>()?;
    let graph = Graph::new();
    let nodes = order::sorted(&whole, &[]).map_err(|error| error.to_string())?;
    crate::import::check_kinds(&nodes).map_err(|error| error.to_string())?;
    let mut inner = Importer::new(&graph, &whole, &nodes, Location::caller());
    inner.depth = importer.depth + 1;
    for node in &nodes {
        inner.add(node).map_err(|problem| crate::import::node::fail(node, problem).to_string())?;
    }
    let value = |name: &str| {
        let (node, output) = order::parse_input(name);
        let found = inner.values.get(node).and_then(|values| values.get(output?));
        let missing = || format!("it has no value `{name}`");
        let value = found.ok_or_else(missing)?;
        value.output(&graph, node, 0).map_err(|problem| format!("`{name}`: {problem}"))
    };
    let arguments = signature.input_arg.iter().map(|argument| value(&argument.name));
    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
    let results = results.iter().map(|name| value(name)).collect::<Result<Vec<_>, _>>()?;
    Function::of(&graph, &arguments, &results).map_err(|error| error.to_string())
}

/// A placeholder for an argument, of the type of the value that it is given.
fn placeholder(name: &str, dtype: i32, x: &Output) -> NodeDef {
    let shape = x.tensor_type().shape;
    let size = |dim: &Option<usize>| Dim { size: dim.map_or(-1, |dim| dim as i64) };
    let shape =
        TensorShapeProto { dim: shape.dims().iter().map(size).collect(), unknown_rank: false };
    let attribute = |value| AttrValue { value: Some(value) };
    let attr = [
        ("dtype".to_owned(), attribute(Attribute::Type(dtype))),
        ("shape".to_owned(), attribute(Attribute::Shape(shape))),
    ];
    let attr = attr.into_iter().collect();
    NodeDef { name: name.to_owned(), op: "Placeholder".to_owned(), attr, ..NodeDef::default() }
}

/// The input `node:output:index` of a function as the input `node:index` of a graph.
fn flat(input: &str, nodes: &[NodeDef]) -> Result<String, String> {
    let mut parts = input.split(':');
    let (node, output, index) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (Some(output), Some(index)) = (output, index) else { return Ok(input.to_owned()) };
    let kind = nodes.iter().find(|own| own.name == node).map_or("", |own| own.op.as_str());
    let index: usize = index.parse().map_err(|_| format!("`{input}` is no value"))?;
    let before = match (kind, output) {
        ("TopKV2", "indices") | ("Unique" | "ListDiff", "idx") => 1,
        ("SoftmaxCrossEntropyWithLogits" | "SparseSoftmaxCrossEntropyWithLogits", "backprop") => 1,
        ("BroadcastGradientArgs", "r1") => 1,
        // The first outputs of kinds with several, and the outputs of kinds with one.
        ("TopKV2", "values") | ("Unique", "y") | ("ListDiff", "out") => 0,
        ("SoftmaxCrossEntropyWithLogits" | "SparseSoftmaxCrossEntropyWithLogits", "loss") => 0,
        ("BroadcastGradientArgs", "r0") | ("FusedBatchNormV3", "y") => 0,
        (
            _,
            "output" | "z" | "y" | "product" | "out" | "activations" | "softmax" | "logsoftmax",
        ) => 0,
        ("LeakyRelu" | "Softplus" | "Softsign", _) => 0,
        ("FloorMod" | "Elu" | "Selu", _) => 0,
        _ => return Err(format!("the output `{output}` of {kind} is not known here")),
    };
    Ok(format!("{node}:{}", before + index))
}
