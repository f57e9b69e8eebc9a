//! Why an operation of a graph counts no training step, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use super::order::{first_value, is_variable, origin, parse_input};
use super::tensor::dtype;
use super::wire::{NodeDef, Value};
use crate::tensor::DType;

const NAME: &str = "global_step";

/// What is found of the step counter in `nodes`, and the way out.
pub(super) fn why_uncounted(nodes: &[&NodeDef]) -> String {
    let by_name: BTreeMap<&str, &NodeDef> = nodes.iter().map(|node| (&*node.name, *node)).collect();
    let variables = || nodes.iter().filter(|node| is_variable(node));
    let Some(step) = variables().find(|node| node.name == NAME) else {
        let adding = nodes.iter().filter(|node| adds(node));
        let added: BTreeSet<&str> = adding.map(|node| first_origin(&by_name, node).0).collect();
        let is_counter = |node: &&&NodeDef| {
            let counts = dtype_of(node).is_some_and(DType::is_integer);
            counts && added.contains(&*node.name)
        };
        return match variables().find(is_counter) {
            Some(other) => format!(
                "`{}` is counted, and the variable must be called `{NAME}`, in no scope: {MAKE}",
                other.name
            ),
            None => format!("the graph has no variable `{NAME}` that it needs: {WRITE}"),
        };
    };
    match dtype_of(step) {
        Some(DType::I64) => {}
        Some(other) => return format!("`{NAME}` is {other}, and must be i64: {MAKE}"),
        None => return format!("`{NAME}` must be i64: {MAKE}"),
    }
    let touches = |node: &&&NodeDef| {
        let first = first_origin(&by_name, node).0 == NAME;
        first && (adds(node) || matches!(&*node.op, "Assign" | "AssignVariableOp"))
    };
    let is_first_value = |node: &&&NodeDef| node.name == first_value(NAME);
    let changes: Vec<&&NodeDef> =
        nodes.iter().filter(touches).filter(|node| !is_first_value(node)).collect();
    let is_function = |node: &&&NodeDef| {
        let has_functions = ["If", "While", "Call"].iter().any(|kind| node.op.ends_with(kind));
        has_functions && node.input.iter().any(|input| parse_input(input).0 == NAME)
    };
    let in_branch = changes.iter().find(|node| first_origin(&by_name, node).1);
    let inside = in_branch.copied().or_else(|| nodes.iter().find(is_function));
    match (inside, changes.first()) {
        (Some(inside), _) => format!(
            "`{NAME}` is counted by `{}`, within a condition or a function, and so not in each \
             step: count it after that, by `tf.assign_add({NAME}, 1)`",
            inside.name
        ),
        (None, Some(count)) if adds(count) => format!(
            "`{}` ({}) adds to `{NAME}`, but not the constant 1, or it is not waited for: count it \
             by `tf.assign_add({NAME}, 1)`, and group both",
            count.name, count.op
        ),
        (None, Some(change)) => format!(
            "`{}` ({}) changes `{NAME}`, and does not add the constant 1: count it by \
             `tf.assign_add({NAME}, 1)`",
            change.name, change.op
        ),
        (None, None) => format!("it does not change `{NAME}`: {WRITE}"),
    }
}

/// What makes a step counter that all programs know.
const MAKE: &str = "make it by `tf.train.get_or_create_global_step()`";
const WRITE: &str = "write the graph with `minimize(loss, \
                     global_step=tf.train.get_or_create_global_step())`";

fn adds(node: &NodeDef) -> bool {
    matches!(&*node.op, "AssignAdd" | "AssignAddVariableOp")
}

fn dtype_of(node: &NodeDef) -> Option<DType> {
    match node.attr.get("dtype")?.value.as_ref()? {
        Value::Type(number) => dtype(*number),
        _ => None,
    }
}

/// The [`origin`] of the first input of `node`.
fn first_origin<'a>(
    by_name: &BTreeMap<&'a str, &'a NodeDef>,
    node: &'a NodeDef,
) -> (&'a str, bool) {
    node.input.first().map_or(("", false), |input| origin(by_name, input))
}
