//! The import of TensorFlow's graphs, and ours written as TensorFlow's: names and devices are
//! kept; shape arithmetic is done during the import.
//!
//! A binary GraphDef may come from anybody. An operation or attribute that does not exist here, or
//! does not fit, is an error that names the node; unknown operations are listed all at once.
//!
//! ```no_run
//! # use trainyard::prelude::*;
//! # async fn run() -> Result<()> {
//! let g = Graph::new();
//! let imported = import::graph_def(&g, &std::fs::read("mlp.pb").expect("the file is there"))?;
//! let server = Server::create_local();
//! let session = Session::new(&server.target(), &g).await?;
//! session.run().target(imported.target("init")?).await?;
//! let x = Tensor::new([1, 3], &[0.5f32, 1.0, -1.0])?;
//! let (input, logits) = (imported.output("x:0")?, imported.output("logits:0")?);
//! let fetched = session.run().feed(&input, x).fetch(&logits).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | TensorFlow | here |
//! |---|---|
//! | axes, paddings and shapes are inputs | attributes, or inputs where they depend on the size of the batch; axes, and numbers of elements that are no sizes, must be known at import |
//! | any value can be fed | feeding one that shapes were computed from changes nothing |
//! | `_class` colocates | read of variables alone, which may be slots; operations on a variable, and an optimizer's slots, are on its device |
//! | adding 1 to `global_step` | ends a training step, as an optimizer's own operation does here |
//! | `ApplyAdam` reads powers of β that all variables share | each variable has a copy, set to the graph's before each update |
//! | two unknown sizes are compared in the step | both are taken to be the batch's; a step where they differ fails |
//! | random operations are seeded by `seed` and `seed2`, and draw anew in each run | by these, the graph's seed and the name; the numbers differ from TensorFlow's. They draw anew with each global step, call of a function and round of a loop of functions; without a global step, the same in each run |
//! | `If` and `While` have functions that may have state | functions without state; so have loops of `Enter` and `Exit`, which become such a `While`. What a body pushes on a stack has one shape in all iterations |
//! | each assignment within such a function changes the variable | a variable that the function changes is read before it and assigned after it, once, where the branch that does so has run. Optimizers' updates are refused there |
//! | a list of tensors, or a TensorArray, has elements of any shapes, and each is written once | a value whose first axis counts the elements; those that nothing was written to are 0. The lists of a list all have as many elements |
//! | what a branch did not keep for its gradient is no value (`OptionalNone`), and reading it fails | zeros, or a value without elements: only the gradient of the branch that has run reads it |
//! | one branch of a `Switch` and a `Merge` is run | both are, and the result of one is chosen; a variable changes, by an optimizer's update too, only in the branch that TensorFlow runs. An operation that fails in the other branch fails the step, and our gradients through an infinite value there are NaN; of `initialized_value()`, or an `If` of that kind, a first value takes the first one |
//! | the gradient of a custom gradient's function must be registered again where a graph is read | a gradient through it is an error, as there, but for `tf.nn.silu`, whose gradient is the plain one; gradients that are in the graph are right |
//! | what was read of a variable by reference changes with a later update | who comes after the update has the new value; who comes neither before nor after it, the old one |
//! | of several rows with one index `DynamicStitch` keeps the last, whose gradient all of them have | those that are not kept have the gradient 0 |
//! | of indices that only a step knows, `DynamicStitch` keeps the last of several, and puts zeros where there is none | these must be all numbers from 0, each once, as those of `DynamicPartition` are; else the step fails |
//! | a cast of NaN, or of a float that the integer type does not hold, gives what the machine gives | NaN gives 0, and others the nearest integer of the type |
//! | attributes that a version does not know are ignored | refused by name, since they may change numbers |
//! | a collection says which variables are trainable | those that an optimizer updates, and beside an optimizer those that a gradient is subtracted from (`assign_sub`): no number, and no moving average's difference. Without an optimizer, all of f32 |

mod error;
mod export;
mod fold;
mod frames;
mod known;
mod listed;
mod node;
mod order;
mod reads;
mod tensor;
mod translate;
mod unchanged;
mod uncounted;
mod value;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use prost::Message;

