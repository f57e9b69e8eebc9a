//! Casts and fills.

use half::bf16;

use super::super::convert;
use super::{LENGTHS, values, written};

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
    assert_eq!(cast::<f32, i8>(&[-1.9, 300.0, f32::NAN]), [-1, i8::MAX, 0]);
    assert_eq!(cast::<i64, i8>(&[258, -129]), [2, 127]);
    assert_eq!(cast::<i8, f32>(&[-128]), [-128.0]);
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
    assert_eq!(
        cast(&[1.0 + 0.5 * unit, 1.0 + 1.5 * unit, 1.0 + 0.51 * unit]),
        [1.0, 1.0 + 2.0 * unit, 1.0 + unit]
    );
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
fn a_fill_reaches_every_element() {
    for len in LENGTHS {
        assert_eq!(written(len, 1, |out| convert::fill(2.5, out)), vec![2.5; len]);
    }
}
