//! Reals as integers with a scale a block, and back.

use proptest::prelude::*;

use super::super::quantize::{dequantize, quantize, scales};

/// The value of `x` after it has been written and read.
fn there_and_back(x: &[f32], block: usize) -> Vec<f32> {
    let (mut by, mut written, mut read) =
        (vec![f32::NAN; x.len().div_ceil(block)], vec![99; x.len()], vec![f32::NAN; x.len()]);
    scales(x, block, &mut by);
    quantize(x, block, &by, &mut written);
    dequantize(&written, block, &by, &mut read);
    read
}

fn greatest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |greatest, x| greatest.max(x.abs()))
}

proptest! {
    #[test]
    fn a_value_comes_back_within_half_a_step_of_its_own_block(
        x in prop::collection::vec(
            prop_oneof![-1.0f32..1.0, -1e-3f32..1e-3, -1e30f32..1e30],
            0..700,
        ),
        block in 1usize..300,
    ) {
        for (x, read) in x.chunks(block).zip(there_and_back(&x, block).chunks(block)) {
            let step = f64::from(greatest(x)) / 127.0;
            for (x, read) in x.iter().zip(read) {
                let off = (f64::from(*x) - f64::from(*read)).abs();
                prop_assert!(
                    off <= 0.5001 * step + 1.5e-36,
                    "{x} comes back as {read}, steps are {step}"
                );
            }
        }
    }

    #[test]
    fn multiples_of_a_power_of_2_up_to_127_come_back_as_they_were(
        numbers in prop::collection::vec(-127i32..=127, 1..300),
        exponent in -100i32..100,
    ) {
        let mut x: Vec<f32> =
            numbers.iter().map(|number| *number as f32 * 2f32.powi(exponent)).collect();
        x[0] = 127.0 * 2f32.powi(exponent);
        let len = x.len();
        prop_assert_eq!(there_and_back(&x, len), x);
    }

    #[test]
    fn what_is_written_does_not_depend_on_the_blocks_beside_it(
        x in prop::collection::vec(-1.0f32..1.0, 0..300),
        block in 1usize..64,
    ) {
        let apart: Vec<f32> = x.chunks(block).flat_map(|x| there_and_back(x, block)).collect();
        prop_assert_eq!(there_and_back(&x, block), apart);
    }
}

#[test]
fn a_block_with_a_value_that_is_not_finite_is_not_finite_and_its_neighbours_are_as_they_were() {
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let read = there_and_back(&[1.0, -1.0, 0.5, odd, 1.0, 0.0], 2);
        assert_eq!(read[..2], [1.0, -1.0]);
        assert!(read[2..4].iter().all(|read| read.is_nan()), "{read:?}");
        assert_eq!(read[4..], [1.0, 0.0]);
    }
}

#[test]
fn the_ends_of_the_range_come_back_finite() {
    assert_eq!(there_and_back(&[0.0, -0.0, 1e-40, -1e-37], 4), [0.0; 4]);
    let read = there_and_back(&[f32::MAX, f32::MIN, 1e38], 3);
    assert!(read.iter().all(|read| read.is_finite()), "{read:?}");
}

#[test]
fn of_two_integers_as_near_the_even_one_is_written() {
    assert_eq!(there_and_back(&[127.0, 0.5, 1.5, -2.5, -3.5], 5), [127.0, 0.0, 2.0, -2.0, -4.0]);
}

#[test]
fn many_values_are_written_alike_on_all_threads() {
    let x: Vec<f32> = (0..600_001).map(|i| ((i * 37) % 1001) as f32 * 0.01 - 5.0).collect();
    let apart: Vec<f32> = x.chunks(256 * 100).flat_map(|x| there_and_back(x, 256)).collect();
    assert!(there_and_back(&x, 256) == apart);
}
