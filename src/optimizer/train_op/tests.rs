//! Tests of training operations of several optimizers, and of several operations of a graph.

use crate::graph::{Gradient, Graph, GraphError, GraphProblem, Variable};
use crate::optimizer::{
    GradientDescent, IntoOptimizer, LocalSgd, Momentum, Part, TrainOp, apply_gradients_by,
};
use crate::sync::Mode;

/// Two variables of `g` with their gradients.
fn pairs(g: &Graph) -> Vec<(Variable, Gradient)> {
    let pair = |name| {
        let variable = g.variable(name, &g.zeros([64])).unwrap();
        let gradient = variable.read().negate();
        (variable, gradient.into())
    };
    ["v", "u"].map(pair).to_vec()
}

/// Asserts that `second` is refused beside an operation that is built in this file.
#[track_caller]
fn assert_is_refused(mode: Mode, first: &str, second: Result<TrainOp, GraphError>, line: u32) {
    let error = second.unwrap_err();
    assert!(matches!(error.problem, GraphProblem::SecondTraining { .. }), "{error}");
    let (file, first) = ("train_op/tests.rs:", format!("`{first}`, built at "));
    let (own, text) = (format!("{file}{line}:"), error.to_string());
    let mode = format!("the mode {mode} ");
    for said in [first.as_str(), &own, &mode, "`task.apply_gradients_by`"] {
        assert!(text.contains(said), "`{text}` does not say `{said}`");
    }
    assert_eq!(text.matches(file).count(), 2, "both lines are the program's: {text}");
}

#[test]
fn where_workers_vote_all_training_operations_of_a_graph_train_the_same_variables() {
    for mode in [
        Mode::Sync { backups: 1, cancel: false },
        Mode::KAsync { k: 2 },
        Mode::KBatchSync { k: 2, cancel: true },
        Mode::KBatchAsync { k: 2 },
    ] {
        let g = Graph::new();
        let (step, pairs) = (g.global_step().unwrap(), pairs(&g));
        let optimizer = GradientDescent::new(0.1).coordinated(mode, 0, 3);
        optimizer.apply_gradients(&pairs[..1], &step).unwrap();
        let second = optimizer.apply_gradients(&pairs, &step);
        assert_is_refused(mode, "train_and_update", second, line!() - 1);
        optimizer.apply_gradients(&pairs[..1], &step).unwrap();
    }
}

#[test]
fn without_votes_training_operations_may_train_different_variables() {
    for mode in [Mode::Async, Mode::Sync { backups: 0, cancel: false }, Mode::StalenessAware] {
        let g = Graph::new();
        let (step, pairs) = (g.global_step().unwrap(), pairs(&g));
        let optimizer = GradientDescent::new(0.1).coordinated(mode, 0, 3);
        optimizer.apply_gradients(&pairs[..1], &step).unwrap();
        optimizer.apply_gradients(&pairs, &step).unwrap();
    }
}

#[test]
fn workers_that_train_copies_have_one_training_operation() {
    let mode = Mode::LocalSgd { every: 2, backups: 0 };
    let g = Graph::new();
    let (step, pairs) =
        (g.global_step().unwrap(), g.with_local_variables(|g| Ok(pairs(g))).unwrap());
    let outer = GradientDescent::new(1.0).coordinated(mode, 0, 3);
    let local = LocalSgd::new(GradientDescent::new(0.1), outer, 2);
    local.apply_gradients(&pairs, &step).unwrap();
    let second = local.apply_gradients(&pairs, &step).map(|train| train.train_op());
    assert_is_refused(mode, "train", second, line!() - 1);
}

#[test]
fn a_list_without_gradients_and_a_variable_of_two_lists_are_refused() {
    let g = Graph::new();
    let (step, pairs) = (g.global_step().unwrap(), pairs(&g));
    let refused = |second: &[(Variable, Gradient)]| {
        let by: [Part; 2] = [
            (GradientDescent::new(0.1).into(), pairs.clone()),
            (Momentum::new(0.1, 0.9).into(), second.to_vec()),
        ];
        apply_gradients_by(&by, &step).unwrap_err().problem
    };
    assert_eq!(refused(&[]), GraphProblem::NoGradients);
    assert_eq!(refused(&pairs[1..]), GraphProblem::TwoOptimizers("u".to_owned()));
}

#[test]
fn each_list_has_the_slots_and_the_residuals_of_its_own_optimizer() {
    let g = Graph::new();
    let (step, mut first) = (g.global_step().unwrap(), pairs(&g));
    let second = first.split_off(1);
    let by: [Part; 2] =
        [(GradientDescent::new(0.1).top_k(0.1), first), (Momentum::new(0.1, 0.9).into(), second)];
    let train = apply_gradients_by(&by, &step).unwrap();
    assert_eq!(train.target().name(), "train_and_keep");
    let names: Vec<String> = g.variables().iter().map(Variable::name).collect();
    assert_eq!(names, ["global_step", "v", "u", "v/residual", "u/Momentum"]);
}
