//! The translation of nodes to operations: one at a time, each after the nodes that it needs.

mod array;
mod cells;
mod composed;
mod condition;
mod control;
mod custom;
mod dilation;
mod draws;
mod einsum;
mod emit;
mod images;
mod indexed;
mod list;
mod math;
mod norm;
mod reduction;
mod resized;
mod segments;
mod sparse;
mod state;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;

use super::known::Known;
use super::node::{Def, Node};
use super::order::{is_read, is_variable, parse_input};
use super::tensor::MOST_REPEATED;
use super::value::{Branch, SummedTo, Value};
use super::wire::{FunctionDef, GraphDef, NodeDef};
use super::{NodeProblem, fold};
use crate::cluster::DeviceSpec;
use crate::graph::{Graph, Op, OpId};
use crate::tensor::Tensor;
use cells::Cell;
use control::MOST_NODES;
use draws::Draws;
use state::Roles;
pub(super) use state::{ByName, assigns_by_handle, changes, trained};

/// The outputs of a node.
pub(super) type Values = Result<Vec<Value>, NodeProblem>;

/// The translation of nodes of one kind to operations.
pub(super) type Translate = Box<dyn Fn(&mut Importer<'_>, &Node<'_>) -> Values>;

/// The translation of `kind`, TensorFlow's word; `None` if it does not exist here.
pub(super) fn find(kind: &str) -> Option<Translate> {
    let families = [
        math::find,
        composed::find,
        reduction::find,
        array::find,
        indexed::find,
        segments::find,
        sparse::find,
        window::find,
        images::find,
        dilation::find,
        resized::find,
        condition::find,
        control::find,
        list::find,
        norm::find,
        draws::find,
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
    op: impl Fn(&Def<'_>) -> Result<O, NodeProblem> + 'static,
) -> Translate {
    Box::new(move |importer, node| {
        let inputs = importer.inputs(node)?;
        importer.emit(node, op(node.def)?, &inputs)
    })
}

/// How much a graph may still make of its few bytes.
struct Limits {
    /// Nodes of functions.
    nodes_left: std::cell::Cell<usize>,
    /// Elements that constants repeat.
    repeats_left: std::cell::Cell<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes_left: MOST_NODES.into(), repeats_left: MOST_REPEATED.into() }
    }
}

