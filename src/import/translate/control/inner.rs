//! Functions of the graph's library, each imported into a graph of its own.

use std::panic::Location;
use std::rc::Rc;

use super::{Importer, Node, NodeProblem};
use crate::graph::{
    Edge, Function, Graph, GraphError, MAX_OPERATIONS, Name, NewOperation, Op, Output, TensorType,
};
use crate::import::known::Known;
use crate::import::listed::Listed;
use crate::import::order;
use crate::import::tensor::VARIANT;
use crate::import::value::Value;
use crate::import::wire::{Argument, FunctionDef, GraphDef, NodeDef};
use crate::operations::{Array, Binary, Change, Dynamic};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The name of the argument that counts a function's random values: TensorFlow gives it to no node.
const COUNTER: &str = ".draws/counter";

/// The deepest nesting of functions.
const DEEPEST: usize = 8;
/// The most nodes of functions that a graph imports, each as often as its function is called: as
/// many operations as a graph from another process may have; fewer in tests, which try it.
pub(in crate::import::translate) const MOST_NODES: usize =
    if cfg!(test) { 1 << 14 } else { MAX_OPERATIONS };

/// The nodes of a function in a graph of their own.
pub(super) struct Inner {
    graph: Graph,
    arguments: Vec<Value>,
    pub(super) results: Vec<Value>,
    /// By result: whether TensorFlow has it as a list or an optional.
    is_variant: Vec<bool>,
    /// By argument: what is left of the variable that it refers to, if the function changes it.
    pub(super) left: Vec<Option<Output>>,
}

impl Inner {
    /// Adds what is left of each variable of `changed`, arguments by position, to the results.
    pub(super) fn return_left(&mut self, changed: &[usize]) {
        for i in changed {
            let left = self.left[*i].clone().map(Value::from);
            self.results.push(left.unwrap_or_else(|| self.arguments[*i].clone()));
            self.is_variant.push(false);
        }
    }

    /// Makes the results those of the arguments after an iteration: what the body does not give is
    /// handed on as it is, or as what is left of it.
    pub(super) fn complete(&mut self) {
        let given = self.results.len();
        self.results.extend(self.arguments.iter().skip(given).cloned());
        for (result, left) in self.results.iter_mut().zip(&self.left) {
            if let Some(left) = left {
                *result = left.clone().into();
            }
        }
    }

    /// Makes the last result, of a body that draws random values, the next number of its last
    /// argument: they are others in each round.
    pub(super) fn count_round(&mut self) -> Result<(), NodeProblem> {
        let last = self.arguments.last().and_then(|counter| counter.output.as_ref());
        let counter = last.expect("a function that draws is given a counter");
        let one = self.add(Op::Const(Tensor::scalar(1i64)), &[])?;
        let next = self.add(Binary::Add.into(), &[counter.edge(), one.edge()])?;
        self.results.pop();
        self.results.push(next.into());
        Ok(())
    }

    /// Gives the results of two branches one structure. An optional that one branch does not give
    /// has zeros there, and one that both give with different types has both values: nobody uses
    /// those of the branch that has not run.
    pub(super) fn unite(&mut self, other: &mut Self) -> Result<(), NodeProblem> {
        for i in 0..self.results.len().min(other.results.len()) {
            let (own, others) = (self.results[i].clone(), other.results[i].clone());
            if matches!(own.list, Some(Listed::Nothing)) {
                self.results[i] = self.like(&others)?;
            } else if matches!(others.list, Some(Listed::Nothing)) {
                other.results[i] = other.like(&own)?;
            } else if self.is_variant[i] && differ(&own, &others) {
                self.results[i] = Value::either([own.clone(), self.like(&others)?]);
                other.results[i] = Value::either([other.like(&own)?, others]);
            }
        }
        Ok(())
    }

    /// Zeros of the type of a value of another graph.
    fn like(&self, other: &Value) -> Result<Value, NodeProblem> {
        if let Some(Listed::Either(parts)) = &other.list {
            return Ok(Value::either([self.like(&parts[0])?, self.like(&parts[1])?]));
        }
        let list = other.list.clone();
        let Some(like) = &other.output else { return Ok(Value { list, ..Value::default() }) };
        let TensorType { dtype, shape } = like.tensor_type();
        let sizes: Vec<usize> = shape.dims().iter().map(|dim| dim.unwrap_or(0)).collect();
        let value = Tensor::scalar_of(dtype, 0.0);
        let fill = Op::Fill { shape: Shape::new(&sizes), value };
        let id = self.graph.add(NewOperation::of(fill))?;
        let zeros = self.graph.output(id);
        let zeros =
            if shape == zeros.tensor_type().shape { zeros } else { self.open(&zeros, shape)? };
        Ok(Value { list, ..zeros.into() })
    }

