//! The translation of nodes to operations: one at a time, each after the nodes that it needs.

mod array;
mod indexed;
mod math;
mod norm;
mod reduction;
mod sparse;
mod state;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use super::node::Node;
use super::order::parse_input;
use super::value::Value;
use super::wire::{GraphDef, NodeDef};
use super::{NodeProblem, fold};
use crate::graph::{Graph, Name, NewOperation, Op, OpId, Output, Target};
use state::Roles;

/// The outputs of a node.
pub(super) type Values = Result<Vec<Value>, NodeProblem>;

/// The translation of nodes of one kind to operations.
pub(super) type Translate = Box<dyn Fn(&mut Importer<'_>, &Node<'_>) -> Values>;

/// The translation of `kind`, TensorFlow's word; `None` if it does not exist here.
pub(super) fn find(kind: &str) -> Option<Translate> {
    let families = [
        math::find,
        reduction::find,
        array::find,
        indexed::find,
        sparse::find,
        window::find,
        norm::find,
        state::find,
    ];
    families.iter().find_map(|family| family(kind))
}

/// The translation to `op` with the same inputs.
fn plain(op: impl Into<Op>) -> Translate {
    let op = op.into();
    Box::new(move |importer, node| {
        let inputs = importer.inputs(node)?;
        importer.emit(node, op.clone(), &inputs)
    })
}

/// The translation to `op` with the inputs at these positions.
fn of_inputs<const N: usize>(positions: [usize; N], op: impl Into<Op>) -> Translate {
    let op = op.into();
    Box::new(move |importer, node| {
        let inputs =
            positions.iter().map(|i| importer.input(node, *i)).collect::<Result<Vec<_>, _>>()?;
        importer.emit(node, op.clone(), &inputs)
    })
}

/// The translation to the operation that `op` makes of the attributes, with the same inputs.
fn with_attributes<O: Into<Op>>(
    op: impl Fn(&NodeDef) -> Result<O, NodeProblem> + 'static,
) -> Translate {
    Box::new(move |importer, node| {
        let inputs = importer.inputs(node)?;
        importer.emit(node, op(node.def)?, &inputs)
    })
}

