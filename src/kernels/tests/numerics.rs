//! What is computed where floats have no numbers.

use super::super::Numerics;
use crate::graph::Op;
use crate::operations::{Array, Cast, Compare, Sparse};
use crate::tensor::{DType, Shape, Tensor};

fn shapes(op: &Op, inputs: &[&Tensor]) -> Tensor {
    Numerics::Shapes.call(op, inputs).unwrap().remove(0)
}

#[test]
fn floats_are_hollow_even_where_all_they_are_made_of_is_real() {
    let huge = Shape::from([1 << 20, 1 << 20]);
    assert_eq!(
        shapes(&Op::Fill { shape: huge, value: 1f32.into() }, &[]),
        Tensor::hollow(DType::F32, huge)
    );
    let labels = Tensor::new([2], &[3i32, 4]).unwrap();
    assert_eq!(shapes(&Op::from(Cast(DType::F32)), &[&labels]), Tensor::hollow(DType::F32, [2]));
}

#[test]
fn what_is_computed_from_a_hollow_value_is_hollow_whatever_its_type() {
    let logits = Tensor::hollow(DType::F32, [7]);
    let predicted = shapes(&Op::from(Cast(DType::I64)), &[&logits]);
    assert_eq!(predicted, Tensor::hollow(DType::I64, [7]));
    let labels = Tensor::zeros(DType::I64, [7]);
    assert_eq!(
        shapes(&Op::from(Compare::Equal), &[&predicted, &labels]),
        Tensor::hollow(DType::Bool, [7])
    );
}

#[test]
fn integers_made_of_integers_are_real_and_so_is_the_shape_of_a_hollow_value() {
    let ids = Tensor::new([2], &[3i32, 4]).unwrap();
    assert_eq!(shapes(&Op::from(Cast(DType::I64)), &[&ids]).values::<i64>().unwrap(), [3, 4]);
    assert_eq!(
        shapes(&Op::from(Compare::Equal), &[&ids, &ids]).values::<bool>().unwrap(),
        [true, true]
    );
    let hollow = Tensor::hollow(DType::F32, [5, 6]);
    assert_eq!(
        shapes(&Op::from(Array::Shape(DType::I32)), &[&hollow]).values::<i32>().unwrap(),
        [5, 6]
    );
}

#[test]
fn an_operation_whose_shape_depends_on_numbers_needs_them() {
    let unique = Op::from(Sparse::Unique);
    let ids = Tensor::new([3], &[4i64, 4, 9]).unwrap();
    assert_eq!(shapes(&unique, &[&ids]).values::<i64>().unwrap(), [4, 9]);
    let refused = Numerics::Shapes
        .call(&unique, &[&Tensor::hollow(DType::I64, [3])])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("Unique") && refused.contains("shapes"), "{refused}");
}

#[test]
fn a_variable_keeps_integers_and_no_floats() {
    let (step, weight) = (Tensor::scalar(3i64), Tensor::scalar(0.5f32));
    assert_eq!(Numerics::Shapes.kept(step.clone()), step);
    assert_eq!(Numerics::Shapes.kept(weight.clone()), Tensor::hollow(DType::F32, Shape::SCALAR));
    assert_eq!(Numerics::Real.kept(weight.clone()), weight);
}
