//! The import of everything but a graph's numbers, which the integration tests compare with
//! TensorFlow's; and wrong graphs.

mod computed;
mod crafted;
mod defaults;
mod hostile;
mod steps;
mod trained;

use prost::Message;

use super::wire::{self, AttrValue, Dim, ListValue, NodeDef, TensorProto, TensorShapeProto, Value};
use super::*;
use crate::cluster::DeviceSpec;
use crate::graph::{Edge, Op, gradients};
use crate::operations::{Array, Unary, call};
use crate::tensor::{DType, PartialShape, Tensor};

const F32: i32 = 1;
const I32: i32 = 3;
const I64: i32 = 9;

fn node(kind: &str, name: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(|input| (*input).to_owned()).collect();
    NodeDef { name: name.to_owned(), op: kind.to_owned(), input, ..NodeDef::default() }
}

impl NodeDef {
    fn with(mut self, name: &str, value: Value) -> Self {
        self.attr.insert(name.to_owned(), AttrValue { value: Some(value) });
        self
    }
}

fn shape(dims: &[i64]) -> TensorShapeProto {
    TensorShapeProto {
        dim: dims.iter().map(|size| Dim { size: *size }).collect(),
        unknown_rank: false,
    }
}

fn placeholder(name: &str, dims: &[i64]) -> NodeDef {
    node("Placeholder", name, &[])
        .with("dtype", Value::Type(F32))
        .with("shape", Value::Shape(shape(dims)))
}

/// A vector of integers.
fn ints(name: &str, values: &[i32]) -> NodeDef {
    let tensor_shape = Some(shape(&[values.len() as i64]));
    let tensor = TensorProto {
        dtype: I32,
        tensor_shape,
        int_val: values.to_vec(),
        ..TensorProto::default()
    };
    node("Const", name, &[]).with("dtype", Value::Type(I32)).with("value", Value::Tensor(tensor))
}

fn bytes(nodes: Vec<NodeDef>) -> Vec<u8> {
    wire::GraphDef { node: nodes, library: None }.encode_to_vec()
}

fn import(nodes: Vec<NodeDef>) -> Result<Imported, ImportError> {
    graph_def(&Graph::new(), &bytes(nodes))
}

#[track_caller]
fn assert_refused(nodes: Vec<NodeDef>, says: &[&str]) {
    let error = import(nodes).expect_err("it is wrong").to_string();
    says.iter().for_each(|part| assert!(error.contains(part), "`{error}` does not say `{part}`"));
}

fn type_of(imported: &Imported, name: &str) -> String {
    imported.output(name).unwrap().tensor_type().to_string()
}

#[test]
fn names_devices_and_control_inputs_are_kept() {
    let mut relu = node("Relu", "a/b.c", &["x", "^first"]);
    relu.device = "/job:ps/task:1".to_owned();
    let mut first = node("NoOp", "first", &[]);
    first.device = "no device".to_owned();
    let imported = import(vec![relu, placeholder("x", &[-1, 2]), first]).unwrap();
    let def = imported.graph().snapshot().unwrap();
    let relu = def.operation(imported.target("a/b.c").unwrap().op_id());
    assert_eq!((&*relu.name, &relu.op), ("a/b.c", &Op::from(Unary::Relu)));
    assert_eq!(relu.device, "/job:ps/task:1".parse::<DeviceSpec>().unwrap());
    assert_eq!(relu.control_inputs.as_slice(), [imported.target("first").unwrap().op_id()]);
    assert_eq!(type_of(&imported, "a/b.c:0"), "f32[?,2]");
    assert!(def.operation(imported.target("first").unwrap().op_id()).device.is_empty());
}

#[test]
fn nodes_may_come_in_any_order_and_a_loop_is_told_by_its_names() {
    let chain = |last: &str| {
        vec![node("Relu", "b", &["a"]), node("Relu", "c", &["b"]), node("Relu", "a", &[last])]
    };
    let mut open = chain("x");
    open.push(placeholder("x", &[3]));
    assert_eq!(type_of(&import(open).unwrap(), "c"), "f32[3]");
    assert_refused(chain("c"), &["a", "b", "c", "loop"]);
}

#[test]
fn a_long_chain_needs_no_deep_stack() {
    let mut nodes = vec![placeholder("x0", &[1])];
    nodes.extend((1..50_000).map(|i| node("Relu", &format!("x{i}"), &[&format!("x{}", i - 1)])));
    nodes.reverse();
    assert_eq!(import(nodes).unwrap().outputs(), ["x49999"]);
}

