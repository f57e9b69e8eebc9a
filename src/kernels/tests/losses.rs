//! Softmax's relatives and losses against their definitions.

use proptest::prelude::*;

use super::super::number::Number;
use super::super::parallel::{CHUNK, PARALLEL_FROM};
use super::super::reduce::{all, sum_of_squares};
use super::super::reference;
use super::super::softmax::{
    log_softmax, log_softmax_grad, sigmoid_cross_entropy, softmax, softmax_cross_entropy,
    softmax_grad, sparse_softmax_cross_entropy,
};
use super::{LENGTHS, assert_close, values, written};

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// The result of `kernel` for f64 operands.
fn precise(len: usize, kernel: impl FnOnce(&mut [f64])) -> Vec<f64> {
    let mut out = vec![f64::NAN; len];
    kernel(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn softmax_its_logarithm_and_their_gradients_are_those_of_the_definition(
        count in 0usize..90, classes in 1usize..70,
    ) {
        let (x, dy) = (values(1, count * classes), values(2, count * classes));
        let logs = reference::log_softmax(&x, classes);
        assert_close(
            &written(x.len(), 1, |out| log_softmax(&x, classes, out)),
            &narrow(&logs),
            1e-6,
        );
        let powers: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        let rows = |f: &dyn Fn(usize) -> f64, r: usize| {
            (r * classes..(r + 1) * classes).map(f).sum::<f64>()
        };
        let dy64 = wide(&dy);
        let by_power =
            |i: usize| (dy64[i] - rows(&|j| dy64[j] * powers[j], i / classes)) * powers[i];
        let by_log = |i: usize| dy64[i] - powers[i] * rows(&|j| dy64[j], i / classes);
        let exact: Vec<f64> = (0..x.len()).map(by_power).collect();
        let found = precise(x.len(), |out| softmax_grad(&dy64, &powers, classes, out));
        prop_assert!(found.iter().zip(&exact).all(|(found, exact)| (found - exact).abs() < 1e-12));
        let found = written(x.len(), 1, |out| softmax_grad(&dy, &narrow(&powers), classes, out));
        assert_close(&found, &narrow(&exact), 1e-5);
        let exact: Vec<f64> = (0..x.len()).map(by_log).collect();
        let found = written(x.len(), 1, |out| log_softmax_grad(&dy, &narrow(&logs), classes, out));
        assert_close(&found, &narrow(&exact), 2e-5);
    }

    #[test]
    fn a_label_is_the_row_of_probabilities_that_has_one_there(
        count in 0usize..90,
        classes in 1usize..70,
    ) {
        let x = wide(&values(3, count * classes));
        let labels: Vec<i64> = (0..count).map(|row| (row * 5 % classes) as i64).collect();
        let dense: Vec<f64> = (0..x.len())
            .map(|i| f64::from(u8::from(labels[i / classes] == (i % classes) as i64)))
            .collect();
        let (mut by_label, mut by_row) = (vec![9.0; count], vec![9.0; count]);
        let of_labels = precise(x.len(), |out| {
            sparse_softmax_cross_entropy(&x, &labels, &mut by_label, out).unwrap();
        });
        let of_rows = precise(x.len(), |out| softmax_cross_entropy(&x, &dense, &mut by_row, out));
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        prop_assert!(close(&by_label, &by_row) && close(&of_labels, &of_rows));
        let expected: Vec<_> = of_rows.iter().zip(&dense).map(|(b, l)| b + l).collect();
        prop_assert!(close(&precise(x.len(), |out| softmax(&x, classes, out)), &expected));
    }
}

#[test]
fn soft_labels_weigh_the_logarithms() {
    let (mut loss, mut backprop) = ([9.0f32], [9.0f32; 2]);
    softmax_cross_entropy(&[1.0, 1.0], &[0.25, 0.75], &mut loss, &mut backprop);
    assert_close(&loss, &[2f32.ln()], 1e-6);
    assert_close(&backprop, &[0.25, -0.25], 1e-6);
}

#[test]
fn the_cross_entropy_of_a_sigmoid_keeps_its_digits_at_any_length_and_size() {
    fn exact(x: f64, z: f64) -> f64 {
        x.max(0.0) - x * z + (-x.abs()).exp().ln_1p()
    }
    for len in LENGTHS {
        let (x, z) =
            (values(1, len), values(2, len).iter().map(|z| z.abs() / 3.0).collect::<Vec<_>>());
        let wanted: Vec<f32> =
            x.iter().zip(&z).map(|(x, z)| exact((*x).into(), (*z).into()) as f32).collect();
        assert_close(&written(len, 1, |out| sigmoid_cross_entropy(&x, &z, out)), &wanted, 1e-6);
    }
    for x in [-80.0f32, -20.0, 20.0, 80.0] {
        let label = if x > 0.0 { 1.0 } else { 0.0 };
        let found = written(1, 0, |out| sigmoid_cross_entropy(&[x], &[label], out))[0];
        let wanted = (-f64::from(x).abs()).exp().ln_1p() as f32;
        assert!((found / wanted - 1.0).abs() < 1e-6, "{x}: {found} is not {wanted}");
    }
    assert_eq!(written(1, 0, |out| sigmoid_cross_entropy(&[1000.0], &[0.0], out)), [1000.0]);
}

#[test]
fn squares_are_added_at_every_remainder() {
    for len in LENGTHS.chain([20_000]) {
        let x = values(1, len);
        let exact: f64 = wide(&x).iter().map(|x| x * x).sum();
        assert!((f64::from(sum_of_squares(&x)) - exact).abs() <= 1e-6 * exact, "of {len}");
        assert!((sum_of_squares(&wide(&x)) - exact).abs() <= 1e-14 * exact.max(1.0), "of {len}");
    }
}

#[test]
fn a_sum_of_squares_has_the_bits_of_the_sum_of_a_tensor_of_squares() {
    fn check<T: Number>(x: &[T], bits: impl Fn(T) -> u64) {
        let squares: Vec<T> = x.iter().map(|x| x.times(*x)).collect();
        let sum = all(&squares, T::ZERO, T::plus);
        assert_eq!(bits(sum_of_squares(x)), bits(sum), "of {}", x.len());
    }
    let around = |chunks: usize| chunks * CHUNK - 1..=chunks * CHUNK + 1;
    let many = [1, 2, 17, PARALLEL_FROM / CHUNK + 1].into_iter().flat_map(around);
    for len in LENGTHS.chain(many) {
        let x = values(1, len);
        check(&x, |sum: f32| u64::from(sum.to_bits()));
        check(&wide(&x), f64::to_bits);
    }
}
