//! Operations that move elements against their references, through shape inference and the registry.

use proptest::prelude::*;

use super::super::reference::{by_position, place};
use super::super::{call, cost_of};
use super::{bits, values};
use crate::graph::{Array, Mirror, Op, Subscript, TensorType, infer};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The results of `op`, which are of the types that were inferred.
#[track_caller]
pub(super) fn run(op: &Op, inputs: &[&Tensor]) -> Vec<Tensor> {
    let types: Vec<TensorType> = inputs.iter().map(|x| TensorType::new(x.dtype(), x.shape())).collect();
    let inferred = infer(op, &types, &[]).unwrap();
    let outputs = call(op, inputs).unwrap();
    let found: Vec<TensorType> = outputs.iter().map(|out| TensorType::new(out.dtype(), out.shape())).collect();
    assert_eq!(found, inferred.to_vec(), "{op:?}");
    outputs.into_vec()
}

#[track_caller]
fn array(op: Array, inputs: &[&Tensor]) -> Tensor {
    run(&Op::Array(op), inputs).remove(0)
}

/// The numbers of the elements, in order, as values of any type (truth values alternate).
pub(super) fn numbered(dtype: DType, dims: &[usize]) -> Tensor {
    let elements: usize = dims.iter().product();
    let numbers = 0..elements as i64;
    match dtype {
        DType::I32 => Tensor::new(dims, &numbers.map(|i| i as i32).collect::<Vec<_>>()),
        DType::I64 => Tensor::new(dims, &numbers.collect::<Vec<_>>()),
        DType::Bool => Tensor::new(dims, &numbers.map(|i| i % 3 == 1).collect::<Vec<_>>()),
        _ => Tensor::new(dims, &numbers.map(|i| i as f32).collect::<Vec<_>>()),
    }
    .unwrap()
}

/// Asserts that `found` has, at each position, the element of `x` that `from` says, or else `other`.
#[track_caller]
fn assert_moved(found: &Tensor, x: &Tensor, other: &Tensor, from: impl Fn(&[usize]) -> Option<Vec<usize>>) {
    let size = x.dtype().size();
    let element = |at: &[usize]| match from(at) {
        Some(from) => x.bytes()[place(x.shape().dims(), &from) * size..][..size].to_vec(),
        None => other.bytes().to_vec(),
    };
    let wanted = by_position(found.shape().dims(), element).concat();
    assert!(found.bytes() == wanted, "{:?} of {:?}", found.shape(), x.shape());
}

fn zero() -> Tensor {
    Tensor::scalar(0f32)
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![DType::F32, DType::I32, DType::I64, DType::Bool])
}

/// Dimensions, among them none, empty ones, and now and then a long one.
fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![8 => 0usize..5, 1 => 14usize..36], 0..5)
}

fn shapes_and<T: std::fmt::Debug, S: Strategy<Value = T>>(
    each: impl Fn(usize) -> S,
) -> impl Strategy<Value = (Vec<usize>, Vec<T>)> {
    shapes().prop_flat_map(move |dims| {
        let along: Vec<S> = dims.iter().map(|dim| each(*dim)).collect();
        (Just(dims), along)
    })
}

fn subscripts(dim: usize) -> impl Strategy<Value = Subscript> {
    let reach = dim as i64 + 2;
    let bound = move || prop::option::of(-reach..=reach);
    let stride = prop::sample::select(vec![1i64, 1, 1, 2, 3, -1, -2]);
    let every = (bound(), bound(), stride).prop_map(|(begin, end, stride)| Subscript::Every { begin, end, stride });
    let at = (0..dim.max(1) as i64).prop_map(move |at| if dim == 0 { Subscript::ALL } else { Subscript::At(at) });
    prop_oneof![4 => every, 1 => at]
}