#[test]
fn what_is_not_wanted_need_not_exist_here() {
    let nodes =
        vec![placeholder("x", &[2]), node("Relu", "y", &["x"]), node("NoSuchOp", "z", &["y"])];
    let imported = sub_graph(&Graph::new(), &bytes(nodes.clone()), &["y:0"]).unwrap();
    assert_eq!(
        (imported.inputs(), imported.outputs()),
        (&["x".to_owned()][..], &["y".to_owned()][..])
    );
    assert_refused(nodes, &["1 operations of 1 kinds", "1 of `NoSuchOp`, such as `z`"]);
    assert_refused(vec![node("", "z", &[])], &["1 without an operation, such as the node `z`"]);
}

#[test]
fn a_shape_with_an_unknown_batch_is_folded_as_far_as_it_is_known() {
    let slice = |name: &str, inputs: &[&str]| {
        node("StridedSlice", name, inputs).with("shrink_axis_mask", Value::I(1))
    };
    let nodes = vec![
        placeholder("x", &[-1, 2, 3]),
        node("Shape", "shape", &["x"]),
        ints("zero", &[0]),
        ints("one", &[1]),
        slice("batch", &["shape", "zero", "one", "one"]),
        ints("six/values", &[6]),
        node("Squeeze", "six", &["six/values"]),
        node("Pack", "flat", &["batch", "six"]),
        node("Reshape", "y", &["x", "flat"]),
    ];
    let imported = import(nodes).unwrap();
    assert_eq!(
        (type_of(&imported, "y"), type_of(&imported, "flat")),
        ("f32[?,6]".into(), "i32[2]".into())
    );
    let def = imported.graph().snapshot().unwrap();
    let reshape = &def.operation(imported.target("y").unwrap().op_id()).op;
    assert_eq!(*reshape, Op::from(Array::Reshape(PartialShape::new(&[None, Some(6)]))));
}

#[test]
fn what_must_be_known_and_is_not_is_told_by_the_node() {
    let fed = node("Placeholder", "order", &[])
        .with("dtype", Value::Type(I32))
        .with("shape", Value::Shape(shape(&[2])));
    let nodes = vec![placeholder("x", &[2, 3]), fed, node("Transpose", "t", &["x", "order"])];
    assert_refused(nodes, &["node `t` (Transpose)", "input 1 must be known"]);
}

#[test]
fn other_formats_and_types_are_refused_and_not_misread() {
    let x = || placeholder("x", &[1, 4, 4, 2]);
    let nchw = node("BiasAdd", "y", &["x", "x"]).with("data_format", Value::S(b"NCHW".to_vec()));
    assert_refused(vec![x(), nchw], &["NCHW"]);
    let strings = node("Placeholder", "s", &[])
        .with("dtype", Value::Type(7))
        .with("shape", Value::Shape(shape(&[])));
    assert_refused(vec![strings], &["node `s`", "element type string"]);
}

#[test]
fn wrong_graphs_are_refused_with_what_is_wrong() {
    assert_refused(
        vec![placeholder("x", &[1]), placeholder("x", &[1])],
        &["two nodes are called `x`"],
    );
    assert_refused(vec![node("Relu", "y", &["x"])], &["node `y`", "`x`", "does not exist"]);
    assert_refused(
        vec![placeholder("x", &[1]), node("Relu", "y", &["x:1"])],
        &["node `y`", "`x:1`"],
    );
    assert_refused(vec![node("MatMul", "y", &[])], &["node `y` (MatMul)"]);
    assert_refused(vec![node("Const", "c", &[])], &["node `c`", "`value` must be a tensor"]);
    assert_refused(vec![placeholder("x", &[-2])], &["node `x`", "negative"]);
    assert_refused(vec![placeholder("x", &[1 << 40, 1 << 40])], &["node `x`", "too many"]);
    assert_refused(vec![placeholder("x", &[1 << 24, (1 << 24) + 1])], &["node `x`", "too many"]);
    assert_refused(vec![placeholder("x", &[1; 9])], &["node `x`", "dimensions"]);
    assert_refused(vec![placeholder("x y", &[1])], &["node `x y`", "illegal name"]);
    let tensor =
        TensorProto { dtype: F32, tensor_shape: Some(shape(&[1 << 35])), ..TensorProto::default() };
    assert_refused(
        vec![node("Const", "c", &[]).with("value", Value::Tensor(tensor))],
        &["node `c`", "repeat more than"],
    );
    assert!(matches!(graph_def(&Graph::new(), b"\xff\xff"), Err(ImportError::Malformed(_))));
    let empty = graph_def(&Graph::new(), b"").map(drop).unwrap_err().to_string();
    assert_eq!(empty, "this is no binary GraphDef: it is empty");
    let saved = graph_def(&Graph::new(), b"\x08\x01\x12\x00").map(drop).unwrap_err().to_string();
    assert!(saved.contains("it is a SavedModel") && saved.contains("as_graph_def()"), "{saved}");
}

