//! The fit: the parameters by which a model comes closest to what was measured.
//!
//! Least squares of the residuals in the logarithms of the parameters (Levenberg 1944, Marquardt
//! 1963), with slopes by differences: a simulation has no others. It gives the same result each
//! time.

/// The change of a parameter's logarithm by which slopes are found: more than the steps in which a
/// simulation answers to its parameters.
const CHANGE: f64 = 0.1;
/// The damping at first, the factor by which it falls and rises, and that at which a fit ends.
const DAMPING: f64 = 0.01;
const FACTOR: f64 = 4.0;
const MOST_DAMPING: f64 = 1e4;
/// The farthest that a parameter's logarithm moves at a time.
const FARTHEST: f64 = 0.5;

/// The greatest residual that is nothing special.
const ORDINARY: f64 = 0.1;

/// A parameter as it was measured by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guess {
    /// Above 0.
    pub(super) value: f64,
    /// The loss of a value that is e times this one: how far it is to be trusted. With any, a
    /// parameter that no run depends on stays where it is.
    pub(super) prior: f64,
}

/// Improves `guess` until `residuals` (logarithms of predicted over measured) are least in the sum
/// of their losses, or after about `most` evaluations.
pub(super) fn fit(
    guess: &[Guess],
    most: usize,
    residuals: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let first: Vec<f64> = guess.iter().map(|guess| guess.value.ln()).collect();
    let residuals = |at: &[f64]| -> Vec<f64> {
        let parameters: Vec<f64> = at.iter().map(|value| value.exp()).collect();
        // A run without a step says nothing.
        let told = |residual: f64| if residual.is_finite() { residual } else { 0.0 };
        residuals(&parameters).into_iter().map(told).collect()
    };
    let moves = |at: &[f64]| -> Vec<f64> { at.iter().zip(&first).map(|(a, b)| a - b).collect() };
    let loss = |at: &[f64], residuals: &[f64]| {
        let of_moves = moves(at)
            .iter()
            .zip(guess)
            .map(|(moved, guess)| guess.prior * moved * moved)
            .sum::<f64>();
        residuals.iter().map(|residual| loss_of(*residual)).sum::<f64>() + of_moves
    };
    let mut spent = 1;
    let (mut best, mut damping) = (first.clone(), DAMPING);
    let mut here = residuals(&best);
    let mut least = loss(&best, &here);
    while damping < MOST_DAMPING && spent < most {
        let slope_of = |index: usize| -> Vec<f64> {
            let mut tried = best.clone();
            tried[index] += CHANGE;
            let there = residuals(&tried);
            there.iter().zip(&here).map(|(there, here)| (there - here) / CHANGE).collect()
        };
        let slopes: Vec<Vec<f64>> = (0..best.len()).map(slope_of).collect();
        spent += best.len();
        let before = least;
        // The same slopes serve until a step with some damping is a step down.
        while damping < MOST_DAMPING && spent < most {
            let step = step(&slopes, &here, (&moves(&best), guess), damping);
            let tried: Vec<f64> = best.iter().zip(&step).map(|(at, step)| at + step).collect();
            let there = residuals(&tried);
            spent += 1;
            let found = loss(&tried, &there);
            if found < least {
                (best, here, least) = (tried, there, found);
                damping /= FACTOR;
                break;
            }
            damping *= FACTOR;
        }
        if before - least < 1e-3 * before {
            break;
        }
    }
    best.iter().map(|value| value.exp()).collect()
}

/// The step down of the damped linear model whose `slopes` are given by parameter; the logarithms
/// of the parameters are `moved` from their guess.
fn step(
    slopes: &[Vec<f64>],
    residuals: &[f64],
    (moved, guess): (&[f64], &[Guess]),
    damping: f64,
) -> Vec<f64> {
    // Beyond an ordinary one, a residual counts as if it were measured less well.
    let weights: Vec<f64> =
        residuals.iter().map(|residual| (ORDINARY / residual.abs()).min(1.0)).collect();
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).zip(&weights).map(|((one, other), weight)| one * other * weight).sum()
    };
    let count = slopes.len();
    let mut matrix: Vec<Vec<f64>> =
        slopes.iter().map(|one| slopes.iter().map(|other| product(one, other)).collect()).collect();
    let mut right = vec![0.0; count];
    for index in 0..count {
        let prior = guess[index].prior;
        right[index] = -product(&slopes[index], residuals) - prior * moved[index];
        matrix[index][index] = (matrix[index][index] + prior) * (1.0 + damping);
    }
    let step = solved(matrix, right);
    step.into_iter().map(|step| step.clamp(-FARTHEST, FARTHEST)).collect()
}

/// The solution of a system of linear equations whose `matrix` is symmetric and positive definite
/// (Cholesky).
fn solved(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for row in 0..count {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| matrix[row][at] * matrix[column][at]).sum();
            let left = matrix[row][column] - known;
            matrix[row][column] =
                if row == column { left.sqrt() } else { left / matrix[column][column] };
        }
        let known: f64 = (0..row).map(|at| matrix[row][at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|at| matrix[at][row] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
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
    use std::cell::Cell;

    /// Guesses that are hardly trusted.
    fn loose(values: &[f64]) -> Vec<Guess> {
        values.iter().map(|value| Guess { value: *value, prior: 0.01 }).collect()
    }

    /// A model of three runs with a fixed cost, a rate, and a parameter that none depends on.
    fn model(parameters: &[f64]) -> Vec<f64> {
        [1.0, 10.0, 100.0].map(|size| parameters[0] + size / parameters[1]).to_vec()
    }

    #[test]
    fn it_finds_the_parameters_that_explain_the_runs_and_leaves_the_others() {
        let measured = model(&[3.0, 7.0, 1.0]);
        let found = fit(&loose(&[1.0, 1.0, 5.0]), 2000, |parameters| {
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
        let found = fit(&loose(&[1.0, 1.0, 5.0]), 2000, |parameters| {
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
    fn of_two_parameters_that_explain_the_runs_as_well_the_less_trusted_one_moves() {
        let guess = [Guess { value: 2.0, prior: 1.0 }, Guess { value: 3.0, prior: 0.01 }];
        let found = fit(&guess, 2000, |at| vec![(at[0] * at[1] / 12.0).ln()]);
        assert!((found[0] / 2.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found[0] * found[1] / 12.0 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_run_that_can_t_be_predicted_does_not_end_the_fit() {
        let found = fit(&loose(&[1.0]), 2000, |at| vec![f64::NAN, (at[0] / 3.0).ln()]);
        assert!((found[0] / 3.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn it_ends_after_the_evaluations_that_it_is_given() {
        let count = Cell::new(0);
        fit(&loose(&[1.0, 1.0]), 10, |_| {
            count.set(count.get() + 1);
            vec![1.0]
        });
        assert!(count.get() <= 10 + 2, "{}", count.get());
    }

    #[test]
    fn a_line_through_points_of_very_different_sizes_meets_the_small_ones_too() {
        let (fixed, slope) = line(&[(0.0, 8.0), (1e3, 8.7), (1e6, 708.0)]);
        assert!((fixed - 8.0).abs() < 0.02 && (slope - 0.7e-3).abs() < 1e-5, "{fixed} {slope}");
        assert_eq!(line(&[]), (0.0, 0.0));
    }
}
