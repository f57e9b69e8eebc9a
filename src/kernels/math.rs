//! Elementary functions of one `f32`, without branches or table, so that loops over them vectorise.
//!
//! The polynomials are those of Cephes (Moshier, <https://netlib.org/cephes/>, `expf`, `logf`, `tanhf`).
//! Only IEEE 754 operations are used and none is fused, so every machine computes the same bits.

/// What added to a small number rounds it to an integer, which is then in the low bits: 1.5 * 2^23.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first of 9 bits so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// 2^n for -126 <= n <= 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The value of the polynomial of these coefficients, highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for c in &coefficients[1..] {
        value = value * x + c;
    }
    value
}

/// e^x within 2 units in the last place, subnormal results included.
///
/// Infinite above 88.7228, 0 below -103.98; NaN of NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Not `clamp` or `min`: a NaN must pass.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let exponent = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let n = rounded - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let series =
        polynomial(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5]) * (r * r);
    // In two halves: 2^128 is no float, and a subnormal result must be rounded once only.
    let half = exponent >> 1;
    (series + r + 1.0) * power_of_two(half) * power_of_two(exponent.wrapping_sub(half))
}

/// The natural logarithm within 2 units in the last place, of subnormal numbers too.
///
/// -infinity of either zero, NaN of a negative number, infinity of infinity, NaN of NaN.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    // The mantissa m between sqrt(1/2) and sqrt(2), and the exponent of two that goes with it.
    let offset = scaled.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = (offset as i32 >> 23) as f32 - if subnormal { 23.0 } else { 0.0 };
    let m = f32::from_bits((offset & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let square = m * m;
    let series = polynomial(
        m,
        [
            7.037_683_6e-2,
            -0.115_146_1,
            0.116_769_99,
            -0.124_201_41,
            0.142_493_23,
            -0.166_680_58,
            0.200_007_14,
            -0.249_999_94,
            0.333_333_3,
        ],
    ) * m
        * square;
    let finite = m + (series + exponent * LN_2_LOW - 0.5 * square) + exponent * LN_2_HIGH;
    let of_positive = if x < f32::INFINITY { finite } else { x };
    let of_any = if x == 0.0 { f32::NEG_INFINITY } else { of_positive };
    if x < 0.0 { f32::NAN } else { of_any }
}

/// The hyperbolic tangent within 2 units in the last place; odd to the bit, NaN of NaN.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let square = x * x;
    let series = polynomial(square, [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_8]);
    let small = x + x * square * series;
    let large = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    // The sign also of -0, which the series would make +0.
    (if x.abs() < 0.625 { small } else { large }).copysign(x)
}

/// 1 / (1 + e^-x) within 4 units in the last place; 0 below -88.7228, where e^-x is infinite.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest distance from `exact` over every `stride`-th float [units in the last place].
    fn worst(stride: u32, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
        let mut worst = (0.0, 0.0);
        for bits in (0..=u32::MAX).step_by(stride as usize) {
            let x = f32::from_bits(bits);
            let (found, wanted) = (f(x), exact(f64::from(x)));
            if wanted.is_nan() || (wanted as f32).is_infinite() {
                assert!(wanted.is_nan() && found.is_nan() || found == wanted as f32, "f({x:e}) is {found:e}");
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
        assert_eq!(sigmoid(-89.0), 0.0);
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
}
