//! Placeholders, constants and variables, by reference or by handle.

mod step;
mod trained;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use super::cells::Change;
use super::{Importer, Node, NodeProblem, Translate, Values, with_attributes};
use crate::graph::{Name, NewOperation, Op, OpId, VariableSpec};
use crate::import::known::Known;
use crate::import::order::{first_value, origin, parse_input};
use crate::import::value::Value;
use crate::import::wire::{GraphDef, NodeDef};
use crate::operations::{Guard, Unary};
use crate::tensor::DType;
pub(in crate::import) use trained::{ByName, trained};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Placeholder" => with_attributes(|def| {
            Ok(Op::Placeholder { dtype: def.dtype("dtype")?, shape: def.shape("shape")? })
        }),
        "PlaceholderWithDefault" => Box::new(with_default),
        "Const" => Box::new(constant),
        "Variable" | "VariableV2" | "VarHandleOp" => Box::new(variable),
        "ReadVariableOp" => Box::new(identity),
        "Assign" | "AssignVariableOp" => Box::new(assign),
        "AssignAdd" | "AssignAddVariableOp" => Box::new(step::add),
        "AssignSub" | "AssignSubVariableOp" => {
            Box::new(|importer, node| store(importer, node, Op::AssignAdd, true))
        }
        "VariableShape" => Box::new(|importer, node| {
            let dtype = node.def.optional_dtype("out_type")?.unwrap_or(DType::I32);
            Ok(vec![Known::shape_of(&importer.input(node, 0)?, dtype).into()])
        }),
        "IsVariableInitialized" | "VarIsInitializedOp" => Box::new(|importer, node| {
            let variable = variable_at(node, 0)?;
            let id = importer.emit_on(node, Op::IsVariableInitialized, &[], &[variable])?;
            Ok(importer.outputs_of(id))
        }),
        _ => return update::find(kind),
    })
}

/// Facts about variables that follow from other nodes than their declarations.
#[derive(Default)]
pub(super) struct Roles {
    /// The variables that the graph trains.
    updated: BTreeSet<String>,
    /// By slot: the variable that it is beside.
    slots: BTreeMap<String, String>,
    /// By variable or slot: the scalars that are kept beside it.
    scalars: BTreeMap<OpId, Vec<(&'static str, OpId)>>,
    /// The nodes that only first values of variables need.
    first_values: BTreeSet<String>,
    /// The variables by handle that are assigned after their first values: a read may be older.
    reassigned: BTreeSet<String>,
    /// Those that have been added.
    reassigned_ids: BTreeSet<OpId>,
}

impl Roles {
    /// The roles in a graph of which `nodes` are imported. Variables are trainable that the whole
    /// graph trains.
    pub(super) fn of(graph: &GraphDef, nodes: &[&NodeDef]) -> Self {
        let by_name: ByName<'_> = graph.node.iter().map(|node| (&*node.name, node)).collect();
        let updated = trained(&by_name).into_iter().map(str::to_owned).collect();
        let first_values = of_first_values(nodes);
        let reassigned = nodes.iter().filter_map(|node| reassigned(node)).collect();
        let mut roles = Self { updated, first_values, reassigned, ..Self::default() };
        for node in nodes.iter().filter(|node| learns(&node.op)) {
            let input = |i: usize| node.input.get(i).map(|input| origin(&by_name, input).0);
            let slots = update::slots(&node.op).iter();
            let slots = slots.filter_map(|slot| Some([input(*slot)?, input(0)?]));
            for [slot, of] in slots.chain(trained::slot(&by_name, node)) {
                roles.slots.insert(slot.to_owned(), of.to_owned());
            }
        }
        roles
    }

    /// Whether a value that was read of `variable`, by handle, may be older than the variable's.
    pub(super) fn is_reassigned(&self, variable: OpId) -> bool {
        self.reassigned_ids.contains(&variable)
    }

    /// Whether only first values of variables need the node `name`: no step runs it.
    pub(super) fn is_of_first_values(&self, name: &str) -> bool {
        self.first_values.contains(name)
    }

