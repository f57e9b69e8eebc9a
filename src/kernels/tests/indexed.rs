//! Operations that find slices by indices against their references.

use proptest::prelude::*;

use super::super::IndexOutOfRange;
use super::super::reference::{by_position, place};
use super::array::{numbered, run};
use crate::operations::Indexed;
use crate::operations::call;
use crate::tensor::{DType, Tensor};

fn indexed(op: Indexed, inputs: &[&Tensor]) -> Tensor {
    run(&op.into(), inputs).remove(0)
}

/// Indices from a list of any numbers, of one type or the other.
fn indices(dims: &[usize], any: &[u32], below: impl Fn(usize) -> usize, wide: bool) -> Tensor {
    let elements: usize = dims.iter().product();
    let index = |i: usize| any[i % any.len()] as usize % below(i);
    if wide {
        Tensor::new(dims, &(0..elements).map(|i| index(i) as i64).collect::<Vec<_>>()).unwrap()
    } else {
        Tensor::new(dims, &(0..elements).map(|i| index(i) as i32).collect::<Vec<_>>()).unwrap()
    }
}

/// The indices as positions.
fn read(indices: &Tensor) -> Vec<usize> {
    match indices.dtype() {
        DType::I32 => indices.slice::<i32>().iter().map(|i| *i as usize).collect(),
        _ => indices.slice::<i64>().iter().map(|i| *i as usize).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn gathering_and_its_gradient_are_those_of_the_references(
        dims in prop::collection::vec(1usize..5, 1..4),
        of_indices in prop::collection::vec(0usize..4, 0..3),
        any in prop::collection::vec(any::<u32>(), 1..20),
        wide in any::<bool>(),
    ) {
        for axis in 0..dims.len() {
            let (params, indices) =
                (numbered(DType::F32, &dims), indices(&of_indices, &any, |_| dims[axis], wide));
            let found = indexed(Indexed::Gather { axis, batch: 0 }, &[&params, &indices]);
            let positions = read(&indices);
            let from = |at: &[usize]| {
                let (before, rest) = at.split_at(axis);
                let (here, after) = rest.split_at(of_indices.len());
                place(&dims, &[before, &[positions[place(&of_indices, here)]], after].concat())
            };
            let origins = by_position(found.shape().dims(), from);
            let wanted: Vec<f32> = origins.iter().map(|from| *from as f32).collect();
            prop_assert_eq!(found.slice::<f32>(), &wanted[..]);

            let mut sums = vec![0f32; params.shape().elements()];
            origins.iter().zip(found.slice::<f32>()).for_each(|(to, dy)| sums[*to] += dy);
            let back = Indexed::GatherGrad { axis, batch: 0 };
            let back = indexed(back, &[&found, &params, &indices]);
            prop_assert_eq!(back.slice::<f32>(), &sums[..]);
        }
    }

    #[test]
    fn slices_at_positions_are_gathered_added_and_replaced_as_in_the_references(
        dims in prop::collection::vec(1usize..5, 1..4),
        rows in prop::collection::vec(0usize..4, 0..3),
        any in prop::collection::vec(any::<u32>(), 1..20),
        wide in any::<bool>(),
    ) {
        for depth in 0..=dims.len() {
            let of_indices = [&rows[..], &[depth]].concat();
            let indices = indices(&of_indices, &any, |i| dims[i % depth], wide);
            let positions = read(&indices);
            let x = numbered(DType::I32, &dims);
            let found = indexed(Indexed::GatherNd, &[&x, &indices]);
            let origins = by_position(found.shape().dims(), |at| {
                let (row, rest) = at.split_at(rows.len());
                let first = place(&rows, row) * depth;
                place(&dims, &[&positions[first..first + depth], rest].concat())
            });
            let wanted: Vec<i32> = origins.iter().map(|from| *from as i32).collect();
            prop_assert_eq!(found.slice::<i32>(), &wanted[..]);

            let updates =
                Tensor::new(found.shape(), &(100..).take(wanted.len()).collect::<Vec<i32>>())
                    .unwrap();
            let (mut sums, mut added, mut replaced) =
                (vec![0; x.shape().elements()], x.clone(), x.clone());
            for (to, update) in origins.iter().zip(updates.slice::<i32>()) {
                sums[*to] += update;
                added.make_mut::<i32>()[*to] += update;
                replaced.make_mut::<i32>()[*to] = *update;
            }
            let scattered = indexed(Indexed::ScatterNd(x.shape()), &[&indices, &updates]);
            prop_assert_eq!(scattered.slice::<i32>(), &sums[..]);
            prop_assert_eq!(indexed(Indexed::TensorScatterAdd, &[&x, &indices, &updates]), added);
            prop_assert_eq!(
                indexed(Indexed::TensorScatterUpdate, &[&x, &indices, &updates]),
                replaced
            );
        }
    }

    #[test]
    fn one_is_hot_where_the_index_says_and_none_where_it_is_outside(
        dims in prop::collection::vec(0usize..4, 0..3), depth in 0usize..5,
    ) {
        let elements: usize = dims.iter().product();
        let values: Vec<i64> = (0..elements).map(|i| i as i64 % 7 - 1).collect();
        let indices = Tensor::new(&dims[..], &values).unwrap();
        for axis in 0..=dims.len() {
            let op = Indexed::OneHot { depth, axis, on: true.into(), off: false.into() };
            let found = indexed(op, &[&indices]);
            let wanted = by_position(found.shape().dims(), |at| {
                let mut rest = at.to_vec();
                rest.remove(axis) as i64 == values[place(&dims, &rest)]
            });
            prop_assert_eq!(found.slice::<bool>(), &wanted[..]);
        }
    }
}

#[test]
fn an_index_outside_its_axis_is_an_error_that_names_it_its_place_and_the_size() {
    let (params, positions) =
        (numbered(DType::F32, &[3, 4]), |values: &[i32]| Tensor::new([2, 2], values).unwrap());
    let error = |op: Indexed, indices: Tensor| {
        call(&op.into(), &[&params, &indices]).unwrap_err().to_string()
    };
    let out = |index, place, size| IndexOutOfRange { index, place, size }.to_string();
    assert_eq!(
        error(Indexed::Gather { axis: 1, batch: 0 }, positions(&[0, 3, 4, -1])),
        out(4, 2, 4)
    );
    assert_eq!(
        error(Indexed::Gather { axis: 0, batch: 0 }, positions(&[0, -1, 2, 1])),
        out(-1, 1, 3)
    );
    let text = error(Indexed::GatherNd, positions(&[2, 3, 3, 0]));
    assert!(
        text.contains("index 3") && text.contains("place 2") && text.contains("3 positions"),
        "{text}"
    );
    let updates = numbered(DType::F32, &[2]);
    let far = Tensor::new([2, 2], &[0, 0, 0, i64::MAX]).unwrap();
    let scattered =
        call(&Indexed::ScatterNd(params.shape()).into(), &[&far, &updates]).unwrap_err();
    assert_eq!(scattered.to_string(), out(i64::MAX, 3, 4));
}
