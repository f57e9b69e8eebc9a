//! The logarithm of the gamma function and its derivatives.

use std::f64::consts::PI;

/// Below this, the argument is moved up by the recurrence before the asymptotic series is summed.
const LARGE: f64 = 12.0;

/// `ln |Γ(x)|`, by Stirling's series (Abramowitz and Stegun 1964, 6.1.40).
pub(crate) fn logarithm(x: f64) -> f64 {
    if x == f64::INFINITY || x <= 0.0 && x == x.floor() {
        return f64::INFINITY;
    }
    if x == 1.0 || x == 2.0 {
        return 0.0; // the terms below cancel but for their last digits
    }
    if x < 0.5 {
        return (PI / (PI * x).sin().abs()).ln() - logarithm(1.0 - x);
    }
    let (mut x, mut product) = (x, 1.0);
    while x < LARGE {
        product *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + (2.0 * PI).ln() / 2.0 + series - product.ln()
}

/// The derivative of `ln Γ(x)` (Abramowitz and Stegun 1964, 6.3.18).
pub(super) fn digamma(x: f64) -> f64 {
    if x <= 0.0 && x == x.floor() {
        return f64::NAN;
    }
    if x < 0.0 {
        return digamma(1.0 - x) - PI / (PI * x).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < LARGE {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)));
    sum + x.ln() - 0.5 / x - series
}

/// The derivative of [`digamma`] (Abramowitz and Stegun 1964, 6.4.12).
pub(super) fn trigamma(x: f64) -> f64 {
    if x <= 0.0 && x == x.floor() {
        return f64::INFINITY; // on both sides of the pole
    }
    if x < 0.0 {
        let sine = (PI * x).sin();
        return PI * PI / (sine * sine) - trigamma(1.0 - x);
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < LARGE {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)));
    sum + 1.0 / x + y / 2.0 + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_1_is_0_to_the_last_bit() {
        assert_eq!([logarithm(1.0), logarithm(2.0)], [0.0, 0.0]);
    }

    #[test]
    fn the_gamma_functions_have_their_known_values() {
        // Abramowitz and Stegun 1964: 6.1.8, 6.3.2, 6.3.3, 6.4.2, 6.4.4, and factorials.
        let euler = 0.577_215_664_901_532_9;
        let known = [
            (logarithm(0.5), PI.sqrt().ln()),
            (logarithm(5.0), 24f64.ln()),
            (logarithm(-0.5), (2.0 * PI.sqrt()).ln()),
            (digamma(1.0), -euler),
            (digamma(0.5), -euler - 2.0 * 2f64.ln()),
            (trigamma(1.0), PI * PI / 6.0),
            (trigamma(0.5), PI * PI / 2.0),
        ];
        for (found, value) in known {
            assert!((found - value).abs() < 1e-11, "{found} is not {value}");
        }
        assert!((logarithm(1.0)).abs() < 1e-12 && logarithm(-2.0).is_infinite());
        assert_eq!(logarithm(f64::INFINITY), f64::INFINITY);
    }
}
