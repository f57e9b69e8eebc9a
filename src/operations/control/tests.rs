//! What conditions and loops cost, and when they end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;

/// A loop that goes round for ever, unless it has a maximum.
fn endless(maximum: Option<usize>) -> While {
    let types = [TensorType::new(DType::F32, Shape::SCALAR)];
    let condition = |x: &[Output]| Ok(vec![x[0].graph().constant(true)]);
    let body = |x: &[Output]| Ok(vec![x[0].square()]);
    While {
        condition: Function::build(&types, condition).unwrap(),
        body: Function::build(&types, body).unwrap(),
        maximum,
    }
}

#[test]
fn a_loop_without_a_maximum_has_a_cost_without_a_bound_and_so_has_what_runs_it() {
    let scalar = (DType::F32, Shape::SCALAR);
    let cost = |maximum| endless(maximum).cost(&[scalar], &[scalar]);
    let once = cost(Some(1));
    assert!(!once.is_unbounded && cost(None) == once.unbounded());
    assert_eq!(cost(Some(usize::MAX)).flops, u64::MAX, "the products of costs saturate");

    let types = [TensorType::new(DType::F32, Shape::SCALAR)];
    let runs = |x: &[Output]| Ok(vec![x[0].with(&[], endless(None))?]);
    let branch = Function::build(&types, runs).unwrap();
    let both = If { then: branch.clone(), otherwise: branch };
    assert!(both.cost(&[(DType::Bool, Shape::SCALAR), scalar], &[scalar]).is_unbounded);
}

#[test]
fn a_loop_ends_once_nobody_waits_for_it() {
    let (is_given_up, x) = (Arc::new(AtomicBool::new(true)), Tensor::from(1f32));
    let endless = endless(None);
    let error = until_given_up(&is_given_up, || endless.compute(&[&x])).unwrap_err();
    assert!(error.to_string().contains("nobody waits"), "{error}");
    let three = While { maximum: Some(3), ..endless };
    assert!(three.compute(&[&x]).is_ok(), "the next work on this thread has not been given up");
}