/// A graph that is being added to another.
pub(super) struct Importer<'a> {
    graph: &'a Graph,
    /// The functions that nodes name.
    library: &'a [FunctionDef],
    /// How many functions it is in, one in the other.
    depth: usize,
    /// Those of the whole graph, with its functions.
    limits: Rc<Limits>,
    /// The names of all nodes, which helper operations must not take.
    names: BTreeSet<&'a str>,
    values: BTreeMap<String, Vec<Value>>,
    operations: BTreeMap<String, OpId>,
    /// By node: the branches that it is in, if it is in one.
    branches: BTreeMap<String, Vec<Branch>>,
    /// By node without an operation: the operations that must run before its users.
    folded: BTreeMap<String, Vec<OpId>>,
    roles: Roles,
    /// Within a function: the variables of the graph around it.
    cells: Vec<Cell>,
    draws: Draws,
    /// Whether nodes keep their devices; if not, the scopes in force place them.
    keeps_devices: bool,
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
        let (folded, branches) = (BTreeMap::new(), BTreeMap::new());
        let library = def.library.as_ref().map_or(&[][..], |library| library.function.as_slice());
        Self {
            graph,
            library,
            depth: 0,
            limits: Rc::default(),
            names,
            values,
            operations,
            branches,
            folded,
            roles: Roles::of(def, nodes),
            cells: Vec::new(),
            draws: Draws::default(),
            keeps_devices: true,
            built_at,
        }
    }

    /// The same, whose nodes are placed by the scopes in force.
    pub(super) fn without_devices(self) -> Self {
        Self { keeps_devices: false, ..self }
    }

    /// The nodes in the order in which they are added: variables, their slots, reads of variables,
    /// then all others in their order.
    pub(super) fn variables_first<'n>(&self, nodes: &[&'n NodeDef]) -> Vec<&'n NodeDef> {
        let declared: BTreeSet<&str> = nodes
            .iter()
            .filter(|node| is_variable(node) && node.input.is_empty())
            .map(|node| node.name.as_str())
            .collect();
        let mut ordered = nodes.to_vec();
        ordered.sort_by_key(|node| match node.input.as_slice() {
            [] if declared.contains(node.name.as_str()) => {
                usize::from(self.roles.is_slot(&node.name))
            }
            [read] if is_read(node) && declared.contains(read.as_str()) => 2,
            _ => 3,
        });
        ordered
    }

    pub(super) fn finish(self) -> (BTreeMap<String, Vec<Value>>, BTreeMap<String, OpId>) {
        (self.values, self.operations)
    }

    /// Adds `def`, whose inputs have been added. A device name that is malformed here is ignored.
    pub(super) fn add(&mut self, def: &NodeDef) -> Result<(), NodeProblem> {
        let def = &Def::new(def);
        let node = self.node(def)?;
        let graph = self.graph.clone();
        let is_device = self.keeps_devices && def.device.parse::<DeviceSpec>().is_ok();
        let device = if is_device { def.device.as_str() } else { "" };
        let mut values = graph.with_device(device, |_| Ok(self.translate(&node)))??;
        def.check_all_read()?;
        self.refuse_custom_gradient(&node, &mut values)?;
        let after = node.known_after();
        if let [value] = values.as_mut_slice()
            && value.constant.is_none()
            && let Some(computed) = self.computed(&node)
        {
            value.known = value.known.take().or_else(|| Known::of(&computed));
            value.constant = Some(computed);
        }
        let is_switch = def.op.ends_with("Switch");
        for value in &mut values {
            if !is_switch && !def.op.ends_with("Merge") {
                value.branches.clone_from(&node.branches);
            }
            if value.constant.is_some() || value.known.is_some() {
                value.after.clone_from(&after);
            }
        }
        // What waits for a `Switch` is in neither of the branches that it begins.
        let own = match values.first() {
            Some(first) if !is_switch => &first.branches,
            _ => &node.branches,
        };
        if !own.is_empty() {
            self.branches.insert(def.name.clone(), own.clone());
        }
        self.values.insert(def.name.clone(), values);
        if !self.operations.contains_key(&def.name) {
            self.folded.insert(def.name.clone(), node.needs);
        }
        Ok(())
    }

    fn node<'n>(&self, def: &'n Def<'n>) -> Result<Node<'n>, NodeProblem> {
        let (mut inputs, mut controls, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        let mut branches: Vec<Branch> = Vec::new();
        for input in &def.input {
            let missing = || NodeProblem::NoSuchInput(input.clone());
            match parse_input(input) {
                (name, None) => {
                    controls.extend(self.run_for(name));
                    branches.extend(self.branches.get(name).into_iter().flatten().cloned());
                }
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
        branches.extend(inputs.iter().flat_map(|value: &Value| value.branches.iter().cloned()));
        let mut once: Vec<Branch> = Vec::new();
        for branch in branches {
            if !once.contains(&branch) {
                once.push(branch);
            }
        }
        needs.extend(&controls);
        needs.sort();
        needs.dedup();
        needs.retain(|id| !self.is_free(*id));
        Ok(Node { def, inputs, controls, needs, branches: once })
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
        if let Some(values) = list::handed_on(self, node)? {
            return Ok(values);
        }
        if node.def.op == "BroadcastGradientArgs"
            && let [Some(a), Some(b)] = [node.known(0).ok(), node.known(1).ok()]
            && fold::depends_on_the_step(a, b)
        {
            let rank = a.elements.len().max(b.elements.len());
            let known = fold::fold(node).unwrap_or_default().into_iter().zip([a, b]);
            let with = |(axes, shape): (Known, &Known)| {
                let is_open = shape.ints().is_none() && !shape.has_unknown();
                let is_told = shape.like.is_some() || is_open;
                let like = is_told.then(|| array::like(self, node, shape)).transpose()?;
                let summed_to = like.map(|like| SummedTo { like, rank });
                Ok(Value { summed_to, ..Value::from(axes) })
            };
            return known.map(with).collect();
        }
        if node.def.op == "BroadcastGradientArgs"
            && (node.known(0).is_err() || node.known(1).is_err())
        {
            return array::sums_of_the_step(self, node);
        }
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

    /// The value of a node that an operation of the library computes from constants alone.
    fn computed(&self, node: &Node<'_>) -> Option<Tensor> {
        /// The most elements that are computed.
        const MOST: usize = 16;
        if node.def.op == "PlaceholderWithDefault" {
            return None; // a step may feed another value
        }
        let id = self.operations.get(&node.def.name)?;
        let constants: Vec<&Tensor> =
            node.inputs.iter().map(|input| input.constant.as_ref()).collect::<Option<_>>()?;
        let is_small = |x: &&Tensor| x.shape().elements() <= MOST && !x.is_hollow();
        let inputs: Vec<_> = node.inputs.iter().filter_map(|i| i.output.as_ref()).collect();
        let edges: Vec<_> = inputs.iter().map(|input| input.edge()).collect();
        let op = self.graph.with_operation(*id, |operation| match &operation.op {
            Op::Defined(op) if operation.inputs.as_slice() == edges => {
                let shape = operation.outputs.first()?.shape.known()?;
                (shape.elements() <= MOST).then(|| op.clone())
            }
            _ => None,
        })?;
        if constants.is_empty() || edges.len() != constants.len() || !constants.iter().all(is_small)
        {
            return None;
        }
        op.definition().compute(&constants).ok()?.into_iter().next()
    }
}
