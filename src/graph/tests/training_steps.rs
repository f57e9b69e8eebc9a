//! Which runs are training steps: those whose targets wait for an operation that counts a step.

use crate::graph::{Graph, GraphError, Op, Target, Variable};
use crate::optimizer::{
    ExponentialMovingAverage, GradientDescent, IntoOptimizer, Optimizer, TrainOp,
};
use crate::tensor::DType;

/// A training operation of `optimizer`, and the variable that it trains.
fn train(optimizer: impl Into<Optimizer>) -> Result<(Variable, TrainOp), GraphError> {
    let g = Graph::new();
    let w = g.variable("w", &g.zeros([100]))?;
    let loss = w.read().square().sum();
    let train_op = optimizer.into().minimize(&loss, &g.global_step()?)?;
    Ok((w, train_op))
}

#[track_caller]
fn assert_takes_the_step_of(run: &Target, train_op: &TrainOp) {
    let end = run.end_of_step().expect("it is a training step");
    assert_eq!(end.told_of_step()[0].edge(), train_op.global_step().edge());
}

#[test]
fn the_averages_after_a_step_of_which_a_part_is_sent_are_in_a_training_step()
-> Result<(), GraphError> {
    let (w, train_op) = train(GradientDescent::new(0.1).top_k(0.1))?;
    let averaged = ExponentialMovingAverage::new(0.9).apply(&[w], train_op.target())?;
    assert_takes_the_step_of(&averaged, &train_op);
    Ok(())
}

#[test]
fn averages_after_averages_are_in_a_training_step() -> Result<(), GraphError> {
    let (w, train_op) = train(GradientDescent::new(0.1))?;
    let averages = ExponentialMovingAverage::new(0.9);
    let once = averages.apply(std::slice::from_ref(&w), train_op.target())?;
    let twice = averages.apply(&[w], &once)?;
    assert_takes_the_step_of(&twice, &train_op);
    Ok(())
}

#[test]
fn a_value_behind_a_training_step_takes_it() -> Result<(), GraphError> {
    let (w, train_op) = train(GradientDescent::new(0.1))?;
    let g = w.graph();
    let loss = g.placeholder("x", DType::F32, [0usize; 0])?;
    let behind = g.with_control_dependencies(&[train_op.target()], |_| Ok(loss.identity()))?;
    assert_takes_the_step_of(&behind.identity().target(), &train_op);
    assert!(loss.identity().target().end_of_step().is_none());
    Ok(())
}

#[test]
fn one_added_to_the_global_step_counts_a_training_step() -> Result<(), GraphError> {
    let (g, other) = (Graph::new(), Graph::new());
    let (step, v) = (g.global_step()?, g.untrainable_variable("v", &g.constant(0i64))?);
    other.global_step()?;
    let one = g.constant(1i64);
    let end = |target: Target| target.end_of_step();
    assert!(end(g.group("train", &[&step.assign_add(&one)?])?).is_some());
    assert!(end(step.assign_add(&g.constant(2i64))?).is_none());
    assert!(end(v.assign_add(&one)?).is_none());
    assert!(step.assign_add(&other.constant(1i64)).is_err());
    let kind = g.with_operation(v.assign_add(&one)?.op_id(), |it| it.op.kind());
    assert_eq!(kind, Op::AssignAdd.kind());
    Ok(())
}
