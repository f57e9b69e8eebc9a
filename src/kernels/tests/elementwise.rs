//! Elementwise kernels, conversions and update rules at every remainder and misalignment.

use half::bf16;

use super::super::{convert, elementwise, reference, update};
use super::{LENGTHS, assert_close, bits, values, written};

/// Calls `check(x, y, offset)` for two slices of every length, themselves misaligned by `offset`.
fn for_slices(check: impl Fn(&[f32], &[f32], usize)) {
    for len in LENGTHS {
        for offset in 0..4 {
            let (x, y) = (values(1, len + offset), values(2, len + offset));
            check(&x[offset..], &y[offset..], offset);
        }
    }
}

#[test]
fn exact_kernels_equal_their_references_bit_for_bit() {
    type Unary = (fn(&[f32], &mut [f32]), fn(f32) -> f32);
    type Binary = (fn(&[f32], &[f32], &mut [f32]), fn(f32, f32) -> f32);
    let unary: [Unary; 3] = [
        (elementwise::relu, |x| if x < 0.0 { 0.0 } else { x }),
        (elementwise::square, |x| x * x),
        (elementwise::negate, |x| -x),
    ];
    let binary: [Binary; 7] = [
        (elementwise::add, |a, b| a + b),
        (elementwise::sub, |a, b| a - b),
        (elementwise::mul, |a, b| a * b),
        (elementwise::div, |a, b| a / b),
        (elementwise::relu_grad, |g, x| if x > 0.0 { g } else { 0.0 }),
        (elementwise::sigmoid_grad, |y, dy| dy * y * (1.0 - y)),
        (elementwise::tanh_grad, |y, dy| dy * (1.0 - y * y)),
    ];
    for_slices(|x, y, offset| {
        for (kernel, f) in unary {
            let found = written(x.len(), offset, |out| kernel(x, out));
            assert_eq!(bits(&found), bits(&reference::map(x, f)));
        }
        for (kernel, f) in binary {
            let found = written(x.len(), offset, |out| kernel(x, y, out));
            assert_eq!(bits(&found), bits(&reference::map2(x, y, f)));
        }
    });
}

#[test]
fn an_operand_of_one_element_stands_for_that_value_everywhere_on_either_side() {
    for_slices(|x, _, offset| {
        let left = written(x.len(), offset, |out| elementwise::sub(&[0.7], x, out));
        assert_eq!(bits(&left), bits(&reference::map(x, |x| 0.7 - x)));
        let right = written(x.len(), offset, |out| elementwise::div(x, &[0.7], out));
        assert_eq!(bits(&right), bits(&reference::map(x, |x| x / 0.7)));
    });
}

