//! Tests of programs that build a graph wrongly: what is refused, and what the error says.

use super::{assert_says, floats, snapshot};
use crate::graph::{Graph, GraphError, GraphProblem, Output, dense, sparse_softmax_cross_entropy};
use crate::import::{ExportError, to_graph_def};
use crate::tensor::DType;

const UNKNOWN: Option<usize> = None;

#[test]
fn a_mistake_is_told_with_the_operation_both_shapes_and_the_users_line() {
    let g = Graph::new();
    let (a, b) = (floats(&g, "a", [UNKNOWN, Some(3)]), floats(&g, "b", [Some(4), Some(5)]));
    let error = g.with_name_scope("layer", |_| a.matmul(&b)).unwrap_err();
    let told = ["layer/MatMul (MatMul)", "inner dimensions agree", "f32[?,3] and f32[4,5]"];
    assert_says(&error, "mistakes.rs", &told);
    assert_eq!(error.built_at.line(), line!() - 3);
    let error = dense(&floats(&g, "c", [UNKNOWN, UNKNOWN]), 4).unwrap_err();
    assert_says(&error, "mistakes.rs", &["dense", "known width", "f32[?,?]"]);
    let error = sparse_softmax_cross_entropy(&b, &a).unwrap_err();
    assert_says(
        &error,
        "mistakes.rs",
        &["SparseSoftmaxCrossEntropyWithLogits", "f32[4,5] and f32[?,3]"],
    );
}

#[test]
fn every_operation_of_a_layer_is_built_at_the_line_that_asked_for_the_layer() {
    let g = Graph::new();
    let x = floats(&g, "x", [UNKNOWN, Some(3)]);
    let here = line!() + 1;
    dense(&x, 4).unwrap();
    for operation in snapshot(&g).operations.iter().filter(|operation| &*operation.name != "x") {
        assert!(
            operation.built_at.file().ends_with("tests/mistakes.rs"),
            "{operation} at {}",
            operation.built_at
        );
        assert_eq!(operation.built_at.line(), here, "{operation}");
    }
}

#[test]
fn a_mistake_in_a_method_without_result_fails_the_snapshot_and_the_first_of_several_is_told() {
    let g = Graph::new();
    let counts = g.placeholder("counts", DType::I32, [UNKNOWN]).unwrap();
    let first = line!() + 1;
    let wrong = counts.relu();
    wrong.log();
    let error = g.snapshot().unwrap_err();
    assert_says(&error, "mistakes.rs", &["Relu (Relu)", "one f32", "i32[?]"]);
    assert_eq!(error.built_at.line(), first);
}

#[test]
fn a_variable_is_only_given_what_it_holds() {
    let g = Graph::new();
    let w = g.variable("w", &g.zeros([2, 3])).unwrap();
    let error = w.assign(&g.zeros([3, 2])).unwrap_err();
    assert_says(&error, "mistakes.rs", &["(Assign)", "`w` holds f32[2,3]", "not f32[3,2]"]);
    let error = w.assign_add(&g.constant(1i64)).unwrap_err();
    assert_says(&error, "mistakes.rs", &["(AssignAdd)", "`w` holds f32[2,3]", "not i64[]"]);
    w.assign(&floats(&g, "fed", [UNKNOWN, Some(3)])).unwrap();
    let ready = g.variable("ready", &g.constant(true)).unwrap();
    assert_says(
        &ready.assign_add(&g.constant(true)).unwrap_err(),
        "mistakes.rs",
        &["numbers", "bool[]"],
    );
}

#[test]
fn a_variable_needs_an_initializer_of_known_shape() {
    let g = Graph::new();
    let error = g.variable("w", &floats(&g, "x", [UNKNOWN])).unwrap_err();
    assert_says(&error, "mistakes.rs", &["w (Variable)", "shape is known", "f32[?]"]);
}

#[test]
fn what_belongs_to_another_graph_is_refused_by_its_name() {
    let (g, other) = (Graph::new(), Graph::new());
    let (x, foreign) =
        (floats(&g, "x", [Some(2), Some(2)]), floats(&other, "foreign", [Some(2), Some(2)]));
    let w = g.variable("w", &x).unwrap();
    let (yes, same) = (g.constant(true), |v: &[Output]| Ok(v.to_vec()));
    let always = |v: &[Output]| Ok(v[0].graph().constant(true));
    let Err(ExportError::Graph(exported)) = to_graph_def(&g, &[&x, &foreign]) else {
        panic!("the output of another graph is not exported")
    };
    let refused: Vec<GraphError> = vec![
        x.matmul(&foreign).unwrap_err(),
        w.assign(&foreign).unwrap_err(),
        g.variable("v", &foreign).unwrap_err(),
        g.group("both", &[&x.target(), &foreign.target()]).unwrap_err(),
        g.with_control_dependencies(&[&foreign.target()], |g| {
            Ok::<Output, GraphError>(g.constant(1f32))
        })
        .unwrap_err(),
        crate::graph::gradients(&x.sum(), std::slice::from_ref(&foreign)).unwrap_err(),
        g.cond(&foreign, &[], same, same).unwrap_err(),
        g.cond(&yes, &[&foreign], same, same).unwrap_err(),
        g.while_loop(&[&foreign], &[], always, same, None).unwrap_err(),
        exported,
    ];
    for error in refused {
        assert_eq!(error.problem, GraphProblem::OtherGraph("foreign".to_owned()), "{error}");
        assert_says(&error, "mistakes.rs", &[]);
    }
    g.variable("v", &x).expect("a name that was refused is free");
}