/// What Python's `range(size)[begin:end:stride]` gives, position by position.
fn python(subscript: Subscript, size: usize) -> Vec<usize> {
    let size = size as i64;
    match subscript {
        Subscript::At(at) => vec![at as usize],
        Subscript::NewAxis => vec![0],
        Subscript::Every { begin, end, stride } => {
            let wrapped = |at: i64| if at < 0 { at + size } else { at };
            let begin = begin.map_or(if stride > 0 { 0 } else { size - 1 }, wrapped);
            let begin = if stride > 0 { begin.max(0) } else { begin.min(size - 1) };
            let end = end.map_or(if stride > 0 { size } else { -1 }, wrapped);
            let inside = |at: &i64| (0..size).contains(at) && if stride > 0 { *at < end } else { *at > end };
            std::iter::successors(Some(begin), |at| Some(at + stride))
                .take_while(inside)
                .map(|at| at as usize)
                .collect()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_transposition_is_that_of_the_reference(
        (dims, keys) in shapes_and(|_| any::<u32>()), dtype in dtypes(),
    ) {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|axis| keys[*axis]);
        let x = numbered(dtype, &dims);
        let found = array(Array::Transpose(order.clone()), &[&x]);
        assert_moved(&found, &x, &zero(), |at| {
            let mut from = vec![0; at.len()];
            order.iter().zip(at).for_each(|(axis, at)| from[*axis] = *at);
            Some(from)
        });
    }

    #[test]
    fn what_subscripts_take_is_what_python_takes_and_the_gradient_puts_it_back(
        (dims, subscripts) in shapes_and(subscripts), new in 0usize..6, dtype in dtypes(),
    ) {
        let x = numbered(dtype, &dims);
        let taken: Vec<Vec<usize>> = subscripts.iter().zip(&dims).map(|(s, dim)| python(*s, *dim)).collect();
        let mut given = subscripts.clone();
        given.insert(new.min(given.len()), Subscript::NewAxis);
        let found = array(Array::StridedSlice(given.clone()), &[&x]);
        let from = |at: &[usize]| {
            let (mut at, mut axis) = (at.iter(), 0);
            let mut from = Vec::new();
            for subscript in &given {
                let position = if matches!(subscript, Subscript::At(_)) { 0 } else { *at.next().unwrap() };
                if *subscript != Subscript::NewAxis {
                    from.push(taken[axis][position]);
                    axis += 1;
                }
            }
            from
        };
        assert_moved(&found, &x, &zero(), |at| Some(from(at)));

        let (x, dy) = (numbered(DType::F32, &dims), numbered(DType::F32, found.shape().dims()));
        let mut wanted = vec![0f32; x.shape().elements()];
        let sources = by_position(dy.shape().dims(), |at| place(&dims, &from(at)));
        sources.iter().zip(dy.slice::<f32>()).for_each(|(to, dy)| wanted[*to] += dy);
        let back = array(Array::StridedSliceGrad(given.clone()), &[&dy, &x]);
        prop_assert_eq!(back.slice::<f32>(), &wanted[..]);
    }

    #[test]
    fn parts_joined_are_the_whole_and_each_is_where_the_reference_says(
        (dims, cuts) in shapes_and(|dim| (0..=dim, 0..=dim)), dtype in dtypes(),
    ) {
        let x = numbered(dtype, &dims);
        for (axis, (a, b)) in cuts.iter().enumerate() {
            let (a, b) = (*a.min(b), *a.max(b));
            let sizes = vec![a, b - a, dims[axis] - b];
            let parts = run(&Op::Array(Array::Split { axis, sizes: sizes.clone() }), &[&x]);
            for (part, first) in parts.iter().zip([0, a, b]) {
                assert_moved(part, &x, &zero(), |at| {
                    let mut at = at.to_vec();
                    at[axis] += first;
                    Some(at)
                });
            }
            let all: Vec<&Tensor> = parts.iter().collect();
            prop_assert_eq!(&array(Array::Concat { axis }, &all), &x);
            let given: Vec<&Tensor> = std::iter::once(&x).chain(parts.iter()).collect();
            prop_assert_eq!(&run(&Op::Array(Array::SplitLike { axis }), &given), &parts);
            let rows = run(&Op::Array(Array::Unstack { axis }), &[&x]);
            if !rows.is_empty() {
                prop_assert_eq!(&array(Array::Stack { axis }, &rows.iter().collect::<Vec<_>>()), &x);
            }
        }
    }

    #[test]
    fn a_slice_is_that_of_the_reference((dims, parts) in shapes_and(|dim| (0..=dim, 0..=dim, any::<bool>()))) {
        let x = numbered(DType::I64, &dims);
        let begin: Vec<usize> = parts.iter().map(|(a, b, _)| *a.min(b)).collect();
        let size = parts.iter().map(|(a, b, to_end)| (!to_end).then(|| a.abs_diff(*b))).collect();
        let found = array(Array::Slice { begin: begin.clone(), size }, &[&x]);
        assert_moved(&found, &x, &zero(), |at| Some(at.iter().zip(&begin).map(|(at, begin)| at + begin).collect()));
    }

    #[test]
    fn padding_surrounds_a_value_with_another((dims, paddings) in shapes_and(|_| (0usize..3, 0usize..3))) {
        let (x, value) = (numbered(DType::I32, &dims), Tensor::scalar(-7i32));
        let found = array(Array::Pad { paddings: paddings.clone(), value: value.clone() }, &[&x]);
        assert_moved(&found, &x, &value, |at| {
            let inside = |((at, (before, _)), dim): ((&usize, &(usize, usize)), &usize)| {
                at.checked_sub(*before).filter(|at| at < dim)
            };
            at.iter().zip(&paddings).zip(&dims).map(inside).collect()
        });
    }

    #[test]
    fn a_mirrored_value_repeats_its_elements_and_its_gradient_adds_them_up(
        (dims, paddings) in shapes_and(|dim| (0..=dim, 0..=dim)), symmetric in any::<bool>(),
    ) {
        let mirror = if symmetric { Mirror::Symmetric } else { Mirror::Reflect };
        let own = usize::from(!symmetric);
        let room = |(dim, (a, b)): (&usize, &(usize, usize))| {
            let most = dim.saturating_sub(own);
            ((*a).min(most), (*b).min(most))
        };
        let paddings: Vec<(usize, usize)> = dims.iter().zip(&paddings).map(room).collect();
        let from = |at: &[usize]| -> Vec<usize> {
            let origin = |((at, (before, _)), dim): ((&usize, &(usize, usize)), &usize)| {
                let (at, dim, own) = (*at as i64 - *before as i64, *dim as i64, own as i64);
                (if at < 0 { -at - 1 + own } else if at >= dim { 2 * dim - 1 - own - at } else { at }) as usize
            };
            at.iter().zip(&paddings).zip(&dims).map(origin).collect()
        };
        let x = numbered(DType::F32, &dims);
        let found = array(Array::MirrorPad { paddings: paddings.clone(), mirror }, &[&x]);
        assert_moved(&found, &x, &zero(), |at| Some(from(at)));

        let mut wanted = vec![0f32; x.shape().elements()];
        let origins = by_position(found.shape().dims(), |at| place(&dims, &from(at)));
        origins.iter().zip(found.slice::<f32>()).for_each(|(to, dy)| wanted[*to] += dy);
        let back = array(Array::MirrorPadGrad { paddings, mirror }, &[&found]);
        prop_assert_eq!(back.slice::<f32>(), &wanted[..]);
    }

    #[test]
    fn tiles_repeat_a_value_and_their_gradient_adds_them_up(
        (dims, multiples) in shapes_and(|_| 0usize..4), dtype in dtypes(),
    ) {
        let inside = |at: &[usize]| at.iter().zip(&dims).map(|(at, dim)| at % dim).collect::<Vec<_>>();
        let x = numbered(dtype, &dims);
        let found = array(Array::Tile(multiples.clone()), &[&x]);
        assert_moved(&found, &x, &zero(), |at| Some(inside(at)));
        if multiples.iter().all(|times| *times > 0) {
            let dy = numbered(DType::F32, found.shape().dims());
            let mut wanted = vec![0f32; x.shape().elements()];
            let origins = by_position(dy.shape().dims(), |at| place(&dims, &inside(at)));
            origins.iter().zip(dy.slice::<f32>()).for_each(|(to, dy)| wanted[*to] += dy);
            let back = array(Array::TileGrad(multiples), &[&dy]);
            prop_assert_eq!(back.slice::<f32>(), &wanted[..]);
        }
    }

    #[test]
    fn a_value_fills_a_shape_as_numpy_does_and_its_gradient_adds_up(
        (filled, kept) in shapes_and(|_| any::<bool>()), new in 0usize..3,
    ) {
        let own: Vec<usize> = filled.iter().zip(&kept).map(|(dim, kept)| if *kept { *dim } else { 1 }).collect();
        let own = own[new.min(own.len())..].to_vec();
        let inside = |at: &[usize]| -> Vec<usize> {
            at[at.len() - own.len()..].iter().zip(&own).map(|(at, dim)| if *dim == 1 { 0 } else { *at }).collect()
        };
        let x = numbered(DType::F32, &own);
        let found = array(Array::BroadcastTo(PartialShape::from(Shape::new(&filled))), &[&x]);
        assert_moved(&found, &x, &zero(), |at| Some(inside(at)));
        let mut wanted = vec![0f32; x.shape().elements()];
        let origins = by_position(&filled, |at| place(&own, &inside(at)));
        origins.iter().zip(found.slice::<f32>()).for_each(|(to, dy)| wanted[*to] += dy);
        let back = array(Array::BroadcastToGrad, &[&found, &x]);
        prop_assert_eq!(back.slice::<f32>(), &wanted[..]);
    }

    #[test]
    fn reversal_and_sums_along_an_axis_are_those_of_the_references(
        (dims, reversed) in shapes_and(|_| any::<bool>()), exclusive in any::<bool>(), reverse in any::<bool>(),
    ) {
        let x = numbered(DType::I64, &dims);
        let axes: Vec<usize> = (0..dims.len()).filter(|axis| reversed[*axis]).collect();
        let turned = array(Array::Reverse(axes.clone()), &[&x]);
        assert_moved(&turned, &x, &zero(), |at| {
            let turn = |(axis, at): (usize, &usize)| if axes.contains(&axis) { dims[axis] - 1 - at } else { *at };
            Some(at.iter().enumerate().map(turn).collect())
        });
        for axis in 0..dims.len() {
            let sums = array(Array::Cumsum { axis, exclusive, reverse }, &[&x]);
            let wanted = by_position(&dims, |at| {
                let all = if reverse { at[axis]..dims[axis] } else { 0..at[axis] + 1 };
                let counted = all.filter(|i| !exclusive || *i != at[axis]);
                let there = |i| { let mut at = at.to_vec(); at[axis] = i; x.slice::<i64>()[place(&dims, &at)] };
                counted.map(there).sum::<i64>()
            });
            prop_assert_eq!(sums.slice::<i64>(), &wanted[..]);
        }
    }
}

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
        let inside = |at: usize, before: usize, len: usize| at.checked_sub(before).filter(|at| *at < len);
        Some(vec![inside(at[0], 3, rows)?, inside(at[1], 1, columns)?])
    });
    let inner = Array::Slice { begin: vec![3, 1], size: vec![Some(rows), Some(columns)] };
    assert_eq!(array(inner, &[&padded]), x);
    for axis in 0..2 {
        let sizes = vec![300, x.shape().dims()[axis] - 300];
        let parts = run(&Op::Array(Array::Split { axis, sizes }), &[&x]);
        assert_eq!(array(Array::Concat { axis }, &parts.iter().collect::<Vec<_>>()), x);
    }
    let turned = array(Array::Reverse(vec![0, 1]), &[&x]);
    assert!(turned.slice::<i32>().iter().eq(x.slice::<i32>().iter().rev()));
}

