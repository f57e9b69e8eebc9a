//! The functions against those of f64, over every magnitude.

use super::super::functions::sigmoid;
use super::*;

/// The greatest distance from `exact` over every `stride`-th float [units in the last place].
fn worst(stride: u32, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for bits in (0..=u32::MAX).step_by(stride as usize) {
        let x = f32::from_bits(bits);
        let (found, wanted) = (f(x), exact(f64::from(x)));
        if wanted.is_nan() || (wanted as f32).is_infinite() {
            assert!(
                wanted.is_nan() && found.is_nan() || found == wanted as f32,
                "f({x:e}) is {found:e}"
            );
            continue;
        }
        let unit = f64::from((wanted as f32).abs().next_up()) - f64::from((wanted as f32).abs());
        let distance = (f64::from(found) - wanted).abs() / unit;
        assert!(!distance.is_nan(), "f({x:e}) is {found:e}");
        if distance > worst.0 {
            worst = (distance, x);
        }
    }
    worst
}

#[test]
fn exp_is_within_two_units_over_every_magnitude_subnormal_results_included() {
    let (distance, x) = worst(4_093, exp, f64::exp);
    assert!(distance <= 2.0, "{distance} units at {x:e}");
}

#[test]
fn log_is_within_two_units_over_every_magnitude_subnormal_arguments_included() {
    let (distance, x) = worst(4_093, log, f64::ln);
    assert!(distance <= 2.0, "{distance} units at {x:e}");
}

#[test]
fn tanh_is_within_two_units_and_odd() {
    let (distance, x) = worst(4_093, tanh, f64::tanh);
    assert!(distance <= 2.0, "{distance} units at {x:e}");
    for x in [0.0, 1e-20, 0.3, 0.7, 5.0, 100.0, f32::INFINITY] {
        assert_eq!(tanh(-x).to_bits(), (-tanh(x)).to_bits());
    }
}

#[test]
fn sigmoid_is_within_four_units_where_it_is_not_cut_to_zero() {
    let in_range = |x: f32| if x < -88.7 { 0.0 } else { x };
    let exact = |x: f64| 1.0 / (1.0 + (-f64::from(in_range(x as f32))).exp());
    let (distance, x) = worst(4_093, |x| sigmoid(in_range(x)), exact);
    assert!(distance <= 4.0, "{distance} units at {x:e}");
    assert_eq!(sigmoid(-89f32), 0.0);
    assert_eq!(sigmoid(f32::INFINITY), 1.0);
}

#[test]
fn the_limits_are_those_that_the_docs_state() {
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(88.73), f32::INFINITY);
    assert!(exp(88.72) < f32::INFINITY);
    assert!(exp(-103.0) > 0.0 && exp(-104.5) == 0.0);
    assert_eq!(log(0.0), f32::NEG_INFINITY);
    assert_eq!(log(-0.0), f32::NEG_INFINITY);
    assert_eq!(log(1.0), 0.0);
    assert!(log(-1.0).is_nan() && log(f32::NEG_INFINITY).is_nan());
}

#[test]
fn what_is_next_to_nothing_keeps_its_digits() {
    let (distance, x) = worst(4_093, expm1, f64::exp_m1);
    assert!(distance <= 2.0, "expm1: {distance} units at {x:e}");
    let (distance, x) = worst(4_093, log1p, f64::ln_1p);
    assert!(distance <= 3.0, "log1p: {distance} units at {x:e}");
    assert_eq!(
        (expm1(-0.0).to_bits(), log1p(-0.0).to_bits()),
        ((-0f32).to_bits(), (-0f32).to_bits())
    );
    assert_eq!((expm1(f32::INFINITY), expm1(f32::NEG_INFINITY)), (f32::INFINITY, -1.0));
    assert_eq!((log1p(f32::INFINITY), log1p(-1.0)), (f32::INFINITY, f32::NEG_INFINITY));
}

#[test]
fn sine_and_cosine_are_within_two_units_however_many_turns() {
    for (f, exact) in
        [(sin_of_any as fn(f32) -> f32, f64::sin as fn(f64) -> f64), (cos_of_any, f64::cos)]
    {
        let (distance, x) = worst(4_093, f, exact);
        assert!(distance <= 2.0, "{distance} units at {x:e}");
    }
    let multiples = (0..200_000).map(|i| (f64::from(i) * std::f64::consts::FRAC_PI_2) as f32);
    for x in multiples.filter(|x| *x <= TURNS_KNOWN) {
        let unit = |wanted: f64| {
            f64::from((wanted.abs() as f32).next_up()) - f64::from(wanted.abs() as f32)
        };
        let [by_sin, by_cos] = [(sin(x), f64::from(x).sin()), (cos(x), f64::from(x).cos())]
            .map(|(found, wanted)| (f64::from(found) - wanted).abs() / unit(wanted));
        assert!(by_sin <= 2.0 && by_cos <= 2.0, "{by_sin} and {by_cos} units at {x:e}");
    }
    assert_eq!(sin(-0.0).to_bits(), (-0f32).to_bits());
    assert!(sin_of_any(f32::INFINITY).is_nan() && cos_of_any(f32::NAN).is_nan());
}

#[test]
fn the_error_function_is_within_two_units_and_odd() {
    let (distance, x) = worst(65_521, erf, erf_f64);
    assert!(distance <= 2.0, "{distance} units at {x:e}");
    assert_eq!((erf(f32::INFINITY), erf(-10.0)), (1.0, -1.0));
    assert_eq!(erf(-0.3).to_bits(), (-erf(0.3)).to_bits());
}

#[test]
fn the_error_function_of_f64_is_that_of_the_tables() {
    // Abramowitz and Stegun, table 7.1, and DLMF 7.
    let known = [
        (0.1, 0.112_462_916_018_284_9),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (1.9, 0.992_790_429_235_257_5),
        (2.0, 0.995_322_265_018_952_7),
        (3.0, 0.999_977_909_503_001_4),
    ];
    for (x, wanted) in known {
        assert!((erf_f64(x) - wanted).abs() < 1e-15, "erf({x}) is {}", erf_f64(x));
        assert_eq!(erf_f64(-x), -erf_f64(x));
    }
    // The two formulas meet without a step.
    let (below, above) = (2f64.next_down(), 2f64);
    assert!((erf_f64(above) - erf_f64(below)).abs() < 1e-15);
    assert_eq!((erf_f64(7.0), erf_f64(f64::NEG_INFINITY)), (1.0, -1.0));
    assert!(erf_f64(f64::NAN).is_nan());
}
