//! Functions of one element and their gradients, at every remainder; sums of many.

use super::super::math::erf_f64 as erf;
use super::super::{elementwise, reference};
use super::{LENGTHS, applied, assert_close, bits, values, written};
use crate::graph::Op;
use crate::operations::{Seen, Unary, UnaryGrad, cost_of};
use crate::tensor::{DType, Tensor};

/// A function: its definition in f64, and what brings a value into its domain.
type Definition = (Unary, fn(f64) -> f64, fn(f32) -> f32);

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn definitions() -> Vec<Definition> {
    let any: fn(f32) -> f32 = |x| x;
    let positive: fn(f32) -> f32 = |x| x.abs() + 0.25;
    vec![
        (Unary::Relu, |x| x.max(0.0), any),
        (Unary::Relu6, |x| x.clamp(0.0, 6.0), |x| 3.0 * x),
        (Unary::LeakyRelu(0.2), |x| if x > 0.0 { x } else { f64::from(0.2f32) * x }, any),
        (Unary::Elu, |x| if x < 0.0 { x.exp_m1() } else { x }, any),
        (
            Unary::Selu,
            |x| 1.050_700_987_355_48 * if x < 0.0 { 1.673_263_242_354_377 * x.exp_m1() } else { x },
            any,
        ),
        (Unary::Gelu { approximate: false }, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())), any),
        (
            Unary::Gelu { approximate: true },
            |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3)))
                            .tanh())
            },
            any,
        ),
        (Unary::Sigmoid, sigmoid, any),
        (Unary::Tanh, f64::tanh, any),
        (Unary::Softplus, |x| x.exp().ln_1p(), any),
        (Unary::Softsign, |x| x / (1.0 + x.abs()), any),
        (Unary::Silu, |x| x * sigmoid(x), any),
        (Unary::LogSigmoid, |x| sigmoid(x).ln(), any),
        (Unary::Exp, f64::exp, any),
        (Unary::Expm1, f64::exp_m1, any),
        (Unary::Log, f64::ln, positive),
        (Unary::Log1p, f64::ln_1p, |x| x.abs() - 0.75),
        (Unary::Sqrt, f64::sqrt, positive),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt(), positive),
        (Unary::Reciprocal, |x| 1.0 / x, positive),
        (Unary::Square, |x| x * x, any),
        (Unary::Abs, f64::abs, any),
        (Unary::Sign, |x| if x == 0.0 { 0.0 } else { x.signum() }, any),
        (Unary::Neg, |x| -x, any),
        (Unary::Floor, f64::floor, any),
        (Unary::Ceil, f64::ceil, any),
        (Unary::Round, f64::round_ties_even, any),
        (Unary::Sin, f64::sin, |x| 20.0 * x),
        (Unary::Cos, f64::cos, |x| 20.0 * x),
        (Unary::Erf, erf, any),
    ]
}

fn doubles(x: &[f32]) -> Vec<f64> {
    reference::map(x, f64::from)
}

fn vector<T: crate::tensor::Element>(x: &[T]) -> Tensor {
    Tensor::new([x.len()], x).unwrap()
}

#[test]
fn every_function_is_within_a_few_units_of_its_definition_at_every_length() {
    for (unary, f, domain) in definitions() {
        for len in LENGTHS {
            let x = reference::map(&values(1, len), domain);
            let exact = reference::map(&doubles(&x), f);
            let found = applied(&Op::from(unary), &[&vector(&x)]);
            assert_close(found.slice(), &reference::map(&exact, |y| y as f32), 6e-7);
            let found = applied(&Op::from(unary), &[&vector(&doubles(&x))]);
            for (found, exact) in found.slice::<f64>().iter().zip(&exact) {
                assert!(
                    (found - exact).abs() <= 1e-14 * exact.abs().max(1.0),
                    "{unary:?}: {found} is not {exact}"
                );
            }
        }
    }
}

#[test]
fn every_gradient_is_the_slope_of_its_function() {
    const STEP: f64 = 1e-5;
    for (unary, f, domain) in definitions() {
        if unary.gradient_sees() == Seen::Nothing {
            continue;
        }
        let near_a_kink = |x: f32| [0.0, 6.0].iter().any(|kink| (x - kink).abs() < 0.01);
        let x: Vec<f32> =
            values(1, 200).into_iter().map(domain).filter(|x| !near_a_kink(*x)).collect();
        let dy = values(2, x.len());
        let slope = |(x, dy): (&f32, &f32)| {
            let x = f64::from(*x);
            f64::from(*dy) * (f(x + STEP) - f(x - STEP)) / (2.0 * STEP)
        };
        let wanted: Vec<f64> = x.iter().zip(&dy).map(slope).collect();
        let op = Op::from(UnaryGrad(unary));
        let y = applied(&Op::from(unary), &[&vector(&x)]);
        let sees_input = unary.gradient_sees() == Seen::Input;
        let seen = if sees_input { vector(&x) } else { y };
        let found = applied(&op, &[&vector(&dy), &seen]);
        assert_close(found.slice(), &reference::map(&wanted, |y| y as f32), 4e-6);
        let (dy, seen) = (vector(&doubles(&dy)), vector(&doubles(seen.slice())));
        for (found, wanted) in applied(&op, &[&dy, &seen]).slice::<f64>().iter().zip(&wanted) {
            assert!(
                (found - wanted).abs() <= 4e-6 * wanted.abs().max(1.0),
                "{unary:?}: {found} is not {wanted}"
            );
        }
    }
}