pub use error::{ImportError, NodeProblem, UnknownOperation};
pub(crate) use export::{End, drawn, written};
pub use export::{ExportError, to_graph_def};
pub(crate) use unchanged::unchanged_variables;

use crate::graph::{Graph, OpId, Output, Target};
use crate::optimizer::TrainOp;
use translate::{Importer, find};
use value::Value;
use wire::NodeDef;

/// A graph that was imported: its nodes by their names.
#[derive(Clone)]
pub struct Imported {
    graph: Graph,
    values: BTreeMap<String, Vec<Value>>,
    operations: BTreeMap<String, OpId>,
    kinds: BTreeMap<String, usize>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Why an operation counts no step, if one does not.
    why_uncounted: String,
}

shown!(Imported, graph, inputs, outputs);

/// Adds all of a binary GraphDef to `graph` (TensorFlow: `tf.import_graph_def` with an empty name).
///
/// # Errors
/// If the bytes are not a GraphDef, operations don't exist here, or a name is taken.
#[track_caller]
pub fn graph_def(graph: &Graph, bytes: &[u8]) -> Result<Imported, ImportError> {
    sub_graph(graph, bytes, &[])
}

/// Adds the nodes of a binary GraphDef that the nodes or outputs called `wanted` need, and no
/// others; all of it if none is named (TensorFlow: `tf.graph_util.extract_sub_graph`).
///
/// # Errors
/// As [`graph_def`], for the needed nodes only.
#[track_caller]
pub fn sub_graph(graph: &Graph, bytes: &[u8], wanted: &[&str]) -> Result<Imported, ImportError> {
    let mut def = frames::functionalized(decode(bytes)?, wanted)?;
    reads::after_updates(&mut def)?;
    let nodes = order::sorted(&def, wanted)?;
    let importer = Importer::new(graph, &def, &nodes, Location::caller());
    let imported = import(graph, importer, &nodes)?;
    imported.check_outputs(wanted)?;
    Ok(imported)
}

/// Adds the part of a GraphDef that training needs: the nodes or outputs called `wanted`, what they
/// need, and what gives the variables among these their first values. Devices are not kept: the
/// scopes in force place everything (TensorFlow: `clear_devices` of `import_meta_graph`), so that
/// each worker can build the graph that one of them wrote.
///
/// A monitored session then initialises, saves and restores the variables, and trains with
/// [`Imported::train_op`], or by [`Task::minimize`](crate::training::Task::minimize) of an output.
///
/// # Errors
/// As [`graph_def`], for these nodes only; if a variable has no first value.
#[track_caller]
pub fn training_graph(
    graph: &Graph,
    bytes: &[u8],
    wanted: &[&str],
) -> Result<Imported, ImportError> {
    let mut def = frames::functionalized(decode(bytes)?, wanted)?;
    reads::after_updates(&mut def)?;
    let nodes = order::sorted_with_first_values(&def, wanted)?;
    let importer = Importer::new(graph, &def, &nodes, Location::caller());
    let imported = import(graph, importer.without_devices(), &nodes)?;
    imported.check_outputs(wanted)?;
    Ok(imported)
}

/// What is said to a SavedModel.
pub(crate) const SAVED_MODEL: &str = "it is a SavedModel, which is not read; write the graph that \
                                      the program builds as a GraphDef, by \
                                      `tf.get_default_graph().as_graph_def().SerializeToString()`";

fn decode(bytes: &[u8]) -> Result<wire::GraphDef, ImportError> {
    match bytes.first() {
        // It would be a graph without nodes; a file of no bytes is one that was not written.
        None => return Err(ImportError::Malformed("it is empty".to_owned())),
        // The first field of a SavedModel is a number, its version; that of a GraphDef is a node.
        Some(0x08) => return Err(ImportError::Malformed(SAVED_MODEL.to_owned())),
        Some(_) => {}
    }
    wire::GraphDef::decode(bytes).map_err(|error| ImportError::Malformed(error.to_string()))
}

