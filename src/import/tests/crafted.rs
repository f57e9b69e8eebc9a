//! Graphs that nothing exports, made to keep an import busy.

use super::*;
use crate::import::wire::{Argument, FunctionDef, FunctionName, Library, Signature};

/// A loop of TensorFlow's first kind, whose `switch` and whose `last`, which the loop hands out,
/// have these inputs.
fn frame(switch: &str, last: &[&str]) -> Vec<NodeDef> {
    let typed = |node: NodeDef| node.with("T", Value::Type(I32));
    let frame_name = Value::S(b"frame".to_vec());
    vec![
        ints("zero", &[0]),
        typed(node("Enter", "enter", &["zero"])).with("frame_name", frame_name),
        typed(node("Merge", "merge", &["enter", "next"])),
        ints("limit", &[3]),
        typed(node("Less", "less", &["merge", "limit"])),
        node("LoopCond", "goes_on", &["less"]),
        typed(node("Switch", "switch", &[switch, "goes_on"])),
        typed(node("Identity", "last", last)),
        typed(node("NextIteration", "next", &["switch:1"])),
        typed(node("Exit", "exit", &["last"])),
        typed(node("Identity", "out", &["exit"])),
    ]
}

#[test]
fn a_circle_within_a_loop_is_refused() {
    assert_refused(frame("merge", &["last", "switch"]), &["exit", "no variable there"]);
    assert_refused(frame("switch", &["switch"]), &["exit", "no variable there"]);
    let pops = |stack: &str| {
        let mut nodes = frame("merge", &["switch"]);
        nodes.push(node("Identity", "stack", &[stack]));
        nodes.push(node("StackPopV2", "pop", &["stack", "^switch"]));
        nodes.push(node("Exit", "popped", &["pop"]));
        nodes.push(node("Identity", "popped/out", &["popped"]));
        nodes
    };
    assert_refused(pops("stack"), &["pop", "must be made outside of its loop"]);
}

/// A function of one argument, which it hands to `called` or negates, each time the result of the
/// time before.
fn function(name: &str, called: Option<&str>, times: usize) -> FunctionDef {
    let argument = |name: &str| Argument { name: name.to_owned(), dtype: F32 };
    let mut result = "x".to_owned();
    let mut node_def = Vec::new();
    for i in 0..times {
        let own = format!("n{i}");
        let (kind, output) = match called {
            Some(_) => ("PartitionedCall", "output"),
            None => ("Neg", "y"),
        };
        let mut node = node(kind, &own, &[&result]).with("T", Value::Type(F32));
        if let Some(called) = called {
            node = node.with("f", Value::Function(FunctionName { name: called.to_owned() }));
        }
        node_def.push(node);
        result = format!("{own}:{output}:0");
    }
    let signature = Signature {
        name: name.to_owned(),
        input_arg: vec![argument("x")],
        output_arg: vec![argument("result")],
    };
    let ret = [("result".to_owned(), result)].into();
    FunctionDef { signature: Some(signature), node_def, ret }
}

#[test]
fn functions_that_call_each_other_many_times_are_refused_by_their_nodes_in_all() {
    let imported = |times: usize| {
        let names: Vec<String> = (0..6).map(|depth| format!("f{depth}")).collect();
        let function = (0..6)
            .map(|depth| function(&names[depth], names.get(depth + 1).map(String::as_str), times));
        let call = node("PartitionedCall", "y", &["x"])
            .with("f", Value::Function(FunctionName { name: names[0].clone() }));
        let library = Some(Library { function: function.collect() });
        let def = wire::GraphDef { node: vec![placeholder("x", &[4]), call], library };
        graph_def(&Graph::new(), &def.encode_to_vec())
    };
    assert!(imported(2).is_ok());
    let error = imported(8).expect_err("it has 8⁶ operations").to_string();
    assert!(error.contains("nodes in all"), "{error}");
}
