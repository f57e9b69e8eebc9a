//! Tests of training operations of several optimizers.

use crate::graph::{Gradient, Graph, GraphProblem, Variable};
use crate::optimizer::{GradientDescent, IntoOptimizer, Momentum, Part, apply_gradients_by};

/// Two variables of `g` with their gradients.
fn pairs(g: &Graph) -> Vec<(Variable, Gradient)> {
    let pair = |name| {
        let variable = g.variable(name, &g.zeros([64])).unwrap();
        let gradient = variable.read().negate();
        (variable, gradient.into())
    };
    ["v", "u"].map(pair).to_vec()
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