fn import(
    graph: &Graph,
    mut importer: Importer<'_>,
    nodes: &[&NodeDef],
) -> Result<Imported, ImportError> {
    check_kinds(nodes)?;
    for node in importer.variables_first(nodes) {
        importer.add(node).map_err(|problem| node::fail(node, problem))?;
    }
    let (values, operations) = importer.finish();
    let used: BTreeSet<&str> =
        nodes.iter().flat_map(|node| &node.input).map(|i| order::parse_input(i).0).collect();
    let mut kinds = BTreeMap::new();
    nodes.iter().for_each(|node| *kinds.entry(node.op.clone()).or_default() += 1);
    let named = |choose: &dyn Fn(&NodeDef) -> bool| {
        let chosen = nodes.iter().filter(|node| choose(node));
        chosen.map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    let inputs =
        named(&|node| matches!(node.op.as_str(), "Placeholder" | "PlaceholderWithDefault"));
    let outputs = named(&|node| !used.contains(node.name.as_str()));
    let (graph, why_uncounted) = (graph.clone(), uncounted::why_uncounted(nodes));
    Ok(Imported { graph, values, operations, kinds, inputs, outputs, why_uncounted })
}

/// Checks that there is a translation for every kind of operation.
fn check_kinds(nodes: &[&NodeDef]) -> Result<(), ImportError> {
    let mut unknown: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for node in nodes.iter().filter(|node| find(&node.op).is_none() && !fold::knows(&node.op)) {
        unknown.entry(&node.op).or_insert((0, &node.name)).0 += 1;
    }
    let listed = |(kind, (count, example)): (&str, (usize, &str))| UnknownOperation {
        kind: kind.to_owned(),
        count,
        example: example.to_owned(),
    };
    let operations: Vec<_> = unknown.into_iter().map(listed).collect();
    if operations.is_empty() { Ok(()) } else { Err(ImportError::UnknownOperations { operations }) }
}

impl Imported {
    /// The value that TensorFlow calls `name`: `loss:0`, `split:1`, or `loss` for its first output.
    /// For a variable, its value.
    ///
    /// # Errors
    /// If there is no such value, or no operation here computes it because it is a shape.
    pub fn output(&self, name: &str) -> Result<Output, ImportError> {
        let (node, output) = order::parse_input(name);
        let not_found = || ImportError::NotFound(name.to_owned());
        let value =
            self.values.get(node).and_then(|values| values.get(output?)).ok_or_else(not_found)?;
        value.output(&self.graph, node, output.unwrap_or(0)).map_err(|problem| ImportError::Node {
            node: node.to_owned(),
            kind: "Fetch".to_owned(),
            problem,
        })
    }

    /// Checks that the nodes have the outputs that `wanted` numbers. `name:0` also names a node
    /// without any, as some programs write it.
    fn check_outputs(&self, wanted: &[&str]) -> Result<(), ImportError> {
        let lacks = |name: &&&str| {
            let (node, output) = order::parse_input(name);
            let has = |output| self.values.get(node).is_some_and(|all| all.get(output).is_some());
            output.is_some_and(|output| output > 0 && !has(output))
        };
        match wanted.iter().find(lacks) {
            Some(name) => Err(ImportError::NotFound((*name).to_owned())),
            None => Ok(()),
        }
    }

    /// The operation called `name`, to be run.
    ///
    /// # Errors
    /// If there is none, or nothing is run for it, because it is a variable or computes only
    /// shapes.
    pub fn target(&self, name: &str) -> Result<Target, ImportError> {
        let id = self.operations.get(name).ok_or_else(|| ImportError::NotFound(name.to_owned()))?;
        Ok(Target::new(self.graph.clone(), *id))
    }

    /// The operation called `name` as a training step: it, or one that it waits for, adds 1 to the
    /// variable `global_step`, as an optimizer's `minimize(loss, global_step)` does in TensorFlow.
    /// Such a step is asynchronous, and runs of another mode refuse it.
    ///
    /// # Errors
    /// As [`Imported::target`]; if it counts no step.
    pub fn train_op(&self, name: &str) -> Result<TrainOp, ImportError> {
        let target = self.target(name)?;
        TrainOp::counting(&target).ok_or_else(|| ImportError::CountsNoStep {
            operation: name.to_owned(),
            why: self.why_uncounted.clone(),
        })
    }

    /// The number of nodes of each kind, in TensorFlow's words.
    pub fn kinds(&self) -> &BTreeMap<String, usize> {
        &self.kinds
    }

    /// The names of the values to feed.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The names of the nodes that no other needs.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The graph that it was added to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

#[cfg(test)]
mod tests;