    /// Whether the variable `name` is a slot of another.
    pub(super) fn is_slot(&self, name: &str) -> bool {
        self.slots.contains_key(name)
    }
}

/// Those of `nodes`, each after what it needs, that only first values of variables need.
fn of_first_values(nodes: &[&NodeDef]) -> BTreeSet<String> {
    let mut needed: BTreeMap<&str, bool> = BTreeMap::new(); // for first values alone?
    for node in nodes.iter().rev() {
        let gives = |input: &String| node.name == first_value(parse_input(input).0);
        let alone = node.input.first().is_some_and(gives)
            || needed.get(node.name.as_str()).copied().unwrap_or(false);
        for input in &node.input {
            *needed.entry(parse_input(input).0).or_insert(true) &= alone;
        }
    }
    needed.into_iter().filter(|(_, alone)| *alone).map(|(name, _)| name.to_owned()).collect()
}

/// Whether nodes of `kind` update the variable that is their first input, as an optimizer does.
pub(in crate::import) fn learns(kind: &str) -> bool {
    update::is_known(kind) || super::sparse::is_update(kind)
}

/// The variable by handle that `node` assigns, if that is not its first value.
fn reassigned(node: &NodeDef) -> Option<String> {
    let variable = parse_input(node.input.first()?).0;
    let is_later = assigns_by_handle(&node.op) && node.name != first_value(variable);
    is_later.then(|| variable.to_owned())
}

/// Whether nodes of `kind` assign the variable whose handle is their first input.
pub(in crate::import) fn assigns_by_handle(kind: &str) -> bool {
    matches!(kind, "AssignVariableOp" | "AssignAddVariableOp" | "AssignSubVariableOp")
}

/// Whether nodes of `kind` change the variable that is their first input.
pub(in crate::import) fn changes(kind: &str) -> bool {
    learns(kind) || matches!(kind, "Assign" | "AssignAdd" | "AssignSub")
}

pub(super) fn variable_at(node: &Node<'_>, i: usize) -> Result<OpId, NodeProblem> {
    let value = node.value(i)?;
    if value.cell.is_some() {
        return Err(NodeProblem::unsupported(
            "in a function or a loop, assignments, additions and subtractions alone change a \
             variable",
        ));
    }
    Ok(value.variable.ok_or(NodeProblem::NoVariable(i))?.0)
}

/// The same value; for a variable, its value at that time.
pub(super) fn identity(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if let Value { output: None, variable: Some((variable, after)), .. } = node.value(0)? {
        if node.controls.is_empty()
            && after.is_none()
            && let Some(read) = importer.graph.shared_read(*variable)
        {
            importer.operations.insert(node.def.name.clone(), read);
            return Ok(importer.outputs_of(read).into_iter().take(1).collect());
        }
        let controls = node.controls.iter().copied().chain(*after).collect();
        let after = node.with_controls(controls);
        let id = importer.emit_on(&after, Op::ReadVariable, &[], &[*variable])?;
        importer.graph.share_read(*variable, id);
        return Ok(importer.outputs_of(id).into_iter().take(1).collect());
    }
    let x = importer.input(node, 0)?;
    let constant = node.value(0)?.constant.clone();
    let values = importer.emit(node, Op::Identity, &[x])?;
    Ok(values.into_iter().map(|value| Value { constant: constant.clone(), ..value }).collect())
}

/// An input of the declared shape, or of the default's where none is declared.
fn with_default(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let default = importer.input(node, 0)?;
    let shape = match node.def.declares_rank("shape") {
        true => node.def.shape("shape")?,
        false => default.tensor_type().shape,
    };
    importer.emit(node, Guard::PlaceholderWithDefault { shape }, &[default])
}

/// A constant; a text has no operation, since only messages are made of texts.
fn constant(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if let Some(text) = node.def.text_of_tensor("value") {
        return Ok(vec![Value { text: Some(text), ..Value::default() }]);
    }
    let tensor = node.def.tensor("value", &importer.limits.repeats_left)?;
    let (known, constant) = (Known::of(&tensor), Some(tensor.clone()));
    let values = importer.emit(node, Op::Const(tensor), &[])?;
    let with = |value| Value { constant: constant.clone(), known: known.clone(), ..value };
    Ok(values.into_iter().map(with).collect())
}

/// A variable; a slot is on the device of the variable that it is beside.
fn variable(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let def = node.def;
    let shape = def.shape("shape")?.known();
    let shape = shape
        .ok_or_else(|| NodeProblem::unsupported("a variable's shape must be known in full"))?;
    let shared_name = match def.text("shared_name")? {
        "" => importer.graph.scoped_name(&def.name),
        name => name.to_owned(),
    };
    let dtype = def.dtype("dtype")?;
    let updated = &importer.roles.updated;
    let trainable = dtype == DType::F32 && (updated.is_empty() || updated.contains(&def.name));
    let container = def.text("container")?.into();
    let shared_name = shared_name.into();
    let spec = VariableSpec { shared_name, container, dtype, shape, trainable, is_local: false };
    if let Some(existing) = step::global_step_like(importer, &spec) {
        return Ok(vec![Value { variable: Some((existing, None)), ..Value::default() }]);
    }
    let id = importer.graph.add(NewOperation {
        name: Name::Exactly(&def.name),
        colocated_with: importer.beside(&def.name),
        built_at: importer.built_at,
        ..NewOperation::of(Op::Variable(spec))
    })?;
    if importer.roles.reassigned.contains(&def.name) {
        importer.roles.reassigned_ids.insert(id);
    }
    Ok(vec![Value { variable: Some((id, None)), ..Value::default() }])
}

/// Assigns a variable.
fn assign(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    if let Some(cell) = node.value(0)?.cell {
        return importer.change_cell(node, cell, Change::Assign);
    }
    let (variable, name) = (variable_at(node, 0)?, parse_input(&node.def.input[0]).0);
    let is_first = node.def.name == first_value(name);
    if is_first && let Some(known) = importer.graph.initializer_of(variable) {
        importer.operations.insert(node.def.name.clone(), known);
        return Ok(vec![Value { variable: Some((variable, Some(known))), ..Value::default() }]);
    }
    let values = store(importer, node, Op::Assign, false)?;
    if is_first && let Some(begin) = importer.operations.get(&node.def.name) {
        importer.graph.add_initializer(*begin);
    }
    Ok(values)
}

/// Stores or adds input 1, negated if it is to be subtracted.
fn store(importer: &mut Importer<'_>, node: &Node<'_>, op: Op, is_negated: bool) -> Values {
    if let Some(cell) = node.value(0)?.cell {
        let change = if is_negated { Change::Sub } else { Change::Add };
        return importer.change_cell(node, cell, change);
    }
    let (variable, mut value) = (variable_at(node, 0)?, importer.input(node, 1)?);
    if is_negated {
        value = importer.helper(node, "negated", Unary::Neg, &[&value])?;
    }
    let id = importer.emit_on(node, op, &[value], &[variable])?;
    let refers = |value| Value { variable: Some((variable, Some(id))), ..value };
    Ok(importer.outputs_of(id).into_iter().map(refers).collect())
}

impl Importer<'_> {
    /// The variable beside which the slot `name` is, if it is one.
    fn beside(&self, name: &str) -> Option<OpId> {
        let values = self.values.get(self.roles.slots.get(name)?)?;
        values.first()?.variable.map(|(variable, _)| variable)
    }
}
