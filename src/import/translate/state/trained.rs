//! The variables that a graph trains, and the slots of whose rows are updated by ordinary nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{learns, update};
use crate::import::order::{is_variable, origin};
use crate::import::wire::{NodeDef, Value};

/// The nodes of a graph by their names.
pub(in crate::import) type ByName<'a> = BTreeMap<&'a str, &'a NodeDef>;

/// The variables that a graph with an optimizer trains: those that the optimizer's nodes update,
/// wholly or in some rows, and those that a gradient is subtracted from. TensorFlow's Adam has no
/// node for some rows: it adds to the rows of its slots, which are kept beside the variable, and
/// subtracts from that. None of a graph without an optimizer, which may assign in any way.
pub(in crate::import) fn trained<'a>(nodes: &ByName<'a>) -> BTreeSet<&'a str> {
    if !nodes.values().any(|node| learns(&node.op)) {
        return BTreeSet::new();
    }
    let trained_by = |node: &&'a NodeDef| {
        let variable = origin(nodes, node.input.first()?).0;
        let is_slot = || beside(nodes, variable).is_some();
        let is_update = || learns(&node.op) || subtracts_a_gradient(nodes, node, variable);
        (update::is_known(&node.op) || !is_slot() && is_update()).then_some(variable)
    };
    let changes = nodes.values().filter(|node| learns(&node.op) || subtracts(&node.op));
    changes.filter_map(trained_by).collect()
}

/// The variable beside which the variable `name` is kept, another.
fn beside<'a>(nodes: &ByName<'a>, name: &str) -> Option<&'a str> {
    let Some(Value::List(classes)) = &nodes.get(name)?.attr.get("_class")?.value else {
        return None;
    };
    classes.s.iter().find_map(|class| {
        let other = std::str::from_utf8(class).ok()?.strip_prefix("loc:@")?;
        let (other, node) = nodes.get_key_value(other)?;
        (*other != name && is_variable(node)).then_some(*other)
    })
}

/// The slot of which `node`, an update, changes rows, and the variable that it is beside.
pub(super) fn slot<'a>(nodes: &ByName<'a>, node: &'a NodeDef) -> Option<[&'a str; 2]> {
    let slot = origin(nodes, node.input.first()?).0;
    let of = beside(nodes, slot).filter(|_| !update::is_known(&node.op))?;
    Some([slot, of])
}

fn subtracts(kind: &str) -> bool {
    matches!(kind, "AssignSub" | "AssignSubVariableOp")
}

/// Whether what `node` subtracts from `variable` is no number, as from a counter, and no share of
/// the variable's difference to another value, as from a moving average.
fn subtracts_a_gradient(nodes: &ByName<'_>, node: &NodeDef, variable: &str) -> bool {
    let Some(value) = node.input.get(1) else { return false };
    let is_number = nodes.get(origin(nodes, value).0).is_some_and(|value| value.op == "Const");
    !is_number && !is_difference(nodes, value, variable, MOST_FACTORS)
}

/// The most factors of a difference, one after the other.
const MOST_FACTORS: usize = 4;

/// The most operands of a product: `Select` has a condition, too.
const MOST_OPERANDS: usize = 3;

/// Whether `value` is `variable - …`, or a product with that.
fn is_difference(nodes: &ByName<'_>, value: &str, variable: &str, factors: usize) -> bool {
    let Some(node) = nodes.get(origin(nodes, value).0) else { return false };
    let is_product = ["Mul", "RealDiv", "Select", "SelectV2"].contains(&&*node.op);
    let is_read = |input: &String| match nodes.get(origin(nodes, input).0) {
        Some(read) if read.op == "ReadVariableOp" => {
            read.input.first().is_some_and(|input| origin(nodes, input).0 == variable)
        }
        found => found.is_some_and(|found| found.name == variable),
    };
    let of = |input: &String| is_difference(nodes, input, variable, factors - 1);
    match node.op.as_str() {
        "Sub" => node.input.first().is_some_and(is_read),
        _ => is_product && factors > 0 && node.input.iter().take(MOST_OPERANDS).any(of),
    }
}
