//! The wanted nodes, in an order in which each comes after the nodes that it needs.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ImportError;
use super::wire::{GraphDef, NodeDef};

/// The node that an input names, and the index of its output; `None` for a control input.
pub(super) fn parse_input(input: &str) -> (&str, Option<usize>) {
    if let Some(node) = input.strip_prefix('^') {
        return (node, None);
    }
    match input.rsplit_once(':').and_then(|(node, output)| Some((node, output.parse().ok()?))) {
        Some((node, output)) => (node, Some(output)),
        None => (input, Some(0)),
    }
}

/// The nodes that `wanted` need, or all if none is named. Of the nodes that could come next, the
/// graph's first does.
///
/// # Errors
/// If two nodes have one name, an input or a wanted name does not exist, or nodes need each other.
pub(super) fn sorted<'a>(
    graph: &'a GraphDef,
    wanted: &[&str],
) -> Result<Vec<&'a NodeDef>, ImportError> {
    let by_name = by_name(graph)?;
    let find = |name: &str| {
        by_name.get(name).copied().ok_or_else(|| ImportError::NotFound(name.to_owned()))
    };
    let roots = match wanted {
        [] => (0..graph.node.len()).collect(),
        _ => wanted.iter().map(|name| find(parse_input(name).0)).collect::<Result<Vec<_>, _>>()?,
    };
    let mut walk = Walk {
        graph,
        by_name: &by_name,
        state: vec![State::New; graph.node.len()],
        done: Vec::new(),
    };
    roots.into_iter().try_for_each(|root| walk.visit(root))?;
    Ok(walk.done)
}

/// The nodes that `wanted` need, and those that give the variables among them their first values.
///
/// # Errors
/// As [`sorted`]; if nothing gives a variable its first value.
pub(super) fn sorted_with_first_values<'a>(
    graph: &'a GraphDef,
    wanted: &[&str],
) -> Result<Vec<&'a NodeDef>, ImportError> {
    let mut wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    loop {
        let nodes = sorted(graph, &wanted.iter().map(String::as_str).collect::<Vec<_>>())?;
        let found: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let variables = nodes.iter().filter(|node| is_variable(node));
        let first_values = variables.map(|node| (&node.name, first_value(&node.name)));
        let missing: Vec<_> =
            first_values.filter(|(_, assign)| !found.contains(assign.as_str())).collect();
        if missing.is_empty() {
            return Ok(nodes);
        }
        for (variable, assign) in missing {
            if !graph.node.iter().any(|node| node.name == assign) {
                return Err(ImportError::NoFirstValue(variable.clone()));
            }
            wanted.push(assign);
        }
    }
}

/// The node that gives the variable `name` its first value, by TensorFlow's names.
pub(super) fn first_value(name: &str) -> String {
    format!("{name}/Assign")
}

/// Whether `node` declares a variable.
pub(super) fn is_variable(node: &NodeDef) -> bool {
    matches!(node.op.as_str(), "Variable" | "VariableV2" | "VarHandleOp")
}

/// Whether `node` reads a variable, if its input is one.
pub(super) fn is_read(node: &NodeDef) -> bool {
    matches!(node.op.as_str(), "Identity" | "ReadVariableOp")
}

/// The most nodes that hand a variable on, one after the other.
const MOST: usize = 100;

/// The node that `input` names, or the first that hands its value on through branches, loops and
/// identities; and whether a branch is among these.
pub(super) fn origin<'a>(
    by_name: &BTreeMap<&'a str, &'a NodeDef>,
    input: &'a str,
) -> (&'a str, bool) {
    let (mut name, mut is_in_branch) = (parse_input(input).0, false);
    for _ in 0..MOST {
        let Some(node) = by_name.get(name) else { break };
        let is_branch = node.op.ends_with("Switch");
        if !is_branch && !["Enter", "Identity"].iter().any(|kind| node.op.ends_with(kind)) {
            break;
        }
        let Some(input) = node.input.first() else { break };
        (name, is_in_branch) = (parse_input(input).0, is_in_branch || is_branch);
    }
    (name, is_in_branch)
}

/// The index of each node by its name.
fn by_name(graph: &GraphDef) -> Result<BTreeMap<&str, usize>, ImportError> {
    let mut by_name = BTreeMap::new();
    for (i, node) in graph.node.iter().enumerate() {
        if by_name.insert(node.name.as_str(), i).is_some() {
            return Err(ImportError::DuplicateName(node.name.clone()));
        }
    }
    Ok(by_name)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// A walk from nodes to the nodes that they need. Without recursion, since a chain of nodes may be
/// long.
struct Walk<'a, 'b> {
    graph: &'a GraphDef,
    by_name: &'b BTreeMap<&'a str, usize>,
    state: Vec<State>,
    done: Vec<&'a NodeDef>,
}

impl Walk<'_, '_> {
    fn visit(&mut self, root: usize) -> Result<(), ImportError> {
        let mut path = if self.state[root] == State::New { vec![(root, 0)] } else { vec![] };
        while let Some((node, next)) = path.last_mut() {
            let (at, def) = (*node, &self.graph.node[*node]);
            self.state[at] = State::Open;
            let Some(input) = def.input.get(*next) else {
                self.state[at] = State::Done;
                self.done.push(def);
                path.pop();
                continue;
            };
            *next += 1;
            let Some(needed) = self.by_name.get(parse_input(input).0).copied() else {
                return Err(super::node::fail(def, super::NodeProblem::NoSuchInput(input.clone())));
            };
            match self.state[needed] {
                State::Done => {}
                State::New => path.push((needed, 0)),
                State::Open => {
                    let from = path.iter().position(|(node, _)| *node == needed).unwrap_or(0);
                    let names =
                        path[from..].iter().map(|(node, _)| self.graph.node[*node].name.clone());
                    return Err(ImportError::Cycle(names.collect()));
                }
            }
        }
        Ok(())
    }
}
