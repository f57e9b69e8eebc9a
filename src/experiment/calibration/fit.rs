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
/// The greatest change of a parameter's logarithm in one step.
const FARTHEST: f64 = 0.5;

/// The greatest residual that is nothing special.
const ORDINARY: f64 = 0.1;

/// A parameter as it was measured by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guess {
    /// Above 0, and at most `most`.
    pub(super) value: f64,
    /// The loss of a value that is e times this one: how far it is to be trusted. With any, a
    /// parameter that no run depends on stays where it is.
    pub(super) prior: f64,
    /// The greatest value that it may have.
    pub(super) most: f64,
}

/// Improves `guess` until the sum of the losses of `residuals` (logarithms of predicted over
/// measured) is least, or for about `most` evaluations. Runs without a residual at the guess are
/// left out. None once there are no `residuals`: then the fit is to stop.
pub(super) fn fit(
    guess: &[Guess],
    most: usize,
    residuals: impl FnMut(&[f64]) -> Option<Vec<f64>>,
) -> Option<Vec<f64>> {
    let mut search = Search::new(guess, residuals)?;
    while search.damping < MOST_DAMPING && search.spent < most {
        let (slopes, before) = (search.slopes()?, search.here.loss);
        // The same slopes serve until a step with some damping is a step down.
        while !search.step_down(&slopes)? && search.damping < MOST_DAMPING && search.spent < most {}
        if before - search.here.loss < 1e-3 * before {
            break;
        }
    }
    Some(search.here.at.iter().map(|value| value.exp()).collect())
}

/// A search for the least loss.
struct Search<'a, F> {
    guess: &'a [Guess],
    residuals: F,
    /// Which runs have a residual.
    counts: Vec<bool>,
    here: Point,
    damping: f64,
    /// The number of evaluations so far.
    spent: usize,
}

/// Parameters that were tried, as logarithms.
struct Point {
    at: Vec<f64>,
    residuals: Vec<f64>,
    loss: f64,
}

impl<'a, F: FnMut(&[f64]) -> Option<Vec<f64>>> Search<'a, F> {
    fn new(guess: &'a [Guess], mut residuals: F) -> Option<Self> {
        let values: Vec<f64> = guess.iter().map(|guess| guess.value).collect();
        let first = residuals(&values)?;
        let counts = first.iter().map(|residual| residual.is_finite()).collect();
        let here = Point { at: Vec::new(), residuals: Vec::new(), loss: 0.0 };
        let mut search = Self { guess, residuals, counts, here, damping: DAMPING, spent: 1 };
        let at = values.into_iter().map(f64::ln).collect();
        search.here = search.judged(at, first);
        Some(search)
    }

    /// How far `at` is from the guess, by parameter.
    fn moved(&self, at: &[f64]) -> Vec<f64> {
        at.iter().zip(self.guess).map(|(at, guess)| at - guess.value.ln()).collect()
    }

    /// Tries the parameters `at`.
    fn point(&mut self, at: Vec<f64>) -> Option<Point> {
        self.spent += 1;
        let values: Vec<f64> = at.iter().map(|value| value.exp()).collect();
        let residuals = (self.residuals)(&values)?;
        Some(self.judged(at, residuals))
    }

    /// The parameters `at`, which gave `residuals`. Where a run has none that has one at the guess,
    /// the loss is infinite.
    fn judged(&self, at: Vec<f64>, residuals: Vec<f64>) -> Point {
        let counted = |(residual, counts): (f64, &bool)| match counts {
            true if residual.is_finite() => residual,
            true => f64::INFINITY,
            false => 0.0,
        };
        let residuals: Vec<f64> = residuals.into_iter().zip(&self.counts).map(counted).collect();
        let of_runs: f64 = residuals.iter().map(|residual| loss_of(*residual)).sum();
        let moved = self.moved(&at);
        let of_moves: f64 =
            moved.iter().zip(self.guess).map(|(moved, guess)| guess.prior * moved * moved).sum();
        Point { at, residuals, loss: of_runs + of_moves }
    }

    /// The slope of each residual by each parameter.
    fn slopes(&mut self) -> Option<Vec<Vec<f64>>> {
        (0..self.guess.len()).map(|index| self.slope(index)).collect()
    }

    /// The slope of each residual by a parameter: upwards, unless it can't be so great, or runs
    /// have no residual there.
    fn slope(&mut self, index: usize) -> Option<Vec<f64>> {
        let is_too_much = (self.here.at[index] + CHANGE).exp() > self.guess[index].most;
        let mut changed = |change: f64| {
            let mut tried = self.here.at.clone();
            tried[index] += change;
            Some((change, self.point(tried)?))
        };
        let up = if is_too_much { None } else { Some(changed(CHANGE)?) };
        let up = up.filter(|(_, up)| up.loss.is_finite());
        let (change, there) = up.map_or_else(|| changed(-CHANGE), Some)?;
        let both = there.residuals.iter().zip(&self.here.residuals);
        let slope = both.map(|(there, here)| (there - here) / change);
        Some(slope.map(|slope| if slope.is_finite() { slope } else { 0.0 }).collect())
    }