/// A graph that is being added to another.
pub(super) struct Importer<'a> {
    graph: &'a Graph,
    /// The names of all nodes, which helper operations must not take.
    names: BTreeSet<&'a str>,
    values: BTreeMap<String, Vec<Value>>,
    operations: BTreeMap<String, OpId>,
    /// By node without an operation: the operations that must run before its users.
    folded: BTreeMap<String, Vec<OpId>>,
    roles: Roles,
    built_at: &'static Location<'static>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        def: &'a GraphDef,
        nodes: &[&NodeDef],
        built_at: &'static Location<'static>,
    ) -> Self {
        let names = def.node.iter().map(|node| node.name.as_str()).collect();
        let (values, operations) = (BTreeMap::new(), BTreeMap::new());
        let folded = BTreeMap::new();
        Self { graph, names, values, operations, folded, roles: Roles::of(nodes), built_at }
    }

    pub(super) fn finish(self) -> (BTreeMap<String, Vec<Value>>, BTreeMap<String, OpId>) {
        (self.values, self.operations)
    }

    /// Adds `def`, whose inputs have been added. A device name that is malformed here is ignored.
    pub(super) fn add(&mut self, def: &NodeDef) -> Result<(), NodeProblem> {
        let node = self.node(def)?;
        let graph = self.graph.clone();
        let is_device = def.device.parse::<crate::cluster::DeviceSpec>().is_ok();
        let device = if is_device { def.device.as_str() } else { "" };
        let mut values = graph.with_device(device, |_| Ok(self.translate(&node)))??;
        let after = node.known_after();
        for value in &mut values {
            if value.constant.is_some() || value.known.is_some() {
                value.after.clone_from(&after);
            }
        }
        self.values.insert(def.name.clone(), values);
        if !self.operations.contains_key(&def.name) {
            self.folded.insert(def.name.clone(), node.needs);
        }
        Ok(())
    }

    fn node<'n>(&self, def: &'n NodeDef) -> Result<Node<'n>, NodeProblem> {
        let (mut inputs, mut controls, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        for input in &def.input {
            let missing = || NodeProblem::NoSuchInput(input.clone());
            match parse_input(input) {
                (name, None) => controls.extend(self.run_for(name)),
                (name, Some(output)) => {
                    needs.extend(self.run_for(name));
                    let values = self.values.get(name);
                    inputs.push(
                        values
                            .and_then(|values| values.get(output))
                            .cloned()
                            .ok_or_else(missing)?,
                    );
                }
            }
        }
        needs.extend(&controls);
        needs.sort();
        needs.dedup();
        needs.retain(|id| !self.is_free(*id));
        Ok(Node { def, inputs, controls, needs })
    }

    /// The operations that must run before an operation that waits for the node `name`.
    fn run_for(&self, name: &str) -> &[OpId] {
        match self.operations.get(name) {
            Some(operation) => std::slice::from_ref(operation),
            None => self.folded.get(name).map_or(&[], Vec::as_slice),
        }
    }

    /// Whether the operation needs no waiting: it is fed, or a constant that waits for nothing.
    fn is_free(&self, id: OpId) -> bool {
        self.graph.with_operation(id, |operation| match operation.op {
            Op::Const(_) => operation.control_inputs.is_empty(),
            _ => matches!(operation.op, Op::Placeholder { .. }),
        })
    }

    /// Computes arithmetic on shapes at once. Translates the other nodes, and those whose result is
    /// known only in the step.
    fn translate(&mut self, node: &Node<'_>) -> Values {
        let Some(known) = fold::fold(node) else {
            let unknown = || NodeProblem::NotConstant { input: node.unknown_input() };
            return find(&node.def.op).ok_or_else(unknown)?(self, node);
        };
        if let ([one], Some(translate)) = (known.as_slice(), find(&node.def.op))
            && one.has_unknown()
            && let Ok(values) = translate(self, node)
        {
            return Ok(values
                .into_iter()
                .map(|value| Value { known: Some(one.clone()), ..value })
                .collect());
        }
        if let [one] = known.as_slice()
            && let Some(tensor) = one.tensor()
        {
            let after_all = node.with_controls(node.needs.clone());
            let values = self.emit(&after_all, Op::Const(tensor.clone()), &[])?;
            let known =
                |value| Value { constant: Some(tensor.clone()), known: Some(one.clone()), ..value };
            return Ok(values.into_iter().map(known).collect());
        }
        Ok(known.into_iter().map(Value::from).collect())
    }

    /// Input `i` as a value for a step.
    fn input(&self, node: &Node<'_>, i: usize) -> Result<Output, NodeProblem> {
        node.value(i)?.output(self.graph, &node.def.name, i)
    }

    /// All inputs as values for a step.
    fn inputs(&self, node: &Node<'_>) -> Result<Vec<Output>, NodeProblem> {
        (0..node.inputs.len()).map(|i| self.input(node, i)).collect()
    }

    /// Adds the operation that `node` becomes, under its name.
    fn emit(&mut self, node: &Node<'_>, op: impl Into<Op>, inputs: &[Output]) -> Values {
        let id = self.emit_on(node, op.into(), inputs, &[])?;
        Ok(self.outputs_of(id))
    }

    /// The same for an operation that touches variables; it runs on the first one's device.
    fn emit_on(
        &mut self,
        node: &Node<'_>,
        op: Op,
        inputs: &[Output],
        variables: &[OpId],
    ) -> Result<OpId, NodeProblem> {
        let inputs: Vec<_> = inputs.iter().map(Output::edge).collect();
        let id = self.graph.add(NewOperation {
            name: Name::Exactly(&node.def.name),
            inputs: &inputs,
            control_inputs: &node.controls_beside(&inputs),
            variables,
            colocated_with: variables.first().copied(),
            built_at: self.built_at,
            ..NewOperation::of(op)
        })?;
        self.operations.insert(node.def.name.clone(), id);
        Ok(id)
    }

    fn outputs_of(&self, id: OpId) -> Vec<Value> {
        let target = Target::new(self.graph.clone(), id);
        (0..).map_while(|i| target.output(i)).map(Value::from).collect()
    }

    /// Adds an operation that `node` needs beside its own, called `part` below its name.
    fn helper(
        &self,
        node: &Node<'_>,
        part: &str,
        op: impl Into<Op>,
        inputs: &[&Output],
    ) -> Result<Output, NodeProblem> {
        let names = std::iter::successors(Some(format!("{}/{part}", node.def.name)), |name| {
            Some(format!("{name}_"))
        });
        let name = names
            .into_iter()
            .find(|name| !self.names.contains(name.as_str()))
            .expect("names don't run out");
        let inputs: Vec<_> = inputs.iter().map(|input| input.edge()).collect();
        let id = self.graph.add(NewOperation {
            name: Name::Numbered(&name),
            inputs: &inputs,
            control_inputs: &node.controls,
            built_at: self.built_at,
            ..NewOperation::of(op)
        })?;
        Ok(self.graph.output(id))
    }
}
