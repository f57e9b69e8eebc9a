//! Elementary functions of one `f32`, without branches or table, so that loops over them vectorise.
//!
//! The polynomials are those of Cephes (Moshier, <https://netlib.org/cephes/>, `expf`, `logf`,
//! `tanhf`). Only IEEE 754 operations are used and none is fused, so every machine computes the
//! same bits.

mod error_function;
#[cfg(test)]
mod tests;
mod trigonometry;

pub(super) use error_function::{erf, erf_f64};
pub(super) use trigonometry::{TURNS_KNOWN, cos, cos_of_any, sin, sin_of_any};

/// Added to a small number, it rounds that to an integer, which is then in the low bits: 1.5 *
/// 2^23.
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

/// e^r - 1 - r for r between -ln 2 / 2 and ln 2 / 2.
#[inline(always)]
fn exp_series(r: f32) -> f32 {
    polynomial(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5])
        * (r * r)
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
    let series = exp_series(r);
    // In two halves: 2^128 is not a float, and a subnormal result must be rounded only once.
    let half = exponent >> 1;
    (series + r + 1.0) * power_of_two(half) * power_of_two(exponent.wrapping_sub(half))
}

/// e^x - 1 within 2 units in the last place, even if the result is tiny.
///
/// Infinite above 88.7228; of the sign of x, NaN of NaN.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    let limited = if x > 89.0 { 89.0 } else { x };
    let limited = if limited < -30.0 { -30.0 } else { limited };
    let rounded = limited * std::f32::consts::LOG2_E + ROUND;
    let exponent = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let n = rounded - ROUND;
    let r = limited - n * LN_2_HIGH - n * LN_2_LOW;
    // 2^n (e^r - 1 + (1 - 2^-n)): the inner parentheses are 0 if x is small.
    let lacking = 1.0 - power_of_two(exponent.wrapping_neg().max(-126));
    let half = exponent >> 1;
    let found = (exp_series(r) + r + lacking)
        * power_of_two(half)
        * power_of_two(exponent.wrapping_sub(half));
    found.copysign(x)
}

/// ln(1 + x) within 3 units in the last place, even if the result is tiny.
///
/// -infinity of -1, NaN below, infinity of infinity; of the sign of x, NaN of NaN.
#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    let above = 1.0 + x;
    // The rounding error of 1 + x, times the slope of the logarithm.
    let lost = (x - (above - 1.0)) / above;
    let finite = log(above) + lost;
    let of_positive = if x < f32::INFINITY { finite } else { x };
    let of_any = if x == -1.0 { f32::NEG_INFINITY } else { of_positive };
    of_any.copysign(x)
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
    let series = polynomial(
        square,
        [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_8],
    );
    let small = x + x * square * series;
    let large = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    // `copysign` also restores the sign of -0, which the series would make +0.
    (if x.abs() < 0.625 { small } else { large }).copysign(x)
}
