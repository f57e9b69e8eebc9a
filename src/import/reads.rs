//! Reads of variables by reference that come after an update: TensorFlow's see the new value.
//!
//! The read `v/read` of a variable by reference hands on the variable's own memory, so that whoever
//! uses it after an update finds what that has written. Here a read is a value of its own. So each
//! node that an update comes before gets a read of its own, after that update. Where neither comes
//! before the other, TensorFlow's result depends on which is faster, and the value is the old one.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{ImportError, NodeProblem};
use super::node::fail;
use super::order::{first_value, parse_input};
use super::translate::changes;
use super::wire::{GraphDef, NodeDef};

/// The most nodes and uses that are looked at, for all updates together: what a graph of 16,000
/// variables has whose updates follow each other.
const MOST_STEPS: usize = 1 << 28;

/// Gives each node of `graph` that uses a variable's read after an update a read of its own.
///
/// # Errors
/// If far too many nodes come after the updates of far too many variables.
pub(super) fn after_updates(graph: &mut GraphDef) -> Result<(), ImportError> {
    let plan = plan(graph)?;
    let mut taken: BTreeSet<String> = graph.node.iter().map(|node| node.name.clone()).collect();
    let mut names: BTreeMap<(usize, Vec<usize>), String> = BTreeMap::new();
    let mut reads = Vec::new();
    let mut renamed = Vec::new();
    for Use { node, input, read, updates } in plan {
        let name = names.entry((read, updates.clone())).or_insert_with(|| {
            let old = &graph.node[read];
            let mut numbered = (1..).map(|number| format!("{}_{number}", old.name));
            let name = numbered.find(|name| !taken.contains(name)).expect("one is free");
            taken.insert(name.clone());
            let controls = updates.iter().map(|update| format!("^{}", graph.node[*update].name));
            let input = old.input.iter().cloned().chain(controls).collect();
            reads.push(NodeDef { name: name.clone(), input, ..old.clone() });
            name
        });
        renamed.push((node, input, name.clone()));
    }
    for (node, input, name) in renamed {
        graph.node[node].input[input] = name;
    }
    graph.node.extend(reads);
    Ok(())
}

/// An input of a node that is a read of a variable, where updates of it come before the node.
struct Use {
    node: usize,
    input: usize,
    read: usize,
    updates: Vec<usize>,
}

fn plan(graph: &GraphDef) -> Result<Vec<Use>, ImportError> {
    let by_name: BTreeMap<&str, usize> =
        graph.node.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
    let is_reference = |name: &str| {
        by_name.get(name).is_some_and(|index| {
            matches!(graph.node[*index].op.as_str(), "Variable" | "VariableV2")
        })
    };
    let (mut reads, mut updates) = (BTreeMap::new(), BTreeMap::<&str, Vec<usize>>::new());
    for (index, node) in graph.node.iter().enumerate() {
        let variable = node.input.first().map_or("", |input| parse_input(input).0);
        if !is_reference(variable) {
            continue;
        }
        if node.op == "Identity" && node.input.len() == 1 {
            reads.insert(node.name.as_str(), (index, variable));
        } else if changes(&node.op) && node.name != first_value(variable) {
            updates.entry(variable).or_default().push(index);
        }
    }
    if updates.is_empty() {
        return Ok(Vec::new());
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        let needed = node.input.iter().filter_map(|input| by_name.get(parse_input(input).0));
        needed.for_each(|needed| users[*needed].push(index));
    }
    let (mut found, mut steps) = (BTreeMap::<(usize, usize), Use>::new(), 0);
    let each = updates.iter().flat_map(|(variable, all)| all.iter().map(|one| (*variable, *one)));
    for (variable, update) in each {
        let nodes = after(update, &users);
        steps += nodes.iter().map(|node| 1 + users[*node].len()).sum::<usize>();
        if steps > MOST_STEPS {
            let what = "too many nodes come after too many updates of variables";
            return Err(fail(&graph.node[update], NodeProblem::unsupported(what)));
        }
        let inputs = |node: usize| graph.node[node].input.iter().enumerate();
        let inputs = nodes.into_iter().flat_map(|node| inputs(node).map(move |one| (node, one)));
        for (node, (input, name)) in inputs {
            if let Some((read, of)) = reads.get(name.as_str())
                && *of == variable
            {
                let none = || Use { node, input, read: *read, updates: Vec::new() };
                found.entry((node, input)).or_insert_with(none).updates.push(update);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The nodes that come after `first`, in order.
fn after(first: usize, users: &[Vec<usize>]) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![first]);
    while let Some(node) = open.pop() {
        open.extend(users[node].iter().filter(|user| found.insert(**user)));
    }
    found
}
