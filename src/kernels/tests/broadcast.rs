//! Functions of several broadcast operands, at every remainder and on random shapes.

use proptest::prelude::*;

use super::super::reference;
use super::{LENGTHS, applied, assert_close, bits, values};
use crate::graph::Op;
use crate::operations::{Binary, Broadcast, Cast, Compare, Logical, call};
use crate::tensor::{DType, Shape, Tensor};

/// A function and its definition.
type Definition = (Binary, fn(f32, f32) -> f32);

const EXACT: [Definition; 9] = [
    (Binary::Add, |a, b| a + b),
    (Binary::Sub, |a, b| a - b),
    (Binary::Mul, |a, b| a * b),
    (Binary::Div, |a, b| a / b),
    (Binary::FloorDiv, |a, b| (a / b).floor()),
    (Binary::Pow, f32::powf),
    (Binary::Maximum, |a, b| if a > b { a } else { b }),
    (Binary::Minimum, |a, b| if a < b { a } else { b }),
    (Binary::SquaredDifference, |a, b| (a - b) * (a - b)),
];

fn floats(seed: u64, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    Tensor::new(shape, &values(seed, shape.elements())).unwrap()
}

/// `f` of the two operands at each element of a result of shape `out`.
fn reference<T: crate::tensor::Element, Y>(
    a: &Tensor,
    b: &Tensor,
    out: Shape,
    f: impl Fn(T, T) -> Y,
) -> Vec<Y> {
    let (from_a, from_b) = (reference::sources(a.shape(), out), reference::sources(b.shape(), out));
    from_a.iter().zip(from_b).map(|(i, j)| f(a.slice()[*i], b.slice()[j])).collect()
}

/// Three operands and the shape of their result: some of their dimensions are 1, some leading ones
/// lacking.
fn broadcast_shapes() -> impl Strategy<Value = (Shape, [Shape; 3])> {
    let dims = prop::collection::vec(prop::sample::select(vec![1usize, 2, 3, 5, 17]), 0..5);
    let cuts = prop::collection::vec((any::<[bool; 3]>(), Just(())), 5);
    (dims, cuts, any::<[u8; 3]>()).prop_map(|(dims, cuts, lacking)| {
        let operand = |k: usize| {
            let kept: Vec<usize> = dims
                .iter()
                .zip(&cuts)
                .map(|(dim, (cut, ()))| if cut[k] { 1 } else { *dim })
                .collect();
            let first = if k == 0 { 0 } else { usize::from(lacking[k]) % (dims.len() + 1) };
            Shape::new(&kept[first..])
        };
        let shapes = [operand(0), operand(1), operand(2)];
        let out = shapes[1..]
            .iter()
            .fold(shapes[0], |out, shape| super::super::broadcast::shape_of(out, *shape));
        (out, shapes)
    })
}