    /// Tries a step; takes it if it is one down, and damps the next one more if not.
    fn step_down(&mut self, slopes: &[Vec<f64>]) -> Option<bool> {
        let step = self.step(slopes);
        let to = |((at, step), guess): ((&f64, f64), &Guess)| {
            (at + step.clamp(-FARTHEST, FARTHEST)).min(guess.most.ln())
        };
        let tried = self.here.at.iter().zip(step).zip(self.guess).map(to).collect();
        let there = self.point(tried)?;
        let is_down = there.loss < self.here.loss;
        if is_down {
            self.here = there;
            self.damping /= FACTOR;
        } else {
            self.damping *= FACTOR;
        }
        Some(is_down)
    }

    /// The step to where the damped linear model with these `slopes` has its least loss.
    fn step(&self, slopes: &[Vec<f64>]) -> Vec<f64> {
        let Point { at, residuals, .. } = &self.here;
        // Beyond an ordinary one, a residual counts as if it were measured less well.
        let weights: Vec<f64> =
            residuals.iter().map(|residual| (ORDINARY / residual.abs()).min(1.0)).collect();
        let product = |one: &[f64], other: &[f64]| -> f64 {
            let both = one.iter().zip(other).zip(&weights);
            both.map(|((one, other), weight)| one * other * weight).sum()
        };
        let row = |one: &Vec<f64>| slopes.iter().map(|other| product(one, other)).collect();
        let mut matrix: Vec<Vec<f64>> = slopes.iter().map(row).collect();
        let mut right: Vec<f64> = slopes.iter().map(|one| -product(one, residuals)).collect();
        for (index, moved) in self.moved(at).into_iter().enumerate() {
            let prior = self.guess[index].prior;
            right[index] -= prior * moved;
            matrix[index][index] = (matrix[index][index] + prior) * (1.0 + self.damping);
        }
        solved(matrix, right)
    }
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
        let guess = |value: &f64| Guess { value: *value, prior: 0.01, most: f64::INFINITY };
        values.iter().map(guess).collect()
    }

    /// The parameters of a fit that nothing stops.
    fn fitted(guess: &[Guess], most: usize, residuals: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        fit(guess, most, |at| Some(residuals(at))).expect("nothing stops it")
    }

    /// A model of three runs with a fixed cost, a rate, and a parameter that none depends on.
    fn model(parameters: &[f64]) -> Vec<f64> {
        [1.0, 10.0, 100.0].map(|size| parameters[0] + size / parameters[1]).to_vec()
    }

    #[test]
    fn it_finds_the_parameters_that_explain_the_runs_and_leaves_the_others() {
        let measured = model(&[3.0, 7.0, 1.0]);
        let found = fitted(&loose(&[1.0, 1.0, 5.0]), 2000, |parameters| {
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
        let found = fitted(&loose(&[1.0, 1.0, 5.0]), 2000, |parameters| {
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
        let mut guess = loose(&[2.0, 3.0]);
        guess[0].prior = 1.0;
        let found = fitted(&guess, 2000, |at| vec![(at[0] * at[1] / 12.0).ln()]);
        assert!((found[0] / 2.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found[0] * found[1] / 12.0 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_run_without_a_residual_is_left_out_and_one_that_loses_its_own_holds_the_fit_back() {
        let found = fitted(&loose(&[1.0]), 2000, |at| vec![f64::NAN, (at[0] / 3.0).ln()]);
        assert!((found[0] / 3.0 - 1.0).abs() < 0.05, "{found:?}");
        let beyond = |at: f64| if at > 1.05 { f64::NAN } else { (at / 0.8).ln() };
        let found = fitted(&loose(&[1.0]), 2000, |at| vec![beyond(at[0])]);
        assert!((found[0] / 0.8 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_parameter_stays_below_its_most_and_leaves_it() {
        let of = |value: f64, truth: f64| {
            let guess = [Guess { value, prior: 0.01, most: 1.0 }];
            fitted(&guess, 2000, |at| vec![(at[0].min(1.0) / truth).ln()])[0]
        };
        assert!((of(1.0, 0.7) / 0.7 - 1.0).abs() < 0.02, "{}", of(1.0, 0.7));
        assert!(of(0.8, 3.0) <= 1.0 && of(0.8, 3.0) > 0.99, "{}", of(0.8, 3.0));
    }

    #[test]
    fn it_ends_after_the_evaluations_that_it_is_given() {
        let count = Cell::new(0);
        fitted(&loose(&[1.0, 1.0]), 10, |_| {
            count.set(count.get() + 1);
            vec![1.0]
        });
        assert!(count.get() <= 10 + 2, "{}", count.get());
    }

    #[test]
    fn it_stops_at_the_evaluation_that_is_refused() {
        for last in [1, 2, 5, 9] {
            let count = Cell::new(0);
            let found = fit(&loose(&[1.0, 1.0, 5.0]), 2000, |at| {
                count.set(count.get() + 1);
                (count.get() < last).then(|| model(at))
            });
            assert_eq!((found, count.get()), (None, last));
        }
    }

    #[test]
    fn a_line_through_points_of_very_different_sizes_meets_the_small_ones_too() {
        let (fixed, slope) = line(&[(0.0, 8.0), (1e3, 8.7), (1e6, 708.0)]);
        assert!((fixed - 8.0).abs() < 0.02 && (slope - 0.7e-3).abs() < 1e-5, "{fixed} {slope}");
        assert_eq!(line(&[]), (0.0, 0.0));
    }
}
