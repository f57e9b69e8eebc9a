//! Normalisation against its definition in f64, its gradients against differences, and what dropout leaves.

use proptest::prelude::*;

use super::super::normalise::{Moments, batch, batch_grad, dropout, layer, layer_grad, moments};
use super::super::random::Key;
use super::{assert_close, bits, values, written};

const EPSILON: f32 = 1e-3;

/// `x` normalised over `columns` groups of which `group` tells each element's, in f64.
fn reference(x: &[f32], groups: usize, group: impl Fn(usize) -> usize, scale: &[f32], offset: &[f32]) -> Vec<f64> {
    let (mut count, mut mean, mut variance) = (vec![0.0; groups], vec![0.0; groups], vec![0.0; groups]);
    for (i, x) in x.iter().enumerate() {
        count[group(i)] += 1.0;
        mean[group(i)] += f64::from(*x);
    }
    mean.iter_mut().zip(&count).for_each(|(mean, count)| *mean /= count);
    x.iter().enumerate().for_each(|(i, x)| variance[group(i)] += (f64::from(*x) - mean[group(i)]).powi(2));
    variance.iter_mut().zip(&count).for_each(|(variance, count)| *variance /= count);
    let columns = scale.len();
    let of = |(i, x): (usize, &f32)| {
        let normal = (f64::from(*x) - mean[group(i)]) / (variance[group(i)] + f64::from(EPSILON)).sqrt();
        normal * f64::from(scale[i % columns]) + f64::from(offset[i % columns])
    };
    x.iter().enumerate().map(of).collect()
}

fn floats(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

/// Asserts that `gradient` is the slope of `of(x) · dy` at each element of `x`.
#[track_caller]
fn assert_slope(x: &[f32], dy: &[f32], gradient: &[f32], of: impl Fn(&[f32]) -> Vec<f64>) {
    const STEP: f32 = 1.0 / 256.0;
    let product = |x: &[f32]| of(x).iter().zip(dy).map(|(y, dy)| y * f64::from(*dy)).sum::<f64>();
    for i in 0..x.len() {
        let moved = |by: f32| {
            let mut moved = x.to_vec();
            moved[i] += by;
            (product(&moved), f64::from(moved[i]))
        };
        let ((above, high), (below, low)) = (moved(STEP), moved(-STEP));
        let (slope, found) = ((above - below) / (high - low), f64::from(gradient[i]));
        assert!((slope - found).abs() <= 0.02 * (1.0 + slope.abs()), "element {i}: {found} is not {slope}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_batch_is_normalised_column_by_column(rows in 1usize..70, columns in 1usize..40) {
        let (x, scale, offset) = (values(1, rows * columns), values(2, columns), values(3, columns));
        let of = moments(&x, columns);
        let found = written(x.len(), 1, |out| batch(&x, &of, EPSILON, &scale, &offset, out));
        assert_close(&found, &floats(&reference(&x, columns, |i| i % columns, &scale, &offset)), 1e-4);
    }

    #[test]
    fn a_layer_is_normalised_row_by_row(rows in 1usize..70, columns in 1usize..50) {
        let (x, scale, offset) = (values(1, rows * columns), values(2, columns), values(3, columns));
        let found = written(x.len(), 1, |out| layer(&x, EPSILON, &scale, &offset, out));
        assert_close(&found, &floats(&reference(&x, rows, |i| i / columns, &scale, &offset)), 1e-4);
    }
}

#[test]
fn the_gradients_of_a_normalised_batch_are_the_slopes() {
    let (rows, columns) = (5, 3);
    let (x, dy, scale, offset) = (values(1, 15), values(2, 15), vec![0.7, -1.2, 2.0], vec![0.1, 0.0, -0.4]);
    let Moments { mean, variance } = moments(&x, columns);
    let mut dx = vec![f32::NAN; rows * columns];
    let (d_scale, d_offset) = batch_grad(&dy, &x, &Moments { mean, variance }, EPSILON, &scale, &mut dx);
    let group = |i: usize| i % columns;
    assert_slope(&x, &dy, &dx, |x| reference(x, columns, group, &scale, &offset));
    assert_slope(&scale, &dy, &d_scale, |scale| reference(&x, columns, group, scale, &offset));
    assert_slope(&offset, &dy, &d_offset, |offset| reference(&x, columns, group, &scale, offset));
}

#[test]
fn the_gradients_of_a_normalised_layer_are_the_slopes() {
    let (rows, columns) = (3, 5);
    let (x, dy) = (values(4, 15), values(5, 15));
    let (scale, offset) = (vec![0.7, -1.2, 2.0, 1.0, 0.3], vec![0.1, 0.0, -0.4, 2.0, 1.0]);
    let mut dx = vec![f32::NAN; rows * columns];
    let (d_scale, d_offset) = layer_grad(&dy, &x, EPSILON, &scale, &mut dx);
    let group = |i: usize| i / columns;
    assert_slope(&x, &dy, &dx, |x| reference(x, rows, group, &scale, &offset));
    assert_slope(&scale, &dy, &d_scale, |scale| reference(&x, rows, group, scale, &offset));
    assert_slope(&offset, &dy, &d_offset, |offset| reference(&x, rows, group, &scale, offset));
}

#[test]
fn dropout_leaves_out_its_share_scales_the_rest_and_repeats_by_its_key() {
    let (key, len) = (Key { seed: 1, operation: 2, offset: 0 }, 20_000);
    let of = |key, x: &[f32]| written(len, 1, |out| dropout(x, key, 0.25, out));
    let ones = of(key, &vec![1.0; len]);
    assert!(ones.iter().all(|x| *x == 0.0 || *x == 1.0 / 0.75));
    let share = ones.iter().filter(|x| **x == 0.0).count() as f64 / len as f64;
    assert!((share - 0.25).abs() < 0.01, "{share}");
    let twos = of(key, &vec![2.0; len]);
    assert!(ones.iter().zip(&twos).all(|(one, two)| 2.0 * one == *two), "the same elements are left out again");
    assert_ne!(bits(&ones), bits(&of(Key { operation: 3, ..key }, &vec![1.0; len])));
}
