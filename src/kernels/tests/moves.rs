//! Operations that move elements where they are large, or have a result that is plain to see, and
//! what they cost.

use super::array::{array, assert_moved, numbered, run, zero};
use super::{bits, values};
use crate::graph::Op;
use crate::operations::{Array, cost_of};
use crate::tensor::{DType, Shape, Tensor};

#[test]
fn large_transpositions_are_those_of_the_reference_in_every_order() {
    for (dims, order) in [
        (vec![1030, 517], vec![1, 0]),
        (vec![3, 37, 41, 129], vec![0, 2, 3, 1]),
        (vec![3, 129, 37, 41], vec![0, 3, 1, 2]),
        (vec![67, 40, 101], vec![2, 1, 0]),
        (vec![90, 5, 700], vec![1, 2, 0]),
    ] {
        let x = numbered(DType::I32, &dims);
        let found = array(Array::Transpose(order.clone()), &[&x]);
        assert_moved(&found, &x, &zero(), |at| {
            let mut from = vec![0; at.len()];
            order.iter().zip(at).for_each(|(axis, at)| from[*axis] = *at);
            Some(from)
        });
    }
}

#[test]
fn large_parts_paddings_and_joins_are_those_of_small_ones() {
    let (rows, columns) = (700, 900);
    let x = numbered(DType::I32, &[rows, columns]);
    let value = Tensor::scalar(-1i32);
    let padded = array(Array::Pad { paddings: vec![(3, 2), (1, 5)], value: value.clone() }, &[&x]);
    assert_moved(&padded, &x, &value, |at| {
        let inside =
            |at: usize, before: usize, len: usize| at.checked_sub(before).filter(|at| *at < len);
        Some(vec![inside(at[0], 3, rows)?, inside(at[1], 1, columns)?])
    });
    let inner = Array::Slice { begin: vec![3, 1], size: vec![Some(rows), Some(columns)] };
    assert_eq!(array(inner, &[&padded]), x);
    for axis in 0..2 {
        let sizes = vec![300, x.shape().dims()[axis] - 300];
        let parts = run(&Op::from(Array::Split { axis, sizes }), &[&x]);
        assert_eq!(array(Array::Concat { axis }, &parts.iter().collect::<Vec<_>>()), x);
    }
    let turned = array(Array::Reverse(vec![0, 1]), &[&x]);
    assert!(turned.slice::<i32>().iter().eq(x.slice::<i32>().iter().rev()));
}

#[test]
fn large_parts_along_the_first_axis_share_the_memory_of_the_whole() {
    let is_shared = |dims: &[usize], axis, sizes: Vec<usize>| {
        let x = numbered(DType::F32, dims);
        let parts = run(&Op::from(Array::Split { axis, sizes }), &[&x]);
        let mut memory =
            parts.iter().map(|part| x.bytes().as_ptr_range().contains(&part.bytes().as_ptr()));
        memory.next().unwrap()
    };
    let large = 1 << 14;
    assert!(is_shared(&[4 * large], 0, vec![large, 3 * large]));
    assert!(!is_shared(&[4 * large], 0, vec![large - 1, 3 * large + 1]), "it is small");
    assert!(!is_shared(&[2, 2 * large], 1, vec![large, large]), "its rows lie apart");
}

#[test]
fn a_range_counts_from_its_start_in_every_type() {
    let range = |start: Tensor, limit: Tensor, delta: Tensor| {
        array(Array::Range { start, limit, delta }, &[])
    };
    assert_eq!(range(3i32.into(), 10i32.into(), 3i32.into()).slice::<i32>(), [3, 6, 9]);
    assert_eq!(range(3i64.into(), 0i64.into(), (-2i64).into()).slice::<i64>(), [3, 1]);
    assert_eq!(range(0f64.into(), 1f64.into(), 0.5f64.into()).slice::<f64>(), [0.0, 0.5]);
    assert_eq!(
        range(0f32.into(), 1f32.into(), 0.25f32.into()).slice::<f32>(),
        [0.0, 0.25, 0.5, 0.75]
    );
}

#[test]
fn sizes_are_values_of_the_type_asked_for() {
    let x = numbered(DType::Bool, &[2, 0, 3]);
    assert_eq!(array(Array::Shape(DType::I32), &[&x]).slice::<i32>(), [2, 0, 3]);
    assert_eq!(array(Array::Shape(DType::I64), &[&x]).slice::<i64>(), [2, 0, 3]);
    assert_eq!(array(Array::Size(DType::I64), &[&x]).slice::<i64>(), [0]);
    assert_eq!(array(Array::Rank, &[&x]).slice::<i32>(), [3]);
    assert_eq!(array(Array::ZerosLike, &[&x]), x);
}

#[test]
fn sums_of_floats_along_an_axis_are_added_one_after_the_other() {
    let x = Tensor::new([2, 37], &values(1, 74)).unwrap();
    let found = array(Array::Cumsum { axis: 1, exclusive: false, reverse: false }, &[&x]);
    let row = |row: &[f32]| {
        row.iter()
            .scan(0f32, |sum, x| {
                *sum += x;
                Some(*sum)
            })
            .collect::<Vec<_>>()
    };
    let wanted: Vec<f32> = x.slice::<f32>().chunks(37).flat_map(row).collect();
    assert_eq!(bits(found.slice()), bits(&wanted));
}

#[test]
fn what_is_moved_is_what_it_costs() {
    let f32s = |dims: &[usize]| (DType::F32, Shape::new(dims));
    let cost = |op, inputs: &[_], outputs: &[_]| cost_of(&Op::from(op), inputs, outputs);
    let transposed = cost(Array::Transpose(vec![1, 0]), &[f32s(&[3, 5])], &[f32s(&[5, 3])]);
    assert_eq!((transposed.flops, transposed.bytes), (0, 2 * 4 * 15));
    let part = Array::Slice { begin: vec![0], size: vec![Some(2)] };
    assert_eq!(cost(part, &[f32s(&[1000])], &[f32s(&[2])]).bytes, 16);
    let summed = cost(Array::TileGrad(vec![4]), &[f32s(&[8])], &[f32s(&[2])]);
    assert_eq!((summed.flops, summed.bytes), (8, 40));
    assert_eq!(cost(Array::ExpandDims(0), &[f32s(&[8])], &[f32s(&[1, 8])]).bytes, 0);
}
