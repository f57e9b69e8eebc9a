//! Pruning: the operations that a step needs, and those that it does not run.

use std::collections::BTreeSet;

use super::{floats, snapshot};
use crate::graph::{Graph, GraphError, Output, Target, prune};

/// The names of the operations that a step needs, in order.
fn needed(g: &Graph, feeds: &[&Output], fetches: &[&Output], targets: &[&Target]) -> Vec<String> {
    let def = snapshot(g);
    let feeds: BTreeSet<_> = feeds.iter().map(|output| output.edge()).collect();
    let fetches: Vec<_> = fetches.iter().map(|output| output.edge()).collect();
    let targets: Vec<_> = targets.iter().map(|target| target.op_id()).collect();
    prune(&def, &feeds, &fetches, &targets)
        .into_iter()
        .map(|id| def.operation(id).name.to_string())
        .collect()
}

#[test]
fn a_fetch_needs_its_ancestors_and_nothing_else() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let y = x.relu();
    x.tanh();
    y.sigmoid();
    assert_eq!(needed(&g, &[], &[&y], &[]), ["x", "Relu"]);
    assert_eq!(needed(&g, &[], &[], &[&y.target()]), ["x", "Relu"]);
    assert_eq!(needed(&g, &[], &[], &[]), [""; 0]);
}

#[test]
fn a_feed_cuts_what_it_stands_for() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let h = x.relu();
    let y = h.tanh();
    assert_eq!(needed(&g, &[&h], &[&y], &[]), ["Tanh"]);
    assert_eq!(needed(&g, &[&x], &[&y], &[]), ["Relu", "Tanh"]);
    assert_eq!(needed(&g, &[&y], &[&y], &[]), [""; 0], "the client has what it feeds");
    assert_eq!(
        needed(&g, &[&h], &[&y], &[&h.target()]),
        ["x", "Relu", "Tanh"],
        "a target runs, fed or not"
    );
}

#[test]
fn control_inputs_are_needed_also_of_what_is_fed_unless_they_are_a_fed_placeholder()
-> Result<(), GraphError> {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let first = x.relu();
    let after = |target: &Target| g.with_control_dependencies(&[target], |g| Ok(g.zeros([2])));
    let (after_first, after_x) = (after(&first.target())?, after(&x.target())?);
    assert_eq!(needed(&g, &[&x, &first], &[&after_first], &[]), ["Relu", "Fill"]);
    assert_eq!(needed(&g, &[&x], &[&after_x], &[&x.target()]), ["Fill_1"]);
    assert_eq!(needed(&g, &[], &[&after_x], &[]), ["x", "Fill_1"]);
    Ok(())
}

#[test]
fn a_variable_is_needed_by_what_touches_it_and_its_initializer_is_not() -> Result<(), GraphError> {
    let g = Graph::new();
    let w = g.variable("w", &g.zeros([2]))?;
    assert_eq!(needed(&g, &[], &[&w.read()], &[]), ["w", "w/read"]);
    assert_eq!(needed(&g, &[], &[], &[&g.initializer()]), ["Fill", "w", "w/Assign", "init"]);
    Ok(())
}
