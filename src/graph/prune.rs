//! Pruning: the operations that a step needs are the ancestors of its fetches, up to its feeds.

use std::collections::BTreeSet;

use super::{Edge, GraphDef, Op, OpId};

/// The operations that a step of these `fetches` and `targets` must run when `feeds` are fed.
///
/// They are in the order they were built. A variable is included if an operation touches it, though
/// it is not run itself. A fed placeholder is not included: the operations that wait for it have
/// its value.
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