    /// A value with those of its sizes open that are open in `shape`.
    fn open(&self, value: &Output, shape: PartialShape) -> Result<Output, NodeProblem> {
        let sizes = self.add(Array::Shape(DType::I32).into(), &[value.edge()])?;
        let change = Dynamic { change: Change::Reshape, shape };
        Ok(self.add(change.into(), &[value.edge(), sizes.edge()])?)
    }

    fn add(&self, op: Op, inputs: &[Edge]) -> Result<Output, GraphError> {
        let id = self.graph.add(NewOperation { inputs, ..NewOperation::of(op) })?;
        Ok(self.graph.output(id))
    }

    /// The function from all arguments to all results.
    pub(super) fn function(&self) -> Result<Function, NodeProblem> {
        let all = |values: &[Value]| (0..values.len()).collect::<Vec<_>>();
        self.function_of(&all(&self.arguments), &all(&self.results))
    }

    /// The function from the arguments to the results at these positions.
    pub(super) fn function_of(
        &self,
        arguments: &[usize],
        results: &[usize],
    ) -> Result<Function, NodeProblem> {
        let values = |all: &[Value], places: &[usize]| {
            let leaves = places.iter().flat_map(|i| all[*i].leaves());
            leaves.map(|leaf| leaf.output(&self.graph, "result", 0)).collect::<Result<Vec<_>, _>>()
        };
        let (inputs, results) =
            (values(&self.arguments, arguments)?, values(&self.results, results)?);
        Ok(Function::of(&self.graph, &inputs, &results)?)
    }
}

/// Whether two values are of different types, in more than their sizes.
fn differ(a: &Value, b: &Value) -> bool {
    match (&a.output, &b.output) {
        (Some(a), Some(b)) => {
            let (a, b) = (a.tensor_type(), b.tensor_type());
            a.dtype != b.dtype || a.shape.rank() != b.shape.rank()
        }
        _ => [a, b].iter().any(|value| matches!(value.list, Some(Listed::Either(_)))),
    }
}

impl<'a> Importer<'a> {
    /// Counts `nodes` of a function that is imported.
    ///
    /// # Errors
    /// If these are too many with those of all functions before: functions that call one another
    /// several times each can be short, and endless work.
    fn count(&self, nodes: usize) -> Result<(), String> {
        let left = self.limits.nodes_left.get().checked_sub(nodes).ok_or_else(|| {
            format!("the functions that the graph calls have more than {MOST_NODES} nodes in all")
        })?;
        self.limits.nodes_left.set(left);
        Ok(())
    }

    /// The function `name` of the library.
    pub(in crate::import::translate) fn function(
        &self,
        name: &str,
    ) -> Result<&'a FunctionDef, NodeProblem> {
        let named = |def: &&FunctionDef| def.signature.as_ref().is_some_and(|own| own.name == name);
        let missing = || NodeProblem::unsupported(format!("the graph has no function `{name}`"));
        self.library.iter().find(named).ok_or_else(missing)
    }
}

/// What a function is given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// Its arguments; if it draws random values, the last one counts them.
    pub(super) arguments: &'a [Value],
    pub(super) has_counter: bool,
    /// For a branch of a condition: 0 if it is the true branch. An optional with one value per
    /// branch is read at this index.
    pub(super) side: Option<usize>,
}

/// The function `name` of the library, as `node` calls it.
pub(super) fn inner(
    importer: &Importer<'_>,
    node: &Node<'_>,
    name: &str,
    given: Given<'_>,
) -> Result<Inner, NodeProblem> {
    let inside =
        |problem: String| NodeProblem::unsupported(format!("in the function `{name}`: {problem}"));
    if importer.depth == DEEPEST {
        return Err(inside("functions are nested too deeply".to_owned()));
    }
    let path = format!("{}{}/{name}/", importer.draws.path, node.def.name);
    imported(importer, importer.function(name)?, given, path).map_err(inside)
}

