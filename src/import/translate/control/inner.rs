//! Functions of the graph's library, each imported into a graph of its own.

use std::panic::Location;
use std::rc::Rc;

use super::{Importer, NodeProblem};
use crate::graph::{Function, Graph, GraphError, Name, NewOperation, Op, TensorType};
use crate::import::known::Known;
use crate::import::listed::Listed;
use crate::import::order;
use crate::import::value::Value;
use crate::import::wire::{Argument, FunctionDef, GraphDef, Library, NodeDef};
use crate::tensor::{Shape, Tensor};

/// The deepest nesting of functions.
const DEEPEST: usize = 8;

/// The nodes of a function in a graph of their own.
pub(super) struct Inner {
    graph: Graph,
    arguments: Vec<Value>,
    pub(super) results: Vec<Value>,
}

impl Inner {
    /// Gives each result that is nothing the type of the other branch's: nobody uses its value.
    pub(super) fn fill_like(&mut self, other: &Self) -> Result<(), NodeProblem> {
        for (result, other) in self.results.iter_mut().zip(&other.results) {
            if let (Some(Listed::Nothing), Some(like)) = (&result.list, &other.output) {
                let TensorType { dtype, shape } = like.tensor_type();
                let sizes: Vec<usize> = shape.dims().iter().map(|dim| dim.unwrap_or(0)).collect();
                let value = Tensor::scalar_of(dtype, 0.0);
                let fill = Op::Fill { shape: Shape::new(&sizes), value };
                let id = self.graph.add(NewOperation::of(fill))?;
                *result = Value { list: other.list.clone(), ..self.graph.output(id).into() };
            }
        }
        Ok(())
    }

    /// The function from the arguments to the results at these positions.
    pub(super) fn function(
        &self,
        arguments: &[usize],
        results: &[usize],
    ) -> Result<Function, NodeProblem> {
        let value = |value: &Value| value.output(&self.graph, "result", 0);
        let inputs = arguments.iter().map(|i| value(&self.arguments[*i]));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let results = results.iter().map(|i| value(&self.results[*i]));
        Ok(Function::of(&self.graph, &inputs, &results.collect::<Result<Vec<_>, _>>()?)?)
    }
}

impl<'a> Importer<'a> {
    /// The function `name` of the library.
    pub(super) fn function(&self, name: &str) -> Result<&'a FunctionDef, NodeProblem> {
        let named = |def: &&FunctionDef| def.signature.as_ref().is_some_and(|own| own.name == name);
        let missing = || NodeProblem::unsupported(format!("the graph has no function `{name}`"));
        self.library.iter().find(named).ok_or_else(missing)
    }
}

/// The function `name` of the library, for these arguments.
pub(super) fn inner(
    importer: &Importer<'_>,
    name: &str,
    given: &[Value],
) -> Result<Inner, NodeProblem> {
    let inside =
        |problem: String| NodeProblem::unsupported(format!("in the function `{name}`: {problem}"));
    if importer.depth == DEEPEST {
        return Err(inside("functions are nested too deeply".to_owned()));
    }
    imported(importer, importer.function(name)?, given).map_err(inside)
}

