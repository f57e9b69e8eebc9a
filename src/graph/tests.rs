//! Graph construction: shapes, names, scopes, pruning, and gradients by their structure.

mod array;
mod gradients;
mod initializers;
mod mistakes;
mod names;
mod prune;
mod scopes;
mod shapes;
mod sparse;
mod training_steps;
mod windows;

use std::sync::Arc;

use super::{Graph, GraphDef, GraphError, Operation, Output};
use crate::tensor::DType;

/// An f32 placeholder `name` of `shape` in `g`.
#[track_caller]
fn floats<const N: usize>(g: &Graph, name: &str, shape: [Option<usize>; N]) -> Output {
    g.placeholder(name, DType::F32, shape).unwrap()
}

fn snapshot(g: &Graph) -> Arc<GraphDef> {
    g.snapshot().unwrap()
}

fn operation(def: &GraphDef, name: &str) -> Operation {
    def.operations
        .iter()
        .find(|operation| &*operation.name == name)
        .unwrap_or_else(|| panic!("no `{name}`"))
        .clone()
}

/// The operations from the index `first` on, each written `name(input, input:1)`.
fn written(def: &GraphDef, first: usize) -> Vec<String> {
    let write = |operation: &Operation| {
        let input = |edge: &super::Edge| {
            let name = &def.operation(edge.op).name;
            if edge.output == 0 { name.to_string() } else { format!("{name}:{}", edge.output) }
        };
        let inputs: Vec<String> = operation.inputs.iter().map(input).collect();
        format!("{}({})", operation.name, inputs.join(", "))
    };
    def.operations[first..].iter().map(write).collect()
}

/// Asserts that an error's text has all of `parts`, and that the error was made in the test `file`
/// of this module.
#[track_caller]
fn assert_says(error: &GraphError, file: &str, parts: &[&str]) {
    let text = error.to_string();
    assert!(text.contains(&format!("src/graph/tests/{file}:")), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}