#[test]
fn variables_that_an_optimizer_updates_are_trainable() {
    let variable = |name: &str| {
        node("VariableV2", name, &[])
            .with("dtype", Value::Type(F32))
            .with("shape", Value::Shape(shape(&[2])))
    };
    let all = import(vec![variable("v"), variable("w")]).unwrap();
    assert_eq!(all.graph().trainable_variables().len(), 2);
    let rate = placeholder("rate", &[]);
    let update = node("ApplyMomentum", "update", &["v", "m", "rate", "g", "rate"]);
    let by_fed = import(vec![variable("v"), variable("m"), placeholder("g", &[2]), rate, update]);
    assert!(by_fed.expect_err("μ must be known").to_string().contains("input 4 must be a number"));
    let descent = node("ApplyGradientDescent", "update", &["v", "rate", "g"]);
    let nodes = vec![
        variable("v"),
        variable("m"),
        placeholder("g", &[2]),
        placeholder("rate", &[]),
        descent,
    ];
    let trainable = import(nodes).unwrap().graph().trainable_variables();
    assert_eq!(trainable.iter().map(|variable| variable.name()).collect::<Vec<_>>(), ["v"]);
}

#[test]
fn random_values_follow_the_global_step_unless_they_are_a_variables_first_ones() {
    let variable = |name: &str, dtype: i32, dims: &[i64]| {
        node("VariableV2", name, &[])
            .with("dtype", Value::Type(dtype))
            .with("shape", Value::Shape(shape(dims)))
    };
    let random =
        |name: &str| node("RandomUniform", name, &["shape"]).with("dtype", Value::Type(F32));
    let others = || {
        vec![
            ints("shape", &[2]),
            variable("v", F32, &[2]),
            random("v/first"),
            node("Neg", "v/negated", &["v/first"]),
            node("Assign", "v/Assign", &["v", "v/negated"]),
            random("mask"),
            node("Mul", "y", &["v", "mask"]),
        ]
    };
    let inputs = |imported: &Imported, name: &str| {
        let random = imported.target(name).unwrap().op_id();
        imported.graph().with_operation(random, |operation| operation.inputs.len())
    };
    let counted = import([vec![variable("global_step", I64, &[])], others()].concat()).unwrap();
    assert_eq!((inputs(&counted, "v/first"), inputs(&counted, "mask")), (0, 1));
    let uncounted = import(others()).unwrap();
    assert_eq!((inputs(&uncounted, "v/first"), inputs(&uncounted, "mask")), (0, 0));
    let trained = training_graph(&Graph::new(), &bytes(others()), &["y"]).unwrap();
    assert_eq!((inputs(&trained, "v/first"), inputs(&trained, "mask")), (0, 1));
}

#[test]
fn a_first_value_that_is_another_variables_value_needs_no_value_of_that_variable() {
    let variable = |name: &str| {
        node("VariableV2", name, &[])
            .with("dtype", Value::Type(I32))
            .with("shape", Value::Shape(shape(&[2])))
    };
    let nodes = vec![
        variable("v"),
        variable("average"),
        ints("first", &[3, 4]),
        node("Assign", "v/Assign", &["v", "first"]),
        node("IsVariableInitialized", "is", &["v"]),
        node("Identity", "which", &["is"]),
        node("Switch", "value", &["v", "which"]),
        node("Identity", "read", &["value:1"]),
        node("Switch", "new", &["first", "which"]),
        node("Merge", "either", &["new", "read"]),
        node("Assign", "average/Assign", &["average", "either"]),
    ];
    let imported = import(nodes).unwrap();
    let def = imported.graph().snapshot().unwrap();
    let mut needed = vec![imported.target("average/Assign").unwrap().op_id()];
    for next in 0.. {
        let Some(id) = needed.get(next).copied() else { break };
        let operation = def.operation(id);
        assert!(!matches!(operation.op, Op::ReadVariable), "{} reads `v`", operation.name);
        needed.extend(operation.inputs.iter().map(|edge| edge.op));
    }
    assert!(needed.contains(&imported.target("first").unwrap().op_id()));
}

#[test]
fn a_node_beside_an_operation_has_a_name_that_nothing_else_in_the_graph_has() {
    let permuted = |name: &str| node("Transpose", name, &["x", "perm"]);
    let imported = import(vec![
        permuted("y"),
        permuted("y/order_"),
        placeholder("x", &[2, 3]),
        placeholder("y/order", &[1]),
        ints("perm", &[1, 0]),
    ]);
    let written = to_graph_def(imported.unwrap().graph(), &[]).unwrap();
    let written = wire::GraphDef::decode(&*written).unwrap();
    let mut names: Vec<String> = written.node.into_iter().map(|node| node.name).collect();
    assert!(names.iter().any(|name| name == "y/order__"), "{names:?}");
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

#[test]
fn a_graph_with_log_sum_exp_is_written_of_operations_that_tensorflow_has() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [None, Some(3)]).unwrap();
    x.log_sum_exp_over(&[1]).unwrap();
    to_graph_def(&g, &[]).unwrap();
}
