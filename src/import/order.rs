//! The wanted nodes, in an order in which each comes after the nodes that it needs.

use std::collections::BTreeMap;

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
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, node) in graph.node.iter().enumerate() {
        if by_name.insert(&node.name, i).is_some() {
            return Err(ImportError::DuplicateName(node.name.clone()));
        }
    }
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
