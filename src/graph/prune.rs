//! Which operations a step needs: the ancestors of what it fetches, up to what it is fed.

use std::collections::BTreeSet;

use super::{Edge, GraphDef, Op, OpId};

/// The operations that must run so that `fetches` and `targets` can be given, when `feeds` are fed.
///
/// In the order they were built. Variables are included where an operation touches them, though
/// they are not run themselves. A fed placeholder is not: whatever waits for it has it.
pub(crate) fn prune(
    graph: &GraphDef,
    feeds: &BTreeSet<Edge>,
    fetches: &[Edge],
    targets: &[OpId],
) -> Vec<OpId> {
    let is_fed_placeholder = |id: OpId| {
        matches!(graph.operation(id).op, Op::Placeholder { .. })
            && feeds.contains(&Edge { op: id, output: 0 })
    };
    let mut needed = vec![false; graph.operations.len()];
    let fetched = fetches.iter().filter(|edge| !feeds.contains(edge)).map(|edge| edge.op);
    let mut open: Vec<OpId> = fetched.chain(targets.iter().copied()).collect();
    while let Some(id) = open.pop() {
        if is_fed_placeholder(id) || std::mem::replace(&mut needed[id.0 as usize], true) {
            continue;
        }
        let operation = graph.operation(id);
        open.extend(
            operation.inputs.iter().filter(|edge| !feeds.contains(edge)).map(|edge| edge.op),
        );
        open.extend(operation.control_inputs.iter().chain(&operation.variables));
    }
    (0..graph.operations.len() as u32).map(OpId).filter(|id| needed[id.0 as usize]).collect()
}