#[test]
fn functions_are_within_a_few_units_of_their_references() {
    type Function = (fn(&[f32], &mut [f32]), fn(f64) -> f64);
    let functions: [Function; 4] = [
        (elementwise::exp, f64::exp),
        (elementwise::tanh, f64::tanh),
        (elementwise::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (
            |x, out| elementwise::log(&reference::map(x, |x| x.abs() + 0.1), out),
            |x| (f64::from(x as f32).abs() + 0.1).ln(),
        ),
    ];
    for_slices(|x, _, offset| {
        for (kernel, f) in functions {
            let found = written(x.len(), offset, |out| kernel(x, out));
            assert_close(&found, &reference::map(x, |x| f(f64::from(x)) as f32), 4e-7);
        }
    });
}

#[test]
fn relu_keeps_a_nan_and_its_gradient_is_zero_at_zero() {
    assert!(written(1, 0, |out| elementwise::relu(&[f32::NAN], out))[0].is_nan());
    let gradient = written(3, 0, |out| elementwise::relu_grad(&[5.0; 3], &[0.0, -1.0, 1.0], out));
    assert_eq!(gradient, [0.0, 0.0, 5.0]);
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
fn casts_saturate_wrap_and_tell_zero_from_the_rest() {
    fn cast<From: convert::CastTo<To>, To: Send + Default + Clone>(x: &[From]) -> Vec<To> {
        let mut out = vec![To::default(); x.len()];
        convert::cast(x, &mut out);
        out
    }
    let floats = [-1.9f32, 2.9, 3e9, f32::NAN, -0.0];
    assert_eq!(cast::<f32, i32>(&floats), [-1, 2, i32::MAX, 0, 0]);
    assert_eq!(cast::<f32, i64>(&floats), [-1, 2, 3_000_000_000, 0, 0]);
    assert_eq!(cast::<f32, bool>(&floats), [true, true, true, true, false]);
    assert_eq!(cast::<i64, i32>(&[1 << 32 | 5, -1]), [5, -1]);
    assert_eq!(cast::<i32, i64>(&[-7, 7]), [-7, 7]);
    assert_eq!(cast::<i32, f32>(&[-7, 7]), [-7.0, 7.0]);
    assert_eq!(cast::<i64, f32>(&[-7, 7]), [-7.0, 7.0]);
    assert_eq!(cast::<bool, f32>(&[false, true]), [0.0, 1.0]);
    assert_eq!(cast::<bool, i64>(&[false, true]), [0, 1]);
    assert_eq!(cast::<i32, bool>(&[0, -2]), [false, true]);
    assert_eq!(cast::<f64, i32>(&[-1.9, 3e9, f64::NAN]), [-1, i32::MAX, 0]);
    assert_eq!(cast::<f64, f32>(&[1e300, 0.1]), [f32::INFINITY, 0.1]);
    assert_eq!(cast::<f32, f64>(&[0.5]), [0.5]);
}

#[test]
fn bf16_is_the_nearest_and_of_two_as_near_the_even_one() {
    let cast = |x: &[f32]| {
        let (mut stored, mut read) = (vec![bf16::ZERO; x.len()], vec![f32::NAN; x.len()]);
        convert::cast(x, &mut stored);
        convert::cast(&stored, &mut read);
        read
    };
    let unit = 1.0 / 128.0;
    assert_eq!(cast(&[1.0 + 0.5 * unit, 1.0 + 1.5 * unit, 1.0 + 0.51 * unit]), [1.0, 1.0 + 2.0 * unit, 1.0 + unit]);
    assert_eq!(cast(&[f32::MAX, f32::NEG_INFINITY, -0.0]), [f32::INFINITY, f32::NEG_INFINITY, 0.0]);
    assert!(cast(&[f32::NAN])[0].is_nan());
    for len in LENGTHS {
        let x = values(1, len);
        let within = |(found, x): (&f32, &f32)| (found - x).abs() <= x.abs() / 256.0;
        assert!(cast(&x).iter().zip(&x).all(within));
    }
    let mut integers = [0i64; 2];
    convert::cast(&[bf16::from_f32(-2.5), bf16::INFINITY], &mut integers);
    assert_eq!(integers, [-2, i64::MAX]);
}

#[test]
fn equality_and_fill_reach_every_element() {
    for len in LENGTHS {
        let a: Vec<i64> = (0..len as i64).map(|i| i % 3).collect();
        let b = vec![1; len];
        let mut equal = vec![false; len];
        convert::equal(&a, &b, &mut equal);
        assert_eq!(equal, reference::map(&a, |a| a == 1));
        assert_eq!(written(len, 1, |out| convert::fill(2.5, out)), vec![2.5; len]);
    }
}

#[test]
fn every_update_rule_treats_every_element_of_any_length_alike() {
    let momentum = update::Momentum { rate: 0.5, momentum: 0.9, nesterov: false };
    let nesterov = update::Momentum { nesterov: true, ..momentum };
    let adam = update::Adam { rate: 0.5, beta1: 0.9, beta2: 0.99, beta1_power: 0.9, beta2_power: 0.99, epsilon: 1e-8 };
    type Rule<'a> = &'a dyn Fn(&mut [f32], &mut [f32], &mut [f32], &[f32]);
    let rules: [Rule<'_>; 5] = [
        &|v, _, _, g| update::gradient_descent(v, g, 0.5),
        &|v, a, _, g| update::momentum(v, a, g, momentum),
        &|v, a, _, g| update::momentum(v, a, g, nesterov),
        &|v, a, _, g| update::adagrad(v, a, g, 0.5),
        &|v, a, b, g| update::adam(v, a, b, g, adam),
    ];
    for_slices(|x, gradient, _| {
        for rule in rules {
            let mut whole = [x.to_vec(), vec![0.1; x.len()], vec![0.2; x.len()]];
            let mut single = whole.clone();
            let [v, a, b] = &mut whole;
            rule(v, a, b, gradient);
            let [v, a, b] = &mut single;
            for i in 0..x.len() {
                rule(&mut v[i..=i], &mut a[i..=i], &mut b[i..=i], &gradient[i..=i]);
            }
            whole.iter().zip(&single).for_each(|(whole, single)| assert_eq!(bits(whole), bits(single)));
        }
    });
}
