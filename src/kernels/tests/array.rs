//! Operations that move elements against their references, through shape inference and the
//! kernel of each.

use proptest::prelude::*;

use super::super::reference::{by_position, place};
use crate::graph::{Mirror, Op, Subscript, TensorType, infer};
use crate::operations::{Array, call};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// The results of `op`, after a check that they have the inferred types.
#[track_caller]
pub(super) fn run(op: &Op, inputs: &[&Tensor]) -> Vec<Tensor> {
    let types: Vec<TensorType> =
        inputs.iter().map(|x| TensorType::new(x.dtype(), x.shape())).collect();
    let inferred = infer(op, &types, &[]).unwrap();
    let outputs = call(op, inputs).unwrap();
    let found: Vec<TensorType> =
        outputs.iter().map(|out| TensorType::new(out.dtype(), out.shape())).collect();
    assert_eq!(found, inferred.to_vec(), "{op:?}");
    outputs.into_vec()
}

#[track_caller]
pub(super) fn array(op: Array, inputs: &[&Tensor]) -> Tensor {
    run(&Op::from(op), inputs).remove(0)
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

/// Asserts that `found` has, at each position, the element of `x` that `from` gives, or else
/// `other`.
#[track_caller]
pub(super) fn assert_moved(
    found: &Tensor,
    x: &Tensor,
    other: &Tensor,
    from: impl Fn(&[usize]) -> Option<Vec<usize>>,
) {
    let size = x.dtype().size();
    let element = |at: &[usize]| match from(at) {
        Some(from) => x.bytes()[place(x.shape().dims(), &from) * size..][..size].to_vec(),
        None => other.bytes().to_vec(),
    };
    let wanted = by_position(found.shape().dims(), element).concat();
    assert!(found.bytes() == wanted, "{:?} of {:?}", found.shape(), x.shape());
}

pub(super) fn zero() -> Tensor {
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
    let every = (bound(), bound(), stride).prop_map(|(begin, end, stride)| Subscript::Every {
        begin,
        end,
        stride,
    });
    let at = (0..dim.max(1) as i64)
        .prop_map(move |at| if dim == 0 { Subscript::ALL } else { Subscript::At(at) });
    prop_oneof![4 => every, 1 => at]
}

/// The positions of Python's `range(size)[begin:end:stride]`.
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
            let inside =
                |at: &i64| (0..size).contains(at) && if stride > 0 { *at < end } else { *at > end };
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
        let taken: Vec<Vec<usize>> =
            subscripts.iter().zip(&dims).map(|(s, dim)| python(*s, *dim)).collect();
        let mut given = subscripts.clone();
        given.insert(new.min(given.len()), Subscript::NewAxis);
        let found = array(Array::StridedSlice(given.clone()), &[&x]);
        let from = |at: &[usize]| {
            let (mut at, mut axis) = (at.iter(), 0);
            let mut from = Vec::new();
            for subscript in &given {
                let position =
                    if matches!(subscript, Subscript::At(_)) { 0 } else { *at.next().unwrap() };
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
            let parts = run(&Op::from(Array::Split { axis, sizes: sizes.clone() }), &[&x]);
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
            prop_assert_eq!(&run(&Op::from(Array::SplitLike { axis }), &given), &parts);
            let rows = run(&Op::from(Array::Unstack { axis }), &[&x]);
            if !rows.is_empty() {
                prop_assert_eq!(
                    &array(Array::Stack { axis }, &rows.iter().collect::<Vec<_>>()),
                    &x
                );
            }
        }
    }

    #[test]
    fn a_slice_is_that_of_the_reference(
        (dims, parts) in shapes_and(|dim| (0..=dim, 0..=dim, any::<bool>())),
    ) {
        let x = numbered(DType::I64, &dims);
        let begin: Vec<usize> = parts.iter().map(|(a, b, _)| *a.min(b)).collect();
        let size = parts.iter().map(|(a, b, to_end)| (!to_end).then(|| a.abs_diff(*b))).collect();
        let found = array(Array::Slice { begin: begin.clone(), size }, &[&x]);
        assert_moved(&found, &x, &zero(), |at| {
            Some(at.iter().zip(&begin).map(|(at, begin)| at + begin).collect())
        });
    }

    #[test]
    fn padding_surrounds_a_value_with_another(
        (dims, paddings) in shapes_and(|_| (0usize..3, 0usize..3)),
    ) {
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
                (if at < 0 {
                    -at - 1 + own
                } else if at >= dim {
                    2 * dim - 1 - own - at
                } else {
                    at
                }) as usize
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
        let inside =
            |at: &[usize]| at.iter().zip(&dims).map(|(at, dim)| at % dim).collect::<Vec<_>>();
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
    fn a_value_fills_a_shape_as_numpy_does(
        (filled, kept) in shapes_and(|_| any::<bool>()), new in 0usize..3,
    ) {
        let own: Vec<usize> =
            filled.iter().zip(&kept).map(|(dim, kept)| if *kept { *dim } else { 1 }).collect();
        let own = own[new.min(own.len())..].to_vec();
        let inside = |at: &[usize]| -> Vec<usize> {
            at[at.len() - own.len()..]
                .iter()
                .zip(&own)
                .map(|(at, dim)| if *dim == 1 { 0 } else { *at })
                .collect()
        };
        let x = numbered(DType::F32, &own);
        let found = array(Array::BroadcastTo(PartialShape::from(Shape::new(&filled))), &[&x]);
        assert_moved(&found, &x, &zero(), |at| Some(inside(at)));
    }

    #[test]
    fn reversal_and_sums_along_an_axis_are_those_of_the_references(
        (dims, reversed) in shapes_and(|_| any::<bool>()),
        exclusive in any::<bool>(),
        reverse in any::<bool>(),
    ) {
        let x = numbered(DType::I64, &dims);
        let axes: Vec<usize> = (0..dims.len()).filter(|axis| reversed[*axis]).collect();
        let turned = array(Array::Reverse(axes.clone()), &[&x]);
        assert_moved(&turned, &x, &zero(), |at| {
            let turn = |(axis, at): (usize, &usize)| {
                if axes.contains(&axis) { dims[axis] - 1 - at } else { *at }
            };
            Some(at.iter().enumerate().map(turn).collect())
        });
        for axis in 0..dims.len() {
            let sums = array(Array::Cumsum { axis, exclusive, reverse }, &[&x]);
            let wanted = by_position(&dims, |at| {
                let all = if reverse { at[axis]..dims[axis] } else { 0..at[axis] + 1 };
                let counted = all.filter(|i| !exclusive || *i != at[axis]);
                let there = |i| {
                    let mut at = at.to_vec();
                    at[axis] = i;
                    x.slice::<i64>()[place(&dims, &at)]
                };
                counted.map(there).sum::<i64>()
            });
            prop_assert_eq!(sums.slice::<i64>(), &wanted[..]);
        }
    }
}
