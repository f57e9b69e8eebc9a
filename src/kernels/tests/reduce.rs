//! Reductions along axes, their gradients, and comparisons along an axis, against their
//! definitions.

use proptest::prelude::*;

use super::super::number::Number;
use super::super::order::{argmax, argmin, in_top_k, top_k, top_k_grad};
use super::super::reduce::{Run, mean_of_i32, numbers, truth};
use super::super::{reduce_grad, reference};
use super::{LENGTHS, assert_close, bits, values, written};
use crate::graph::{Axes, Reduction};
use crate::tensor::Shape;

const NUMERIC: [Reduction; 5] =
    [Reduction::Sum, Reduction::Mean, Reduction::Prod, Reduction::Max, Reduction::Min];

fn definition(reduction: Reduction, x: &[f64]) -> f64 {
    match reduction {
        Reduction::Sum => x.iter().sum(),
        Reduction::Mean => x.iter().sum::<f64>() / x.len() as f64,
        Reduction::Prod => x.iter().product(),
        Reduction::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
        Reduction::Any => f64::from(u8::from(x.contains(&1.0))),
        Reduction::All => f64::from(u8::from(!x.contains(&0.0))),
    }
}

fn left(shape: Shape, axes: Axes) -> usize {
    shape
        .dims()
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(*axis))
        .map(|(_, dim)| dim)
        .product()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// Any small shape of up to four dimensions, some of them 1 or 0, and any of its axes.
