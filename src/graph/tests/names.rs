//! Names: unique, legal, and below the scope they are built in.

use super::{assert_says, floats, operation, snapshot};
use crate::graph::{Graph, GraphError, GraphProblem, dense};
use crate::tensor::{DType, Tensor};

type Built = Result<(), GraphError>;

#[test]
fn an_operation_without_a_name_is_called_after_its_kind_and_numbered() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let names: Vec<String> = (0..3).map(|_| x.relu().name()).collect();
    assert_eq!(names, ["Relu", "Relu_1", "Relu_2"]);
    floats(&g, "Relu_4", [Some(2)]);
    assert_eq!([x.relu().name(), x.relu().name()], ["Relu_3", "Relu_5"]);
    floats(&g, "Tanh", [Some(2)]);
    assert_eq!(x.tanh().name(), "Tanh_1");
}

#[test]
fn a_name_that_is_taken_is_refused_with_both_lines() {
    let g = Graph::new();
    let first = line!() + 1;
    floats(&g, "x", [Some(2)]);
    let second = line!() + 1;
    let error = g.placeholder("x", DType::I32, [1]).unwrap_err();
    assert_says(
        &error,
        "names.rs",
        &["x (Placeholder)", "the name is taken", &format!("names.rs:{first}:")],
    );
    assert_eq!(error.built_at.line(), second);
    g.variable("v", &g.constant(0f32)).unwrap();
    assert!(matches!(
        g.variable("v", &g.constant(0f32)).unwrap_err().problem,
        GraphProblem::NameTaken(_)
    ));
}

#[test]
fn a_taken_name_of_a_local_variable_is_refused_with_both_lines_too() {
    let g = Graph::new();
    let first = line!() + 1;
    g.local_variable("v", &g.constant(0f32)).unwrap();
    let second = line!() + 1;
    let error = g.local_variable("v", &g.constant(0f32)).unwrap_err();
    assert_says(&error, "names.rs", &["the name is taken", &format!("names.rs:{first}:")]);
    assert_eq!(error.built_at.line(), second);
    let shared = g.variable("w", &g.constant(0f32)).unwrap();
    assert!(!shared.spec().is_local, "what is built after it is shared");
}

/// TensorFlow's `grpc_session_test.cc` has `a:b` and `_a`.
#[test]
fn names_outside_the_grammar_are_refused() {
    let g = Graph::new();
    for name in ["a:b", "_a", "", "-a", "a b", "a\\b", "/a", "é"] {
        let error = g.placeholder(name, DType::F32, [1]).unwrap_err();
        assert_eq!(error.problem, GraphProblem::IllegalName, "{name}");
        assert_says(&error, "names.rs", &["(Placeholder)", "illegal name"]);
        let error = g.with_name_scope(name, |g| Ok(g.constant(1f32))).unwrap_err();
        assert_eq!(error.problem, GraphProblem::IllegalName, "scope {name}");
        assert_eq!(
            g.group(name, &[]).unwrap_err().problem,
            GraphProblem::IllegalName,
            "group {name}"
        );
    }
    for name in [".a", "9", "a_b-c.d/e"] {
        g.placeholder(name, DType::F32, [1]).unwrap();
    }
}

#[test]
fn name_scopes_nest_and_a_scope_of_the_same_name_is_numbered() -> Built {
    let g = Graph::new();
    let layer = |g: &Graph| g.with_name_scope("layer", |g| Ok(g.constant(1f32).name()));
    assert_eq!(layer(&g)?, "layer/Const");
    assert_eq!(layer(&g)?, "layer_1/Const");
    assert_eq!(g.with_name_scope("tower", layer)?, "tower/layer/Const");
    assert_eq!(g.constant(1f32).name(), "Const");
    Ok(())
}

#[test]
fn a_scope_ends_with_the_closure_that_fails_in_it() {
    let g = Graph::new();
    let failed: Built = g.with_name_scope("s", |g| {
        g.with_device("/job:ps", |g| {
            let x = floats(g, "x", [Some(2)]);
            g.with_control_dependencies(&[&x.target()], |_| x.matmul(&x).map(|_| ()))
        })
    });
    failed.unwrap_err();
    let after = g.constant(1f32);
    let after = operation(&snapshot(&g), &after.name());
    assert_eq!(
        (&*after.name, after.device.is_empty(), after.control_inputs.len()),
        ("Const", true, 0)
    );
}

#[test]
fn layers_are_numbered_and_their_variables_are_shared_by_their_full_names() {
    let g = Graph::new();
    let x = floats(&g, "x", [None, Some(3)]);
    dense(&dense(&x, 4).unwrap().relu(), 2).unwrap();
    let variables = g.trainable_variables();
    let names: Vec<String> = variables.iter().map(|variable| variable.name()).collect();
    assert_eq!(names, ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]);
    assert!(variables.iter().all(|variable| *variable.spec().shared_name == *variable.name()));
}

#[test]
fn the_initializer_can_be_asked_for_again_in_any_scope() -> Built {
    let g = Graph::new();
    let init = |g: &Graph| Ok::<_, GraphError>(g.initializer().name());
    let twice = |g: &Graph| Ok([init(g)?, init(g)?]);
    assert_eq!(twice(&g)?, ["init", "init_1"]);
    assert_eq!(g.with_name_scope("s", twice)?, ["s/init", "s/init_1"]);
    Ok(())
}

#[test]
fn there_is_one_global_step_whatever_the_scopes() -> Built {
    let g = Graph::new();
    let inner = g.with_name_scope("tower", |g| g.global_step())?;
    let outer = g.global_step()?;
    assert_eq!((inner.op_id(), outer.name().as_str()), (outer.op_id(), "global_step"));
    assert_eq!(&*outer.spec().shared_name, "global_step");
    assert!(!outer.spec().trainable);
    assert_eq!(g.variables().len(), 1);
    Ok(())
}

#[test]
fn a_global_step_that_is_something_else_is_refused() {
    let g = Graph::new();
    floats(&g, "global_step", [Some(1)]);
    assert_says(&g.global_step().unwrap_err(), "names.rs", &["global_step (Variable)", "taken"]);
    let g = Graph::new();
    g.variable("global_step", &g.constant(0f32)).unwrap();
    assert!(matches!(g.global_step().unwrap_err().problem, GraphProblem::NameTaken(_)));
}

#[test]
fn all_readers_share_one_read_of_a_variable_named_after_it() -> Built {
    let g = Graph::new();
    let w = g.with_name_scope("layer", |g| g.variable("w", &g.zeros([2])))?;
    let inside = g.with_name_scope("tower", |_| Ok(w.read()))?;
    assert_eq!(inside.name(), "layer/w/read");
    assert_eq!(w.read().edge(), inside.edge());
    assert_ne!(w.read_again().edge(), inside.edge());
    assert_eq!(inside.target().output(1).unwrap().name(), "layer/w/read:1");
    Ok(())
}

#[test]
fn an_operation_gives_the_outputs_that_it_has_and_no_other() {
    let target = Graph::new().constant(Tensor::scalar(1f32)).target();
    assert!(target.output(0).is_some());
    assert!(target.output(1).is_none());
}