#[test]
fn the_ends_of_the_functions_are_what_the_docs_say() {
    let of = |unary, x: f32| applied(&Op::from(unary), &[&vector(&[x])]).slice::<f32>()[0];
    for unary in [
        Unary::Relu,
        Unary::Relu6,
        Unary::Elu,
        Unary::Softplus,
        Unary::Sign,
        Unary::Sin,
        Unary::Round,
    ] {
        assert!(of(unary, f32::NAN).is_nan(), "{unary:?}");
    }
    assert_eq!((of(Unary::Softplus, 200.0), of(Unary::LogSigmoid, -200.0)), (200.0, -200.0));
    assert_eq!(of(Unary::Softplus, -50.0), (-50f64).exp() as f32, "not cut to 0");
    assert_eq!(
        [-2.5, -1.5, 0.5, 1.5, 2.5].map(|x| of(Unary::Round, x)),
        [-2.0, -2.0, 0.0, 2.0, 2.0]
    );
    assert_eq!((of(Unary::Sqrt, -1.0).is_nan(), of(Unary::Rsqrt, 0.0)), (true, f32::INFINITY));
    assert_eq!(of(Unary::Elu, -200.0), -1.0);
}

#[test]
fn angles_of_many_turns_change_no_bit_of_their_neighbours() {
    let near: Vec<f32> = reference::map(&values(1, 40), |x| 20.0 * x);
    let with_far: Vec<f32> = near.iter().copied().chain([1e30]).collect();
    for unary in [Unary::Sin, Unary::Cos] {
        let [near, with_far] = [&near, &with_far].map(|x| applied(&Op::from(unary), &[&vector(x)]));
        assert_eq!(bits(near.slice()), bits(&with_far.slice()[..40]));
        assert!(with_far.slice::<f32>()[40].abs() <= 1.0);
    }
}

#[test]
fn integers_have_magnitude_sign_square_and_opposite_and_wrap() {
    let x = [-3i32, 0, 7, i32::MIN];
    let of = |unary| applied(&Op::from(unary), &[&vector(&x)]).slice::<i32>().to_vec();
    assert_eq!(of(Unary::Abs), [3, 0, 7, i32::MIN]);
    assert_eq!(of(Unary::Sign), [-1, 0, 1, -1]);
    assert_eq!(of(Unary::Square), [9, 0, 49, 0]);
    assert_eq!(of(Unary::Neg), [3, 0, -7, i32::MIN]);
    let long = applied(&Op::from(Unary::Square), &[&vector(&[-3_000_000_000i64])]);
    assert_eq!(long.slice::<i64>(), [9_000_000_000_000_000_000]);
}

#[test]
fn a_function_costs_what_its_polynomial_has_and_the_bytes_of_its_type() {
    let cost = |unary, dtype| {
        let x = (dtype, [10].into());
        cost_of(&Op::from(unary), &[x], &[x])
    };
    assert_eq!(
        (cost(Unary::Relu, DType::F32).flops, cost(Unary::Relu, DType::F32).bytes),
        (10, 80)
    );
    assert_eq!(cost(Unary::Relu, DType::F64).bytes, 160);
    assert!(cost(Unary::Tanh, DType::F32).flops > 10 * cost(Unary::Relu, DType::F32).flops);
}

#[test]
fn the_sum_of_many_is_taken_in_the_order_given_and_then_scaled() {
    for len in LENGTHS.chain([2047, 2048, 2049, 5000]) {
        let inputs: Vec<Vec<f32>> = (0..5).map(|i| values(i, len)).collect();
        for count in 1..=inputs.len() {
            let inputs: Vec<&[f32]> = inputs[..count].iter().map(Vec::as_slice).collect();
            let found = written(len, 1, |out| elementwise::add_n(&inputs, 0.2, out));
            assert_eq!(bits(&found), bits(&reference::add_n(&inputs, 0.2)));
        }
    }
    let swallowed = written(1, 0, |out| elementwise::add_n(&[&[1e8], &[1.0], &[-1e8]], 1.0, out));
    assert_eq!(swallowed, [0.0], "1 is lost in 1e8 only if it is added before -1e8");
}

#[test]
fn what_is_added_to_integers_wraps() {
    let sum = elementwise::add_values(&Tensor::scalar(i32::MAX), &Tensor::scalar(1i32));
    assert_eq!(sum.unwrap(), Tensor::scalar(i32::MIN));
}
