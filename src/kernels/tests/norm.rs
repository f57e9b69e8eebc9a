//! Normalisation against its definition, and the statistics of dropout.

use proptest::prelude::*;

use super::super::dropout::dropout;
use super::super::norm::{
    ColumnsGrad, RowsGrad, column_moments, normalise_columns, normalise_rows,
};
use super::super::random::Key;
use super::{assert_close, values, written};

/// The mean and the variance.
fn moments(x: impl Iterator<Item = f32> + Clone) -> (f64, f64) {
    let count = x.clone().count() as f64;
    let mean = x.clone().map(f64::from).sum::<f64>() / count;
    (mean, x.map(|x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn columns_and_rows_are_normalised_as_the_definition_says(
        count in 1usize..60,
        columns in 1usize..50,
    ) {
        const EPSILON: f32 = 0.01;
        let (x, scale, offset) =
            (values(1, count * columns), values(2, columns), values(3, columns));
        let (mut mean, mut variance) = (vec![9.0; columns], vec![9.0; columns]);
        written(x.len(), 1, |scratch| column_moments(&x, &mut mean, &mut variance, scratch));
        let y = written(x.len(), 1, |y| {
            normalise_columns(&x, [&scale, &offset], [&mean, &variance], EPSILON, y)
        });
        let (mut row_mean, mut inverse) = (vec![9.0; count], vec![9.0; count]);
        let by_row = written(x.len(), 1, |y| {
            normalise_rows(&x, [&scale, &offset], EPSILON, y, [&mut row_mean, &mut inverse]);
        });
        let of = |(mean, variance): (f64, f64), i: usize| {
            let z = (f64::from(x[i]) - mean) / (variance + f64::from(EPSILON)).sqrt();
            (z * f64::from(scale[i % columns]) + f64::from(offset[i % columns])) as f32
        };
        let column = |i: usize| moments(x.iter().copied().skip(i % columns).step_by(columns));
        assert_close(&y, &(0..x.len()).map(|i| of(column(i), i)).collect::<Vec<_>>(), 1e-4);
        let row = |i: usize| moments(x[i / columns * columns..][..columns].iter().copied());
        assert_close(&by_row, &(0..x.len()).map(|i| of(row(i), i)).collect::<Vec<_>>(), 1e-4);
    }
}

#[test]
fn a_large_mean_costs_no_digits_of_the_variance() {
    let x: Vec<f32> = (0..1000).map(|i| 10_000.0 + (i % 2) as f32).collect();
    let (mut mean, mut variance) = ([0.0], [0.0]);
    column_moments(&x, &mut mean, &mut variance, &mut vec![0.0; 1000]);
    assert_eq!((mean, variance), ([10_000.5], [0.25]));
}

#[test]
fn a_batch_is_normalised_to_tensorflows_values() {
    let (x, scale, offset) = ([1.0, 2.0, 4.0, 7.0], [1.0, 2.0], [0.5, 0.0]);
    let (mut mean, mut variance, mut y) = ([0.0; 2], [0.0; 2], [0.0; 4]);
    column_moments(&x, &mut mean, &mut variance, &mut y);
    assert_eq!((mean, variance), ([2.5, 4.5], [2.25, 6.25]));
    normalise_columns(&x, [&scale, &offset], [&mean, &variance], 0.001, &mut y);
    assert_close(&y, &[-0.499_777_85, -1.999_84, 1.499_777_8, 1.999_84], 1e-6);
}

#[test]
fn the_gradient_by_a_batch_is_orthogonal_to_its_mean_and_with_given_moments_it_is_not() {
    let (x, dy) = (values(1, 40), values(2, 40));
    let (mut mean, mut variance) = ([0.0; 4], [0.0; 4]);
    column_moments(&x, &mut mean, &mut variance, &mut [0.0; 40]);
    let of = |is_training| {
        let scale = &[1.0; 4];
        let grad = ColumnsGrad {
            dy: &dy,
            x: &x,
            scale,
            mean: &mean,
            variance: &variance,
            epsilon: 1e-3,
            is_training,
        };
        written(40, 1, |dx| grad.write(dx, &mut [0.0; 4], &mut [0.0; 4]))
    };
    let sum = |dx: &[f32]| dx.iter().step_by(4).sum::<f32>();
    assert!(sum(&of(true)).abs() < 1e-4 && sum(&of(false)).abs() > 1e-2);
}

#[test]
fn the_gradients_of_no_values_are_zero() {
    for columns in [0, 3] {
        let of_columns = &vec![f32::NAN; columns];
        let grad = ColumnsGrad {
            dy: &[],
            x: &[],
            scale: of_columns,
            mean: of_columns,
            variance: of_columns,
            epsilon: 1e-3,
            is_training: true,
        };
        let (mut by_scale, mut by_offset) = (vec![9.0; columns], vec![9.0; columns]);
        grad.write(&mut [], &mut by_scale, &mut by_offset);
        assert_eq!([&by_scale, &by_offset], [&vec![0.0; columns]; 2]);
        let of_rows = &vec![f32::NAN; 3 - columns];
        let grad = RowsGrad { dy: &[], x: &[], scale: of_columns, mean: of_rows, inverse: of_rows };
        let (mut by_scale, mut by_offset) = (vec![9.0; columns], vec![9.0; columns]);
        grad.write(&mut [], &mut by_scale, &mut by_offset);
        assert_eq!([&by_scale, &by_offset], [&vec![0.0; columns]; 2]);
    }
}

#[test]
fn dropout_drops_its_share_scales_the_rest_and_follows_key_counter_and_position_alone() {
    const LEN: usize = 300_000;
    let of = |operation, counter, rate: f32, len| {
        let (key, factor) = (Key { seed: 7, operation, offset: 0 }, 1.0 / (1.0 - rate));
        written(len, 1, |out| dropout(&vec![2.0; len], key, counter, rate, factor, out))
    };
    for rate in [0.0, 0.1, 0.5, 0.9] {
        let found = of(1, 5, rate, LEN);
        let kept = found.iter().filter(|x| **x != 0.0).count() as f32 / LEN as f32;
        assert!((kept - (1.0 - rate)).abs() < 0.004, "{kept} of rate {rate}");
        assert!(found.iter().all(|x| *x == 0.0 || *x == 2.0 / (1.0 - rate)));
    }
    let mask = of(1, 5, 0.5, LEN);
    assert_eq!(of(1, 5, 0.5, 1000), mask[..1000], "whatever the length");
    for other in [of(2, 5, 0.5, LEN), of(1, 6, 0.5, LEN)] {
        let agree = other.iter().zip(&mask).filter(|(a, b)| a == b).count() as f32 / LEN as f32;
        assert!(
            (agree - 0.5).abs() < 0.005,
            "masks of another key or step agree by chance alone: {agree}"
        );
    }
    let neighbours = mask.windows(2).filter(|pair| pair[0] == pair[1]).count() as f32 / LEN as f32;
    assert!((neighbours - 0.5).abs() < 0.005, "neighbours agree by chance alone: {neighbours}");
}
