//! Variables that a part of a graph reads, and that only the rest of the graph changes.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ImportError;
use super::order::{first_value, is_variable, origin, parse_input};
use super::translate::{ByName, assigns_by_handle, changes, trained};
use super::wire::NodeDef;

/// The names of the variables that the nodes called `read` need, and that a node changes which a
/// step for those called `stepped` does not run, where the graph does not train them: moving
/// averages of a batch normalisation, for one. To give a variable its first value, or one from a
/// checkpoint, is no change.
///
/// # Errors
/// If the bytes are not a GraphDef.
pub(crate) fn unchanged_variables(
    bytes: &[u8],
    stepped: &[&str],
    read: &[&str],
) -> Result<Vec<String>, ImportError> {
    let graph = super::decode(bytes)?;
    let by_name: ByName<'_> = graph.node.iter().map(|node| (&*node.name, node)).collect();
    let run = needed(&by_name, stepped);
    let (mut changed, mut kept) = (BTreeSet::new(), trained(&by_name));
    kept.insert("global_step");
    for node in &graph.node {
        let Some(variable) = node.input.first().map(|input| origin(&by_name, input).0) else {
            continue;
        };
        let is_stored = node.input.get(1).is_some_and(|value| is_restored(&by_name, value));
        if run.contains_key(&*node.name) && writes(&node.op) {
            kept.insert(variable);
        } else if writes(&node.op) && node.name != first_value(variable) && !is_stored {
            changed.insert(variable);
        }
    }
    let read = needed(&by_name, read);
    let variables = read.into_iter().filter(|(_, node)| is_variable(node)).map(|(name, _)| name);
    let names = variables.filter(|name| changed.contains(name) && !kept.contains(name));
    Ok(names.map(str::to_owned).collect())
}

/// The nodes that those called `wanted` need, through loops, too.
fn needed<'a>(
    by_name: &BTreeMap<&'a str, &'a NodeDef>,
    wanted: &[&str],
) -> BTreeMap<&'a str, &'a NodeDef> {
    let mut found = BTreeMap::new();
    let node = |name: &str| by_name.get(parse_input(name).0).copied();
    let mut next: Vec<&NodeDef> = wanted.iter().filter_map(|name| node(name)).collect();
    while let Some(one) = next.pop() {
        if found.insert(&*one.name, one).is_none() {
            next.extend(one.input.iter().filter_map(|name| node(name)));
        }
    }
    found
}

/// Whether nodes of `kind` change the variable that is their first input.
fn writes(kind: &str) -> bool {
    changes(kind) || assigns_by_handle(kind)
}

fn is_restored<'a>(by_name: &BTreeMap<&'a str, &'a NodeDef>, value: &'a str) -> bool {
    by_name.get(origin(by_name, value).0).is_some_and(|node| node.op.starts_with("Restore"))
}
