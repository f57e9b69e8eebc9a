//! The fit: the parameters by which a model comes closest to what was measured.
//!
//! A pattern search (Hooke and Jeeves 1961) in the logarithms of the parameters: each of them a
//! bit up or down, and then once more all that has helped. It needs no slopes, of which a
//! simulation has none, and gives the same result each time.

/// The first and the last change of a parameter, as logarithms.
const FIRST_CHANGE: f64 = 0.4;
const LAST_CHANGE: f64 = 0.02;

/// The loss of parameters that are e times their first guess: a parameter that no run depends on
/// stays where it was measured by itself.
const PRIOR: f64 = 0.01;

/// The greatest residual that is nothing special.
const ORDINARY: f64 = 0.1;

/// Improves `guess`, whose members are all above 0, until `residuals` (logarithms of predicted over
/// measured) are least in the sum of their losses, or after `most` evaluations.
pub(super) fn fit(
    guess: &[f64],
    most: usize,
    mut residuals: impl FnMut(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let first: Vec<f64> = guess.iter().map(|value| value.ln()).collect();
    let mut evaluations = 0;
    let mut loss = |at: &[f64]| {
        evaluations += 1;
        let parameters: Vec<f64> = at.iter().map(|value| value.exp()).collect();
        let error: f64 = residuals(&parameters).iter().map(|residual| loss_of(*residual)).sum();
        let moved = at.iter().zip(&first).map(|(at, first)| (at - first).powi(2)).sum::<f64>();
        (error + PRIOR * moved, evaluations)
    };
    let (mut best, mut change) = (first.clone(), FIRST_CHANGE);
    let (mut least, mut spent): (f64, usize) = loss(&best);
    while change >= LAST_CHANGE && spent < most {
        let (before, from) = (least, best.clone());
        for index in 0..best.len() {
            for step in [change, -change] {
                let mut tried = best.clone();
                tried[index] += step;
                let (loss, evaluations) = loss(&tried);
                spent = evaluations;
                if loss < least {
                    (best, least) = (tried, loss);
                    break;
                }
            }
        }
        if least < before {
            let further: Vec<f64> =
                best.iter().zip(&from).map(|(to, from)| 2.0 * to - from).collect();
            let (loss, evaluations) = loss(&further);
            spent = evaluations;
            if loss < least {
                (best, least) = (further, loss);
            }
        }
        if before - least < 0.02 * before {
            change /= 2.0;
        }
    }
    best.iter().map(|value| value.exp()).collect()
}

/// The loss of a residual: its square up to [`ORDINARY`], from there on in proportion (Huber 1964),
/// so that a run that something else has disturbed does not move the others.
fn loss_of(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= ORDINARY { size * size } else { ORDINARY * (2.0 * size - ORDINARY) }
}

/// The line `fixed + slope · x` through the `points`, by least squares of relative errors; neither
/// is negative.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let weight = 1.0 / (y * y).max(f64::MIN_POSITIVE);
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    if determinant <= 0.0 {
        return (if w > 0.0 { wy / w } else { 0.0 }, 0.0);
    }
    let (fixed, slope) = ((wy * wxx - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant);
    (fixed.max(0.0), slope.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of three runs with a fixed cost, a rate, and a parameter that none depends on.
    fn model(parameters: &[f64]) -> Vec<f64> {
        [1.0, 10.0, 100.0].map(|size| parameters[0] + size / parameters[1]).to_vec()
    }

    #[test]
    fn it_finds_the_parameters_that_explain_the_runs_and_leaves_the_others() {
        let measured = model(&[3.0, 7.0, 1.0]);
        let found = fit(&[1.0, 1.0, 5.0], 2000, |parameters| {
            let predicted = model(parameters);
            predicted.iter().zip(&measured).map(|(a, b)| (a / b).ln()).collect()
        });
        assert!((found[0] / 3.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found[1] / 7.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found[2] / 5.0 - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_run_that_something_disturbed_does_not_move_the_others() {
        let mut measured = model(&[3.0, 7.0, 1.0]);
        measured.extend([measured[2], 10.0 * measured[2]]);
        let found = fit(&[1.0, 1.0, 5.0], 2000, |parameters| {
            let mut predicted = model(parameters);
            predicted.extend([predicted[2]; 2]);
            predicted.iter().zip(&measured).map(|(a, b)| (a / b).ln()).collect()
        });
        let again = model(&found);
        for (again, measured) in again.iter().zip(&measured) {
            // Squares would more than double the last of them.
            assert!((again / measured - 1.0).abs() < 0.2, "{again} {measured}");
        }
    }

    #[test]
    fn it_ends_after_the_evaluations_that_it_is_given() {
        let mut count = 0;
        fit(&[1.0, 1.0], 10, |_| {
            count += 1;
            vec![1.0]
        });
        assert!(count <= 10 + 4, "{count}");
    }

    #[test]
    fn a_line_through_points_of_very_different_sizes_meets_the_small_ones_too() {
        let (fixed, slope) = line(&[(0.0, 8.0), (1e3, 8.7), (1e6, 708.0)]);
        assert!((fixed - 8.0).abs() < 0.02 && (slope - 0.7e-3).abs() < 1e-5, "{fixed} {slope}");
        assert_eq!(line(&[]), (0.0, 0.0));
    }
}
