//! Draws against means, and order statistics of draws against their closed forms.

use super::*;
use crate::random;

fn draw_mean(law: &Law, draws: usize) -> f64 {
    let mut rng = random::stream(7, &["law"]);
    (0..draws).map(|_| law.sample(&mut rng)).sum::<f64>() / draws as f64
}

/// The mean over many rounds of the `k`-th smallest (from 1) of `n` draws: the time that `k` of `n`
/// workers take.
fn order_statistic_mean(law: &Law, n: usize, k: usize) -> f64 {
    const ROUNDS: usize = 60_000;
    let mut rng = random::stream(11, &["order statistic"]);
    let mut total = 0.0;
    for _ in 0..ROUNDS {
        let mut times: Vec<f64> = (0..n).map(|_| law.sample(&mut rng)).collect();
        total += *times.select_nth_unstable_by(k - 1, f64::total_cmp).1;
    }
    total / ROUNDS as f64
}

fn harmonic(n: usize) -> f64 {
    (1..=n).map(|i| 1.0 / i as f64).sum()
}

fn assert_within(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (measured / expected - 1.0).abs();
    assert!(error < tolerance, "{what}: {measured} for {expected}, off by {error:.4}");
}

#[test]
fn the_mean_of_many_draws_is_the_mean_of_the_law() {
    let laws = [
        Law::Constant { value: 2.5 },
        Law::Uniform { low: 1.0, high: 4.0 },
        Law::Exponential { mean: 0.1 },
        Law::ShiftedExponential { shift: 0.5, mean: 2.0 },
        Law::Lognormal { mean: 3.0, sigma: 0.6 },
        Law::Pareto { scale: 2.0, shape: 4.0 },
        Law::Weibull { scale: 2.0, shape: 1.5 },
        Law::Weibull { scale: 2.0, shape: 0.9 },
        Law::Empirical { values: vec![1.0, 2.0, 2.0, 7.0] },
        Law::Shifted { shift: 1.0, law: Box::new(Law::Pareto { scale: 2.0, shape: 4.0 }) },
    ];
    for law in laws {
        assert_within(draw_mean(&law, 400_000), law.mean(), 0.01, &format!("{law:?}"));
    }
}

#[test]
fn the_tail_of_each_law_is_the_textbook_one() {
    let tail = |law: Law, above: f64| {
        let mut rng = random::stream(5, &["tail"]);
        (0..400_000).filter(|_| law.sample(&mut rng) > above).count() as f64 / 400_000.0
    };
    assert_within(tail(Law::Pareto { scale: 2.0, shape: 0.5 }, 32.0), 0.25, 0.01, "pareto");
    let weibull = (-(1.5_f64.powf(0.5))).exp();
    assert_within(tail(Law::Weibull { scale: 2.0, shape: 0.5 }, 3.0), weibull, 0.01, "weibull");
    let median = 3.0 * (-0.18_f64).exp();
    assert_within(tail(Law::Lognormal { mean: 3.0, sigma: 0.6 }, median), 0.5, 0.01, "lognormal");
}

#[test]
fn a_pareto_law_without_a_mean_says_infinite() {
    assert_eq!(Law::Pareto { scale: 1.0, shape: 1.0 }.mean(), f64::INFINITY);
}

#[test]
fn the_usual_draw_is_the_mean_and_of_a_law_without_one_the_median() {
    assert_eq!(Law::Pareto { scale: 2.0, shape: 2.0 }.usual(), 4.0);
    let endless = Law::Pareto { scale: 3.0, shape: 0.5 };
    assert_eq!(endless.usual(), 12.0);
    assert_eq!(Law::Shifted { shift: 1.0, law: Box::new(endless.clone()) }.usual(), 13.0);
    let weibull = Law::Weibull { scale: 2.0, shape: 0.005 };
    for law in [endless, weibull] {
        assert_eq!(law.mean(), f64::INFINITY, "{law:?}");
        let mut rng = random::stream(5, &["usual"]);
        let above = (0..100_000).filter(|_| law.sample(&mut rng) > law.usual()).count();
        assert_within(above as f64 / 100_000.0, 0.5, 0.01, &format!("{law:?}"));
    }
}

#[test]
fn the_mean_of_a_weibull_law_of_shape_1_over_n_is_the_factorial_of_n() {
    let mean = |shape: f64| Law::Weibull { scale: 1.0, shape }.mean();
    let mut factorial = 1.0;
    for n in 1..100_u32 {
        factorial *= f64::from(n);
        assert_within(mean(1.0 / f64::from(n)), factorial, 1e-12, "the mean");
    }
    assert_within(mean(2.0), std::f64::consts::PI.sqrt() / 2.0, 1e-12, "the mean of shape 2");
}

/// V1: a synchronous step of n workers with exponential times takes H_n means.
#[test]
fn a_synchronous_step_of_exponential_workers_takes_a_harmonic_number_of_means() {
    for n in [16, 50, 100] {
        assert_within(
            order_statistic_mean(&Law::Exponential { mean: 1.0 }, n, n),
            harmonic(n),
            0.01,
            "V1",
        );
    }
}

/// V2: waiting for k of n exponential workers takes H_n - H_(n-k) means (Dutta et al. 2018; Chen et
/// al. 2016).
#[test]
fn backup_workers_cut_a_step_to_a_difference_of_harmonic_numbers() {
    for (n, k) in [(16, 12), (54, 50), (100, 96)] {
        let expected = harmonic(n) - harmonic(n - k);
        assert_within(
            order_statistic_mean(&Law::Exponential { mean: 1.0 }, n, k),
            expected,
            0.01,
            "V2",
        );
    }
}

/// V3: a shift adds to V2 once.
#[test]
fn a_shift_adds_itself_once_to_a_step_with_backup_workers() {
    let law = Law::ShiftedExponential { shift: 0.5, mean: 1.0 };
    assert_within(order_statistic_mean(&law, 16, 12), 0.5 + harmonic(16) - harmonic(4), 0.01, "V3");
}

#[test]
fn a_parameter_out_of_range_is_refused_by_name() {
    let refused = [
        (Law::Constant { value: -1.0 }, "value"),
        (Law::Uniform { low: 2.0, high: 1.0 }, "swap"),
        (Law::Exponential { mean: f64::NAN }, "mean"),
        (Law::ShiftedExponential { shift: f64::INFINITY, mean: 1.0 }, "shift"),
        (Law::Lognormal { mean: 1.0, sigma: -0.1 }, "sigma"),
        (Law::Pareto { scale: 1.0, shape: 0.0 }, "shape"),
        (Law::Weibull { scale: 1.0, shape: 0.0 }, "shape"),
        (Law::Empirical { values: vec![] }, "at least one"),
        (Law::Empirical { values: vec![1.0, -1.0] }, "values"),
    ];
    for (law, word) in refused {
        let error = law.validate().unwrap_err().to_string();
        assert!(error.contains(word), "{law:?}: {error}");
    }
    assert_eq!(Law::Lognormal { mean: 1.0, sigma: 0.3 }.validate(), Ok(()));
}