fn cases() -> impl Strategy<Value = (Shape, Axes)> {
    let dim = prop_oneof![1 => Just(0usize), 4 => Just(1), 12 => 2usize..6, 4 => 6usize..36];
    let shapes = prop::collection::vec(dim, 0..5).prop_map(|dims| Shape::new(&dims));
    (shapes.prop_filter("a small shape", |shape| shape.elements() < 1500), any::<[bool; 4]>())
        .prop_map(|(shape, chosen)| {
            (shape, (0..shape.rank()).filter(|axis| chosen[*axis]).collect())
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_axes_of_any_shape_give_what_the_definition_says((shape, axes) in cases()) {
        let x: Vec<f32> = values(1, shape.elements()).iter().map(|x| x / 2.0).collect();
        for reduction in NUMERIC {
            let exact = reference::reduce(&wide(&x), shape, axes, |x| definition(reduction, x));
            let found =
                written(left(shape, axes), 1, |out| numbers(reduction, &x, shape, axes, out));
            for (found, exact) in found.iter().zip(exact) {
                let is_close = (f64::from(*found) - exact).abs() <= 2e-5 * exact.abs().max(1.0);
                let is_same = found.is_nan() && exact.is_nan() || f64::from(*found) == exact;
                prop_assert!(is_close || is_same, "{found} {exact}");
            }
        }
        let flags: Vec<bool> = x.iter().map(|x| *x > -1.0).collect();
        let as_numbers: Vec<f64> = flags.iter().map(|flag| f64::from(u8::from(*flag))).collect();
        for reduction in [Reduction::Any, Reduction::All] {
            let exact = reference::reduce(&as_numbers, shape, axes, |x| definition(reduction, x));
            let mut found = vec![false; left(shape, axes)];
            truth(reduction, &flags, shape, axes, &mut found);
            prop_assert_eq!(found, exact.iter().map(|x| *x == 1.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn integers_and_f64_are_reduced_exactly((shape, axes) in cases()) {
        let x: Vec<f64> =
            values(2, shape.elements()).iter().map(|x| f64::from(*x).trunc()).collect();
        let whole: Vec<i64> = x.iter().map(|x| *x as i64).collect();
        for reduction in NUMERIC.into_iter().filter(|reduction| *reduction != Reduction::Prod) {
            let exact = reference::reduce(&x, shape, axes, |x| definition(reduction, x));
            let (mut floats, mut integers) = (vec![9.0; exact.len()], vec![9i64; exact.len()]);
            numbers(reduction, &x, shape, axes, &mut floats);
            numbers(reduction, &whole, shape, axes, &mut integers);
            for ((float, integer), exact) in floats.iter().zip(&integers).zip(exact) {
                prop_assert!(
                    (float - exact).abs() < 1e-12
                        || *float == exact
                        || float.is_nan() && exact.is_nan()
                );
                let is_same = !exact.is_finite() || *integer == exact.trunc() as i64;
                prop_assert!(is_same, "{reduction:?}: {integer} {exact}");
            }
        }
    }

    #[test]
    fn gradients_spread_share_and_multiply_as_the_definition_says((shape, axes) in cases()) {
        let x: Vec<f64> = values(3, shape.elements())
            .iter()
            .map(|x| f64::from((x * 2.0).round() / 2.0))
            .collect();
        let dy: Vec<f64> = values(4, left(shape, axes)).iter().map(|x| f64::from(*x)).collect();
        let mut y = vec![0.0; dy.len()];
        let mut dx = vec![f64::NAN; x.len()];
        let places = reference::places(shape, axes);
        reduce_grad::spread(&dy, shape, axes, &mut dx);
        prop_assert_eq!(&dx, &places.iter().map(|at| dy[*at]).collect::<Vec<_>>());

        numbers(Reduction::Max, &x, shape, axes, &mut y);
        reduce_grad::extreme(&dy, &x, &y, shape, axes, &mut dx);
        for (i, at) in places.iter().enumerate() {
            let ties = (0..x.len()).filter(|j| places[*j] == *at && x[*j] == y[*at]).count();
            let share = if x[i] == y[*at] { dy[*at] / ties as f64 } else { 0.0 };
            prop_assert!((dx[i] - share).abs() < 1e-12);
        }

        reduce_grad::product(&dy, &x, shape, axes, &mut dx);
        for (i, at) in places.iter().enumerate() {
            let others: f64 =
                (0..x.len()).filter(|j| *j != i && places[*j] == *at).map(|j| x[j]).product();
            prop_assert!((dx[i] - dy[*at] * others).abs() <= 1e-9 * others.abs().max(1.0));
        }
    }

    #[test]
    fn the_greatest_and_the_least_are_where_the_first_of_them_is(
        outer in 0usize..5, reduced in 1usize..40, inner in 1usize..20,
    ) {
        let x: Vec<f32> = values(5, outer * reduced * inner).iter().map(|x| x.round()).collect();
        let mut greatest = vec![9i32; outer * inner];
        argmax(&x, Run { outer, reduced, inner }, &mut greatest);
        let mut least = vec![9i64; outer * inner];
        argmin(&x, Run { outer, reduced, inner }, &mut least);
        for (i, (greatest, least)) in greatest.iter().zip(&least).enumerate() {
            let axis: Vec<f32> =
                (0..reduced).map(|r| x[(i / inner * reduced + r) * inner + i % inner]).collect();
            prop_assert_eq!(*greatest as i64, reference::argmax(&axis, reduced)[0]);
            let negated: Vec<f32> = axis.iter().map(|x| -x).collect();
            prop_assert_eq!(*least, reference::argmax(&negated, reduced)[0]);
        }
    }

    #[test]
    fn the_top_of_a_row_is_the_head_of_the_row_sorted(
        rows in 0usize..6,
        columns in 1usize..60,
        part in 0usize..60,
    ) {
        let k = part % (columns + 1);
        let x: Vec<i32> = values(6, rows * columns).iter().map(|x| x.round() as i32).collect();
        let (mut greatest, mut positions) = (vec![9; rows * k], vec![9; rows * k]);
        top_k(&x, columns, &mut greatest, &mut positions, k);
        let mut gradient = vec![9.0f32; x.len()];
        top_k_grad(&vec![2.0; rows * k], &positions, k, columns, &mut gradient);
        for row in 0..rows {
            let mut sorted: Vec<usize> = (0..columns).collect();
            sorted.sort_by_key(|at| std::cmp::Reverse(x[row * columns + at]));
            let found: Vec<usize> =
                positions[row * k..][..k].iter().map(|at| *at as usize).collect();
            prop_assert_eq!(&found, &sorted[..k]);
            prop_assert!(
                found
                    .iter()
                    .zip(&greatest[row * k..])
                    .all(|(at, value)| x[row * columns + at] == *value)
            );
            let chosen = gradient[row * columns..][..columns].iter().enumerate();
            let wanted = |at: usize| if found.contains(&at) { 2.0 } else { 0.0 };
            prop_assert!(chosen.clone().all(|(at, x)| *x == wanted(at)));
        }
    }
}

fn sum(x: &[f32]) -> f32 {
    written(1, 0, |out| {
        numbers(Reduction::Sum, x, [x.len()].into(), [0].into_iter().collect(), out)
    })[0]
}

#[test]
fn sums_are_within_a_few_units_at_every_remainder() {
    for len in LENGTHS.chain([16_383, 16_384, 16_385, 100_000]) {
        let x = values(1, len);
        let scale = 1.0 + len as f32;
        assert!((sum(&x) - reference::sum(&x)).abs() <= scale * f32::EPSILON, "the sum of {len}");
    }
}

#[test]
fn long_rows_and_long_columns_are_summed_in_blocks_whatever_is_beside_them() {
    let (rows, columns) = (3, 40_000);
    let x = values(1, rows * columns);
    let each: Vec<f32> = x.chunks(columns).map(sum).collect();
    let last: Axes = [1].into_iter().collect();
    let found =
        written(rows, 0, |out| numbers(Reduction::Sum, &x, [rows, columns].into(), last, out));
    assert_eq!(bits(&found), bits(&each));
    let (middle, shape) = ([1].into_iter().collect(), Shape::from([2, 20_000, 3]));
    let found = written(6, 0, |out| numbers(Reduction::Sum, &x, shape, middle, out));
    let halves =
        x.chunks(60_000).flat_map(|half| reference::column_sums(half, 3)).collect::<Vec<_>>();
    assert_close(&found, &halves, 1e-2);
}

#[test]
fn nothing_reduced_is_neutral_and_integers_wrap_and_are_cut_towards_zero() {
    let of_none = |reduction| {
        let mut out = [9.0f32; 2];
        numbers(reduction, &[], Shape::from([0, 2]), [0].into_iter().collect(), &mut out);
        out[1]
    };
    assert_eq!((of_none(Reduction::Sum), of_none(Reduction::Prod)), (0.0, 1.0));
    assert_eq!(
        (of_none(Reduction::Max), of_none(Reduction::Min)),
        (f32::NEG_INFINITY, f32::INFINITY)
    );
    assert!(of_none(Reduction::Mean).is_nan());
    let integers = |reduction, x: &[i32]| {
        let mut out = [9];
        numbers(reduction, x, Shape::from([x.len()]), [0].into_iter().collect(), &mut out);
        out[0]
    };
    assert_eq!(integers(Reduction::Mean, &[-1, -2, -4]), -2);
    assert_eq!((integers(Reduction::Mean, &[]), integers(Reduction::Max, &[])), (0, i32::MIN));
    assert_eq!(integers(Reduction::Sum, &[i32::MAX, 1]), i32::MIN);
    let mean = |x: &[i32]| {
        let mut out = [9];
        mean_of_i32(x, Shape::from([x.len()]), [0].into_iter().collect(), &mut out);
        out[0]
    };
    let means = [mean(&[1 << 30; 4]), mean(&[i32::MAX, 1, 5]), mean(&[-1, -2, -4]), mean(&[])];
    assert_eq!(means, [1 << 30, 715_827_884, -2, 0], "their sum does not wrap");
}

#[test]
fn a_nan_is_the_greatest_and_the_least_but_never_where_they_are() {
    for at in 0..40 {
        let mut x = values(1, 40);
        x[at] = f32::NAN;
        for reduction in [Reduction::Max, Reduction::Min] {
            assert!(
                written(1, 0, |out| numbers(
                    reduction,
                    &x,
                    [40].into(),
                    [0].into_iter().collect(),
                    out
                ))[0]
                    .is_nan()
            );
        }
    }
    let run = Run { outer: 1, reduced: 3, inner: 1 };
    let of = |x: [f32; 3]| {
        let mut out = [9i64; 2];
        argmax(&x, run, &mut out[..1]);
        argmin(&x, run, &mut out[1..]);
        out
    };
    assert_eq!(of([f32::NAN, 1.0, 2.0]), [2, 1]);
    assert_eq!(of([1.0, f32::NAN, 0.0]), [0, 2]);
    assert_eq!(of([f32::NAN; 3]), [0, 0]);
    assert!(f32::NAN.greater(1.0).is_nan() && 1.0.greater(f32::NAN).is_nan());
}

#[test]
fn nans_come_first_in_the_top_and_equal_zeros_in_their_order() {
    let (mut top, mut positions) = ([0.0f32; 4], [9; 4]);
    top_k(&[f32::NAN, 1.0, 2.0, f32::NAN, 3.0], 5, &mut top, &mut positions, 4);
    assert_eq!(positions, [0, 3, 4, 2]);
    top_k(&[-0.0, 0.0, -0.0, 0.0], 4, &mut top, &mut positions, 4);
    assert_eq!(positions, [0, 1, 2, 3]);
}

#[test]
fn a_target_is_in_the_top_where_fewer_than_k_are_greater() {
    let predictions = [0.1, 0.9, 0.5, 0.5, 0.1, f32::NAN, 0.3, 0.2];
    let of = |targets: [i64; 4], k| {
        let mut out = [false; 4];
        in_top_k(&predictions, &targets, k, &mut out);
        out
    };
    assert_eq!(
        of([1, 1, 0, 5], 1),
        [true, true, false, false],
        "ties count, NaN and a class that is not there don't"
    );
    assert_eq!(of([0, 0, 0, -1], 2), [true, true, false, false]);
    assert_eq!(of([0, 0, 0, 1], 0), [false; 4]);
}
