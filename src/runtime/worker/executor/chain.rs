//! Chains: elementwise kernels of a batch that run as one, and their inputs in the frame.

use smallvec::SmallVec;

use super::frame::Frame;
use crate::graph::Known;
use crate::operations::{self, ChainOp};
use crate::runtime::worker::plan::{Plan, slots_of};

/// The size from which a kernel is worth running in place \[bytes\]: half a first-level cache.
const IN_PLACE_FROM: usize = 1 << 14;

/// A node's types: those of its inputs, then that of its only output.
pub(super) type Types = (SmallVec<[Known; 3]>, Known);

/// Whether the chain that ends with `giver` can go on with `node`, whose input `at` is its output.
pub(super) fn goes_on(
    plan: &Plan,
    giver: (u32, &Types),
    (node, at, types): (u32, usize, &Types),
) -> bool {
    let (giver, of_giver) = giver;
    let ends = |at| operations::follows(&plan.node(giver).op, at, &of_giver.0, of_giver.1);
    (0..of_giver.0.len()).any(ends)
        && operations::follows(&plan.node(node).op, at, &types.0, types.1)
}

/// Runs `node` and the nodes in `chained` that lead to it as one kernel; a large node alone runs in
/// place. False, with nothing done, if `node` is neither.
pub(super) fn run(plan: &Plan, node: u32, frame: &mut Frame, chained: &mut [bool]) -> bool {
    let mut nodes: SmallVec<[(u32, usize); 6]> = SmallVec::new();
    let mut last = node;
    while let Some((at, giver)) =
        plan.tables.nodes[last as usize].chained.filter(|(_, giver)| chained[*giver as usize])
    {
        chained[giver as usize] = false;
        nodes.push((last, at));
        last = giver;
    }
    let Some(at) = first_input(plan, last, frame, nodes.is_empty()) else {
        assert!(nodes.is_empty(), "a chain begins with an elementwise operation");
        return false;
    };
    nodes.push((last, at));
    let x = frame.take(plan.node(last).inputs[at]);
    let link = |(node, at): &(u32, usize)| {
        let node = plan.node(*node);
        let other = node.inputs.iter().enumerate().find(|(i, _)| i != at);
        ChainOp { op: &node.op, at: *at, other: other.map(|(_, slot)| frame.get(*slot)) }
    };
    let links: SmallVec<[ChainOp<'_>; 6]> = nodes.iter().rev().map(link).collect();
    let result = operations::run_chain(x, &links);
    drop(links);
    for (node, at) in &nodes {
        let others = plan.node(*node).inputs.iter().enumerate().filter(|(i, _)| i != at);
        others.for_each(|(_, slot)| frame.release(*slot));
    }
    if let Some(slot) = slots_of(plan.node(node)).find(|slot| plan.is_used(*slot)) {
        frame.put(slot, result);
    }
    true
}

/// The input through which a value enters a chain that begins with `node`. A node that `is_alone`
/// makes a chain only if it is large and nothing else needs the value.
fn first_input(plan: &Plan, node: u32, frame: &Frame, is_alone: bool) -> Option<usize> {
    let node = plan.node(node);
    node.op.elementwise()?;
    let inputs: SmallVec<[Known; 3]> =
        node.inputs.iter().map(|slot| frame.known(*slot)).collect::<Option<_>>()?;
    // By rank and not by size: a value computed from no rows is smaller than a bias or a scalar.
    let (dtype, shape) = *inputs.iter().max_by_key(|(_, shape)| shape.rank())?;
    let is_worth_it = |at: &usize| {
        !is_alone
            || frame.is_last_use(node.inputs[*at])
                && dtype.size() * shape.elements() >= IN_PLACE_FROM
    };
    let fits =
        |at: &usize| operations::follows(&node.op, *at, &inputs, (dtype, shape)) && is_worth_it(at);
    (0..inputs.len()).find(fits)
}
