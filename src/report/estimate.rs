//! Means with their uncertainty, over independent values: of seeds, or of launches of one seed.

use serde::Serialize;

use super::number;

/// The quantiles 0.975 of Student's t, for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean, and the interval in which the true one is with 95 % confidence (Student's t).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The lower end of the interval; none of a single value.
    pub low: Option<f64>,
    /// The upper end of the interval; none of a single value.
    pub high: Option<f64>,
    /// The number of values.
    pub values: u64,
}

impl Estimate {
    /// The estimate from independent `values`; none if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let half = (count > 1).then(|| t(count - 1) * error_of(mean, values));
        let (low, high) = (half.map(|half| mean - half), half.map(|half| mean + half));
        Some(Self { mean, low, high, values: count as u64 })
    }

    /// The mean and half of the interval, as in `1.52 ± 0.04`.
    pub fn render(&self, decimals: usize) -> String {
        let shown = |value: f64| number::render(value, decimals);
        match self.high {
            Some(high) => format!("{} ± {}", shown(self.mean), shown(high - self.mean)),
            None => shown(self.mean),
        }
    }

    /// The same through a function that grows, such as `exp` after a mean of logarithms.
    pub(super) fn map(self, grows: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (self.low.map(&grows), self.high.map(&grows));
        Self { mean: grows(self.mean), low, high, ..self }
    }
}

/// The greatest chance that values which do not differ are told apart.
const DOUBT: f64 = 0.05;

/// Whether independent `values` have a true mean above 0, when they are one of so many `pairs` of
/// which the one that differs most was chosen: all together are wrong with a chance of at most 5 %
/// (Bonferroni's correction of Student's t). None of fewer than two values.
pub(super) fn is_surely_positive(values: &[f64], pairs: usize) -> Option<bool> {
    let chance = chance_of_no_difference(values)?;
    Some(values.iter().sum::<f64>() > 0.0 && chance * pairs as f64 <= DOUBT)
}

/// The chance that as many independent values, of a true mean of 0, have a mean as far from it as
/// these (Student's t, two-sided). None of fewer than two values.
fn chance_of_no_difference(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(1.0 - within((mean / error_of(mean, values)).abs(), freedom))
}

/// The standard error of the `mean` of two `values` or more.
fn error_of(mean: f64, values: &[f64]) -> f64 {
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (values.len() - 1) as f64 / values.len() as f64).sqrt()
}

/// The chance that Student's t is within `±t` (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = (if is_odd { cos } else { 1.0 }, 0.0);
    for n in (if is_odd { 3 } else { 2 }..=freedom).step_by(2) {
        sum += term;
        term *= cos * cos * (n - 1) as f64 / n as f64;
    }
    if is_odd { (angle + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum }
}

/// The quantile 0.975 of Student's t. Beyond the table an expansion at infinity, exact to 0.002.
fn t(freedom: usize) -> f64 {
    T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_student_s() {
        // R: t.test(c(1, 2, 3, 4)) says 0.4457397 to 4.5542603.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((estimate.mean, estimate.values), (2.5, 4));
        assert!((estimate.low.unwrap() - 0.445_739_7).abs() < 1e-3, "{estimate:?}");
        assert!((estimate.high.unwrap() - 4.554_260_3).abs() < 1e-3, "{estimate:?}");
        assert_eq!(estimate.render(1), "2.5 ± 2.1");
    }

    #[test]
    fn a_single_value_has_no_interval_and_none_has_no_mean() {
        let alone = Estimate::of(&[0.25]).unwrap();
        assert_eq!((alone.low, alone.high, alone.render(2)), (None, None, "0.25".to_owned()));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_chance_of_no_difference_is_student_s() {
        // R: t.test(c(1, 2, 3, 4)) says p = 0.03047; t.test(c(1, 2, 3)), 0.07418.
        let chance = |values: &[f64]| chance_of_no_difference(values).unwrap();
        assert!((chance(&[1.0, 2.0, 3.0, 4.0]) - 0.030_47).abs() < 1e-5);
        assert!((chance(&[-1.0, -2.0, -3.0]) - 0.074_18).abs() < 1e-5);
        assert_eq!(chance_of_no_difference(&[1.0]), None);
        for freedom in 1..200 {
            let beyond = 1.0 - within(t(freedom), freedom);
            assert!((beyond - 0.05).abs() < 3e-4, "{freedom}: {beyond}");
        }
    }

    #[test]
    fn what_is_sure_of_one_pair_is_not_sure_of_many_nor_of_a_mean_below_0() {
        let values = [1.0, 2.0, 3.0, 4.0]; // a chance of 3.047 %
        let sure = |pairs| is_surely_positive(&values, pairs);
        assert_eq!((sure(1), sure(2)), (Some(true), Some(false)));
        assert_eq!(is_surely_positive(&values.map(|value| -value), 1), Some(false));
        assert_eq!(is_surely_positive(&[1.0], 1), None);
        assert_eq!(is_surely_positive(&[0.0, 0.0], 1), Some(false));
    }

    #[test]
    fn the_quantile_falls_to_that_of_the_normal_law() {
        let quantiles: Vec<f64> = (1..200).map(t).collect();
        assert!(quantiles.windows(2).all(|pair| pair[1] <= pair[0] + 1e-3));
        assert!((t(199) - 1.972).abs() < 2e-3, "{}", t(199));
    }
}
