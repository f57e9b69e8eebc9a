//! The learning rate of a step, computed in `f64`, so that only the last rounding shows.

use std::f64::consts::PI;

use crate::graph::{LearningRate, Schedule};

/// The rate of the global step `step`, which is at least 0.
pub(crate) fn learning_rate(rate: &LearningRate, step: i64) -> f32 {
    let step = step.max(0) as f64;
    let warm = if rate.warmup_steps == 0 {
        1.0
    } else {
        ((step + 1.0) / rate.warmup_steps as f64).min(1.0)
    };
    (warm * scheduled(&rate.schedule, step)) as f32
}

fn scheduled(schedule: &Schedule, step: f64) -> f64 {
    match *schedule {
        Schedule::Constant(rate) => rate.into(),
        Schedule::ExponentialDecay { initial, decay_steps, decay_rate, staircase } => {
            f64::from(initial) * f64::from(decay_rate).powf(periods(step, decay_steps, staircase))
        }
        Schedule::NaturalExpDecay { initial, decay_steps, decay_rate, staircase } => {
            f64::from(initial)
                * (-f64::from(decay_rate) * periods(step, decay_steps, staircase)).exp()
        }
        Schedule::InverseTimeDecay { initial, decay_steps, decay_rate, staircase } => {
            f64::from(initial)
                / (1.0 + f64::from(decay_rate) * periods(step, decay_steps, staircase))
        }
        Schedule::PolynomialDecay { initial, decay_steps, end, power, cycle } => {
            let (initial, end, one) = (f64::from(initial), f64::from(end), decay_steps as f64);
            let steps = if cycle { one * (step / one).ceil().max(1.0) } else { one };
            (initial - end) * (1.0 - (step / steps).min(1.0)).powf(power.into()) + end
        }
        Schedule::CosineDecay { initial, decay_steps, alpha } => {
            let (t, alpha) = ((step / decay_steps as f64).min(1.0), f64::from(alpha));
            f64::from(initial) * ((1.0 - alpha) * (1.0 + (PI * t).cos()) / 2.0 + alpha)
        }
        Schedule::PiecewiseConstant { ref until, last } => {
            let part = until.iter().find(|(boundary, _)| step <= *boundary as f64);
            part.map_or(last, |(_, rate)| *rate).into()
        }
    }
}