/// Imports a function's nodes into a graph of their own.
fn imported(
    importer: &Importer<'_>,
    def: &FunctionDef,
    Given { arguments: given, has_counter, side }: Given<'_>,
    path: String,
) -> Result<Inner, String> {
    let signature = def.signature.clone().unwrap_or_default();
    let takes = signature.input_arg.len();
    let (given, counter) = given.split_at(given.len() - usize::from(has_counter));
    if takes != given.len() {
        return Err(format!("it takes {takes} inputs, not {}", given.len()));
    }
    let placeholders = signature.input_arg.iter().map(|argument| placeholder(&argument.name));
    let own = def.node_def.iter().map(|node| {
        let input = node.input.iter().map(|input| flat(input, &def.node_def));
        Ok(NodeDef { input: input.collect::<Result<_, String>>()?, ..node.clone() })
    });
    let node = placeholders.map(Ok).chain(own).collect::<Result<Vec<_>, String>>()?;
    importer.count(node.len() + 1)?;
    let whole = GraphDef { node, library: None };
    let result = |argument: &Argument| {
        let missing = || format!("it has no result `{}`", argument.name);
        flat(def.ret.get(&argument.name).ok_or_else(missing)?, &def.node_def)
    };
    let results = signature.output_arg.iter().map(result).collect::<Result<Vec<_>, _>>()?;
    let graph = Graph::new();
    graph.set_random_seed(importer.graph.random_seed());
    let nodes = order::sorted(&whole, &[]).map_err(|error| error.to_string())?;
    crate::import::check_kinds(&nodes).map_err(|error| error.to_string())?;
    let mut inner = Importer::new(&graph, &whole, &nodes, Location::caller());
    (inner.library, inner.limits) = (importer.library, Rc::clone(&importer.limits));
    inner.depth = importer.depth + 1;
    inner.draws.path = path;
    let mut arguments = Vec::new();
    for (argument, of) in signature.input_arg.iter().zip(given) {
        let value = received(&graph, &argument.name, of).map_err(|error| error.to_string())?;
        let seen = side.map(|side| value.parts()[side].clone());
        let seen = seen.unwrap_or_else(|| value.clone());
        let cell = inner.cell(of, &seen);
        inner.values.insert(argument.name.clone(), vec![Value { cell, ..seen }]);
        arguments.push(Value { cell, ..value });
    }
    for counter in counter {
        let value = received(&graph, COUNTER, counter).map_err(|error| error.to_string())?;
        inner.draws.counter.clone_from(&value.output);
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
            let left = value.cell.and_then(|cell| inner.value_of(cell));
            let output = left.map_or_else(|| value.output(&graph, node, 0), Ok);
            value.output = Some(output.map_err(|problem| format!("`{name}`: {problem}"))?);
            value.cell = None;
        }
        Ok(value)
    };
    let results = results.iter().map(value).collect::<Result<Vec<_>, String>>()?;
    let is_variant = |argument: &Argument| argument.dtype == VARIANT;
    let is_variant = signature.output_arg.iter().map(is_variant).collect();
    let left = arguments.iter().map(|argument| inner.left(argument)).collect();
    arguments.iter_mut().for_each(|argument| argument.cell = None);
    Ok(Inner { graph, arguments, results, is_variant, left })
}

/// An argument within a function: a placeholder of the type of the value that it is given.
fn received(graph: &Graph, name: &str, given: &Value) -> Result<Value, GraphError> {
    let list = match &given.list {
        Some(Listed::Open(list)) => Some(Listed::Open(Rc::new(list.within()))),
        list => list.clone(),
    };
    if let Some(Listed::Either(parts)) = &given.list {
        let part = |i: usize| received(graph, &format!("{name}/of_branch_{i}"), &parts[i]);
        return Ok(Value::either([part(0)?, part(1)?]));
    }
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
        "SparseSegmentSumGradV2" | "SparseSegmentMeanGradV2" | "SparseSegmentSqrtNGradV2" => {
            &["output", "sorted_unique_indices"]
        }
        "ListDiff" => &["out", "idx"],
        "SoftmaxCrossEntropyWithLogits" | "SparseSoftmaxCrossEntropyWithLogits" => {
            &["loss", "backprop"]
        }
        "BroadcastGradientArgs" => &["r0", "r1"],
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" => &[
            "y",
            "batch_mean",
            "batch_variance",
            "reserve_space_1",
            "reserve_space_2",
            "reserve_space_3",
        ],
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => {
            &["x_backprop", "scale_backprop", "offset_backprop"]
        }
        "DenseToDenseSetOperation" => &["result_indices", "result_values", "result_shape"],
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