#[test]
fn a_range_counts_from_its_start_in_every_type() {
    let range = |start: Tensor, limit: Tensor, delta: Tensor| array(Array::Range { start, limit, delta }, &[]);
    assert_eq!(range(3i32.into(), 10i32.into(), 3i32.into()).slice::<i32>(), [3, 6, 9]);
    assert_eq!(range(3i64.into(), 0i64.into(), (-2i64).into()).slice::<i64>(), [3, 1]);
    assert_eq!(range(0f32.into(), 1f32.into(), 0.25f32.into()).slice::<f32>(), [0.0, 0.25, 0.5, 0.75]);
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
    let cost = |op, inputs: &[_], outputs: &[_]| cost_of(&Op::Array(op), inputs, outputs);
    let transposed = cost(Array::Transpose(vec![1, 0]), &[f32s(&[3, 5])], &[f32s(&[5, 3])]);
    assert_eq!((transposed.flops, transposed.bytes), (0, 2 * 4 * 15));
    let part = Array::Slice { begin: vec![0], size: vec![Some(2)] };
    assert_eq!(cost(part, &[f32s(&[1000])], &[f32s(&[2])]).bytes, 16);
    let summed = cost(Array::TileGrad(vec![4]), &[f32s(&[8])], &[f32s(&[2])]);
    assert_eq!((summed.flops, summed.bytes), (8, 40));
    assert_eq!(cost(Array::ExpandDims(0), &[f32s(&[8])], &[f32s(&[1, 8])]).bytes, 0);
}