/// The step in units of `decay_steps`.
fn periods(step: f64, decay_steps: u64, staircase: bool) -> f64 {
    let periods = step / decay_steps as f64;
    if staircase { periods.floor() } else { periods }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the rates of some steps, from the closed forms in TensorFlow's documentation.
    #[track_caller]
    fn assert_rates(rate: impl Into<LearningRate>, expected: &[(i64, f64)]) {
        let rate = rate.into();
        for (step, expected) in expected {
            let found = f64::from(learning_rate(&rate, *step));
            assert!(
                (found - expected).abs() <= 1e-7 * expected.abs().max(1e-3),
                "{rate:?}: {found} at {step}"
            );
        }
    }

    #[test]
    fn a_constant_is_the_same_at_each_step() {
        assert_rates(0.3, &[(0, f64::from(0.3f32)), (1_000_000, f64::from(0.3f32))]);
    }

    /// `learning_rate_decay_test.py`: `testContinuous` and `testStaircase`.
    #[test]
    fn exponential_decay_is_continuous_or_in_stairs() {
        let decay = |staircase| Schedule::ExponentialDecay {
            initial: 0.5,
            decay_steps: 3,
            decay_rate: 0.25,
            staircase,
        };
        assert_rates(
            decay(false),
            &[(0, 0.5), (3, 0.125), (6, 0.03125), (1, 0.5 * 0.25f64.powf(1.0 / 3.0))],
        );
        assert_rates(
            decay(true),
            &[(0, 0.5), (2, 0.5), (3, 0.125), (5, 0.125), (100, 0.5 * 0.25f64.powi(33))],
        );
    }

    /// `testDecay` and `testStaircase` of `ExponentialDecayTest`'s siblings.
    #[test]
    fn natural_exponential_and_inverse_time_decay_are_continuous_or_in_stairs() {
        let natural = |staircase| Schedule::NaturalExpDecay {
            initial: 0.125,
            decay_steps: 3,
            decay_rate: 0.5,
            staircase,
        };
        assert_rates(natural(false), &[(0, 0.125), (4, 0.125 * (-0.5f64 * 4.0 / 3.0).exp())]);
        assert_rates(natural(true), &[(2, 0.125), (4, 0.125 * (-0.5f64).exp())]);
        let inverse = |staircase| Schedule::InverseTimeDecay {
            initial: 0.125,
            decay_steps: 10,
            decay_rate: 0.5,
            staircase,
        };
        assert_rates(inverse(false), &[(0, 0.125), (5, 0.1), (20, 0.0625)]);
        assert_rates(inverse(true), &[(9, 0.125), (19, 0.125 / 1.5), (20, 0.0625)]);
    }

    /// `LinearDecayTest`, `SqrtDecayTest` and their cycles.
    #[test]
    fn polynomial_decay_ends_or_goes_on_in_cycles() {
        let line = Schedule::PolynomialDecay {
            initial: 0.0625,
            decay_steps: 10,
            end: 0.0,
            power: 1.0,
            cycle: false,
        };
        assert_rates(line.clone(), &[(0, 0.0625), (5, 0.03125), (10, 0.0), (20, 0.0)]);
        let root = Schedule::PolynomialDecay {
            initial: 0.5,
            decay_steps: 10,
            end: 0.25,
            power: 0.5,
            cycle: false,
        };
        assert_rates(root, &[(5, 0.25 * 0.5f64.sqrt() + 0.25), (10, 0.25), (11, 0.25)]);
        let cycle = Schedule::PolynomialDecay {
            initial: 0.5,
            decay_steps: 10,
            end: 0.25,
            power: 1.0,
            cycle: true,
        };
        assert_rates(
            cycle,
            &[(0, 0.5), (10, 0.25), (15, 0.25 * 0.25 + 0.25), (20, 0.25), (25, 0.25 / 6.0 + 0.25)],
        );
    }

    /// `CosineDecayTest`: 1000 steps, with and without `alpha`.
    #[test]
    fn cosine_decay_comes_down_to_alpha() {
        for (alpha, end) in [(0.0, 0.0), (0.25, 0.25)] {
            let cosine = Schedule::CosineDecay { initial: 1.0, decay_steps: 1000, alpha };
            let middle = (1.0 - end) * (1.0 + (PI * 0.25).cos()) / 2.0 + end;
            assert_rates(
                cosine,
                &[
                    (0, 1.0),
                    (250, middle),
                    (500, (1.0 - end) / 2.0 + end),
                    (1000, end),
                    (1500, end),
                ],
            );
        }
    }

    /// `PiecewiseConstantTest`: a boundary belongs to the part before it.
    #[test]
    fn piecewise_constant_changes_after_each_boundary() {
        let parts = Schedule::PiecewiseConstant {
            until: vec![(100, 1.0), (110, 0.5), (120, 0.25)],
            last: 0.125,
        };
        assert_rates(
            parts,
            &[(0, 1.0), (100, 1.0), (101, 0.5), (110, 0.5), (111, 0.25), (120, 0.25), (999, 0.125)],
        );
    }

    #[test]
    fn a_warm_up_takes_a_growing_part_of_the_schedule_and_then_leaves_it_alone() {
        let half = Schedule::ExponentialDecay {
            initial: 1.0,
            decay_steps: 1,
            decay_rate: 0.5,
            staircase: false,
        };
        let warm = LearningRate::from(half).warmup_steps(4);
        assert_rates(warm, &[(0, 0.25), (1, 0.5 * 0.5), (3, 0.125), (4, 0.0625)]);
        assert_rates(
            LearningRate::from(1.0).warmup_steps(10),
            &[(0, 0.1), (8, 0.9), (9, 1.0), (1000, 1.0)],
        );
    }
}