/// Imports a function's nodes into a graph of their own.
fn imported(importer: &Importer<'_>, def: &FunctionDef, given: &[Value]) -> Result<Inner, String> {
    let signature = def.signature.clone().unwrap_or_default();
    if signature.input_arg.len() != given.len() {
        return Err(format!("it takes {} inputs, not {}", signature.input_arg.len(), given.len()));
    }
    let placeholders = signature.input_arg.iter().map(|argument| placeholder(&argument.name));
    let own = def.node_def.iter().map(|node| {
        let input = node.input.iter().map(|input| flat(input, &def.node_def));
        Ok(NodeDef { input: input.collect::<Result<_, String>>()?, ..node.clone() })
    });
    let node = placeholders.map(Ok).chain(own).collect::<Result<Vec<_>, String>>()?;
    let library = Some(Library { function: importer.library.to_vec() });
    let whole = GraphDef { node, library };
    let result = |argument: &Argument| {
        let missing = || format!("it has no result `{}`", argument.name);
        flat(def.ret.get(&argument.name).ok_or_else(missing)?, &def.node_def)
    };
    let results = signature.output_arg.iter().map(result).collect::<Result<Vec<_>, _>>()?;
    let graph = Graph::new();
    let nodes = order::sorted(&whole, &[]).map_err(|error| error.to_string())?;
    crate::import::check_kinds(&nodes).map_err(|error| error.to_string())?;
    let mut inner = Importer::new(&graph, &whole, &nodes, Location::caller());
    inner.depth = importer.depth + 1;
    let mut arguments = Vec::new();
    for (argument, value) in signature.input_arg.iter().zip(given) {
        let value = received(&graph, &argument.name, value).map_err(|error| error.to_string())?;
        inner.values.insert(argument.name.clone(), vec![value.clone()]);
        arguments.push(value);
    }
    let is_argument = |node: &&NodeDef| signature.input_arg.iter().any(|own| own.name == node.name);
    for node in nodes.iter().filter(|node| !is_argument(node)) {
        inner.add(node).map_err(|problem| crate::import::node::fail(node, problem).to_string())?;
    }
    let value = |name: &String| {
        let (node, output) = order::parse_input(name);
        let found = inner.values.get(node).and_then(|values| values.get(output?));
        let mut value = found.cloned().ok_or_else(|| format!("it has no value `{name}`"))?;
        if !value.is_static() {
            let output = value.output(&graph, node, 0);
            value.output = Some(output.map_err(|problem| format!("`{name}`: {problem}"))?);
        }
        Ok(value)
    };
    let results = results.iter().map(value).collect::<Result<Vec<_>, String>>()?;
    Ok(Inner { graph, arguments, results })
}

/// An argument within a function: a placeholder of the type of the value that it is given.
fn received(graph: &Graph, name: &str, given: &Value) -> Result<Value, GraphError> {
    let list = match &given.list {
        Some(Listed::Open(list)) => Some(Listed::Open(Rc::new(list.within()))),
        list => list.clone(),
    };
    let Some(x) = &given.output else { return Ok(Value { list, ..Value::default() }) };
    let TensorType { dtype, shape } = x.tensor_type();
    let id = graph.add(NewOperation {
        name: Name::Exactly(name),
        ..NewOperation::of(Op::Placeholder { dtype, shape })
    })?;
    let constant = given.constant.clone();
    let known = constant.as_ref().and_then(Known::of);
    Ok(Value { constant, known, list, ..Value::from(graph.output(id)) })
}

/// A node that stands for an argument.
fn placeholder(name: &str) -> NodeDef {
    NodeDef { name: name.to_owned(), op: "Placeholder".to_owned(), ..NodeDef::default() }
}

/// The input `node:output:index` of a function as the input `node:index` of a graph.
fn flat(input: &str, nodes: &[NodeDef]) -> Result<String, String> {
    let mut parts = input.split(':');
    let (node, output, index) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (Some(output), Some(index)) = (output, index) else { return Ok(input.to_owned()) };
    let kind = nodes.iter().find(|own| own.name == node).map_or("", |own| own.op.as_str());
    let index: usize = index.parse().map_err(|_| format!("`{input}` is no value"))?;
    // The outputs of kinds that have several; all others have one, which may be a list.
    let outputs: &[&str] = match kind {
        "TopKV2" => &["values", "indices"],
        "Unique" | "UniqueV2" => &["y", "idx"],
        "ListDiff" => &["out", "idx"],
        "SoftmaxCrossEntropyWithLogits" | "SparseSoftmaxCrossEntropyWithLogits" => {
            &["loss", "backprop"]
        }
        "BroadcastGradientArgs" => &["r0", "r1"],
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" => {
            &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"]
        }
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => {
            &["x_backprop", "scale_backprop", "offset_backprop"]
        }
        "TensorListPopBack" => &["output_handle", "tensor"],
        "TensorArrayV3" => &["handle", "flow"],
        "TensorArrayGradV3" => &["grad_handle", "flow_out"],
        "TensorArrayConcatV3" => &["value", "lengths"],
        "Switch" => &["output_false", "output_true"],
        "Merge" => &["output", "value_index"],
        _ => &[],
    };
    let unknown = || format!("the output `{output}` of {kind} is not known here");
    let before = match outputs {
        [] => 0,
        outputs => outputs.iter().position(|name| *name == output).ok_or_else(unknown)?,
    };
    Ok(format!("{node}:{}", before + index))
}