#[test]
fn rows_columns_and_scalars_meet_every_length() {
    for n in LENGTHS {
        for (a, b) in [
            ([5, n], [5, n]),
            ([5, n], [1, n]),
            ([5, n], [5, 1]),
            ([1, n], [5, 1]),
            ([1, 1], [5, n]),
        ] {
            let (a, b, out) = (floats(1, a), floats(2, b), Shape::from([5, n]));
            for (binary, f) in EXACT {
                let found = applied(&Op::from(binary), &[&a, &b]);
                assert_eq!(found.shape(), out);
                assert_eq!(bits(found.slice()), bits(&reference(&a, &b, out, f)), "{binary:?}");
                let turned = applied(&Op::from(binary), &[&b, &a]);
                assert_eq!(bits(turned.slice()), bits(&reference(&b, &a, out, f)), "{binary:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_shapes_that_broadcast_give_what_the_reference_does(
        (_, [a, b, c]) in broadcast_shapes(),
    ) {
        let (a, b, c) = (floats(1, a), floats(2, b), floats(3, c));
        let of_two = super::super::broadcast::shape_of(a.shape(), b.shape());
        let difference = applied(&Op::from(Binary::Sub), &[&a, &b]);
        prop_assert_eq!(
            bits(difference.slice()),
            bits(&reference(&a, &b, of_two, |a: f32, b| a - b))
        );
        let less = applied(&Op::from(Compare::Less), &[&a, &b]);
        prop_assert_eq!(less.slice::<bool>(), reference(&a, &b, of_two, |a: f32, b| a < b));

        let out = super::super::broadcast::shape_of(of_two, c.shape());
        let chosen = applied(&Op::from(Broadcast::Select), &[&less, &c, &b]);
        let [from_less, from_c, from_b] =
            [&less, &c, &b].map(|x| reference::sources(x.shape(), out));
        let choose = |i: usize| match less.slice::<bool>()[from_less[i]] {
            true => c.slice::<f32>()[from_c[i]],
            false => b.slice()[from_b[i]],
        };
        let wanted: Vec<f32> = (0..out.elements()).map(choose).collect();
        prop_assert_eq!(bits(chosen.slice()), bits(&wanted));
    }

    #[test]
    fn a_sum_to_a_shape_adds_up_what_was_made_of_each_element(
        (out, [a, ..]) in broadcast_shapes(),
    ) {
        let (dy, x) = (floats(1, out), floats(2, a));
        let mut wanted = vec![0f64; a.elements()];
        for (from, dy) in reference::sources(a, out).iter().zip(dy.slice::<f32>()) {
            wanted[*from] += f64::from(*dy);
        }
        let found = applied(&Op::from(Broadcast::SumToLike), &[&dy, &x]);
        prop_assert_eq!(found.shape(), a);
        let scale = 1.0 + out.elements() as f32 / a.elements().max(1) as f32;
        assert_close(
            found.slice(),
            &reference::map(&wanted, |x| x as f32),
            f32::EPSILON * scale * 3.0,
        );
        let double = |x: &Tensor| applied(&Op::from(Cast(DType::F64)), &[x]);
        let found = applied(&Op::from(Broadcast::SumToLike), &[&double(&dy), &double(&x)]);
        let close = |(found, wanted): (&f64, &f64)| (found - wanted).abs() < 1e-12;
        prop_assert!(found.slice::<f64>().iter().zip(&wanted).all(close));
    }
}

#[test]
fn what_has_no_elements_gives_none() {
    let (empty, row) = (floats(1, [0, 3]), floats(2, [3]));
    assert_eq!(applied(&Op::from(Binary::Add), &[&empty, &row]).shape(), Shape::from([0, 3]));
    assert_eq!(applied(&Op::from(Broadcast::SumToLike), &[&empty, &row]).slice::<f32>(), [0.0; 3]);
    let none = Tensor::new([0, 1], &[] as &[bool]).unwrap();
    assert_eq!(
        applied(&Op::from(Broadcast::Select), &[&none, &row, &row]).shape(),
        Shape::from([0, 3])
    );
}

#[test]
fn division_to_the_integer_below_leaves_what_has_the_sign_of_the_divisor() {
    let a = Tensor::new([4], &[7i32, -7, 7, -7]).unwrap();
    let b = Tensor::new([4], &[2i32, 2, -2, -2]).unwrap();
    let of = |binary| applied(&Op::from(binary), &[&a, &b]).slice::<i32>().to_vec();
    assert_eq!(of(Binary::FloorDiv), [3, -4, -4, 3]);
    assert_eq!(of(Binary::FloorMod), [1, 1, -1, -1]);
    assert_eq!(of(Binary::Div), [3, -3, -3, 3]);
    let [a, b] = [&a, &b].map(|x| applied(&Op::from(Cast(DType::F32)), &[x]));
    let of = |binary| applied(&Op::from(binary), &[&a, &b]).slice::<f32>().to_vec();
    assert_eq!(of(Binary::FloorDiv), [3.0, -4.0, -4.0, 3.0]);
    assert_eq!(of(Binary::FloorMod), [1.0, 1.0, -1.0, -1.0]);
}

#[test]
fn integers_wrap_and_have_powers_and_the_greatest_of_them_no_opposite() {
    let of = |binary, a: i64, b: i64| {
        applied(&Op::from(binary), &[&a.into(), &b.into()]).item::<i64>().unwrap()
    };
    assert_eq!(of(Binary::Add, i64::MAX, 1), i64::MIN);
    assert_eq!(of(Binary::FloorDiv, i64::MIN, -1), i64::MIN);
    assert_eq!(
        (of(Binary::Pow, -3, 5), of(Binary::Pow, 2, 63), of(Binary::Pow, 0, 0)),
        (-243, i64::MIN, 1)
    );
    assert_eq!((of(Binary::Maximum, -3, 5), of(Binary::SquaredDifference, -3, 5)), (5, 64));
}

#[test]
fn integers_divided_by_zero_or_raised_below_it_are_an_error_that_says_so() {
    let (a, b) = (Tensor::new([2], &[1i32, 2]).unwrap(), Tensor::new([2], &[1i32, 0]).unwrap());
    for binary in [Binary::Div, Binary::FloorDiv, Binary::FloorMod] {
        let error = call(&Op::from(binary), &[&a, &b]).unwrap_err();
        assert!(error.to_string().starts_with(Op::from(binary).kind()), "{error}");
        assert!(error.to_string().contains("divisors other than 0"), "{error}");
    }
    let below = Tensor::scalar(-1i32);
    assert!(call(&Op::from(Binary::Pow), &[&a, &below]).is_err());
    let none = Tensor::new([0], &[] as &[i32]).unwrap();
    assert!(call(&Op::from(Binary::Div), &[&none, &Tensor::scalar(0i32)]).is_ok());
}

#[test]
fn the_greater_and_the_lesser_of_a_nan_are_nan_and_no_nan_equals_anything() {
    let nan = Tensor::scalar(f32::NAN);
    for (a, b) in [(&nan, &Tensor::scalar(1f32)), (&Tensor::scalar(1f32), &nan)] {
        for binary in [Binary::Maximum, Binary::Minimum] {
            assert!(applied(&Op::from(binary), &[a, b]).item::<f32>().unwrap().is_nan());
        }
    }
    let of = |comparison| applied(&Op::from(comparison), &[&nan, &nan]).item::<bool>().unwrap();
    assert_eq!(
        (of(Compare::Equal), of(Compare::NotEqual), of(Compare::LessEqual)),
        (false, true, false)
    );
}

#[test]
fn every_comparison_and_truth_function_has_its_table() {
    let (a, b) = (Tensor::new([3], &[1i64, 2, 3]).unwrap(), Tensor::scalar(2i64));
    let of = |comparison| applied(&Op::from(comparison), &[&a, &b]).slice::<bool>().to_vec();
    assert_eq!(
        (of(Compare::Equal), of(Compare::NotEqual)),
        (vec![false, true, false], vec![true, false, true])
    );
    assert_eq!(
        (of(Compare::Less), of(Compare::LessEqual)),
        (vec![true, false, false], vec![true, true, false])
    );
    assert_eq!(
        (of(Compare::Greater), of(Compare::GreaterEqual)),
        (vec![false, false, true], vec![false, true, true])
    );
    let (a, b) =
        (Tensor::new([2, 1], &[false, true]).unwrap(), Tensor::new([2], &[false, true]).unwrap());
    let of =
        |logical, inputs: &[&Tensor]| applied(&Op::from(logical), inputs).slice::<bool>().to_vec();
    assert_eq!(of(Logical::And, &[&a, &b]), [false, false, false, true]);
    assert_eq!(of(Logical::Or, &[&a, &b]), [false, true, true, true]);
    assert_eq!(of(Logical::Not, &[&a]), [true, false]);
    assert_eq!(
        applied(&Op::from(Compare::Equal), &[&a, &b]).slice::<bool>(),
        [true, false, false, true]
    );
}
