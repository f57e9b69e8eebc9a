//! The error function.

use super::{exp, polynomial};

/// The error function within 2 units in the last place; odd to the bit, NaN of NaN.
///
/// The polynomials are those of N. Juffa's `erff`: a series by x², and near 1 the logarithm of the
/// difference from 1.
#[inline(always)]
pub(in crate::kernels) fn erf(x: f32) -> f32 {
    let (magnitude, square) = (x.abs(), x * x);
    let near_zero =
        [-5.967_617e-4, 4.991_194e-3, -2.676_813_5e-2, 0.112_819_925, -0.376_125_34, 0.128_379_17];
    let small = polynomial(square, near_zero) * x + x;
    let far = [
        -1.728_534_7e-5,
        3.831_972e-4,
        -3.883_964_4e-3,
        2.425_462_2e-2,
        -0.106_777_88,
        -0.634_846_7,
        -0.128_717_51,
    ];
    let large = 1.0 - exp(polynomial(magnitude, far) * magnitude - magnitude);
    // Above 4 the difference from 1 is less than half a unit.
    let large = if magnitude > 4.0 { 1.0 } else { large };
    let found = if magnitude > 0.927_734_4 { large.copysign(x) } else { small };
    if x.is_nan() { x } else { found }
}

/// The error function within a few units in the last place; odd to the bit, NaN of NaN.
///
/// Below 2 by the series of positive terms (DLMF 7.6.2), above by the continued fraction of the
/// difference from 1 (DLMF 7.9.1).
pub(in crate::kernels) fn erf_f64(x: f64) -> f64 {
    /// The number of terms of either; more than the last digit needs.
    const TERMS: u32 = 60;
    let magnitude = x.abs();
    let found = if magnitude < 2.0 {
        let (mut term, mut sum) = (magnitude, magnitude);
        for n in 1..TERMS {
            term *= 2.0 * magnitude * magnitude / f64::from(2 * n + 1);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-magnitude * magnitude).exp() * sum
    } else {
        let fraction =
            (1..TERMS).rev().fold(magnitude, |below, n| magnitude + 0.5 * f64::from(n) / below);
        1.0 - 0.5 * std::f64::consts::FRAC_2_SQRT_PI * (-magnitude * magnitude).exp() / fraction
    };
    if x.is_nan() { x } else { found.copysign(x) }
}
