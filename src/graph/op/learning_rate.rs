//! Learning rates: constant, or a function of the step.

use serde::{Deserialize, Serialize};

/// A learning rate: the same in each step, or computed by the worker from the number of the step,
/// once a step.
///
/// The number of the step is the global step: of a round in one mode, of a gradient in another. If
/// workers train copies of their own ([`Mode::copies`](crate::sync::Mode::copies)), it is the
/// worker's own count of steps. So in another mode a run takes another number of steps for as many
/// samples.
///
/// A number converts to a learning rate, and so does a [`Schedule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    pub(crate) schedule: Schedule,
    pub(crate) warmup_steps: u64,
}

/// The learning rate as a function of the step: the global step or, of a copy that a worker trains
/// by itself, that worker's (TensorFlow: `tf.train.*_decay`).
///
/// `t` is the step divided by `decay_steps`; with `staircase` it is rounded down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// This rate in each step.
    Constant(f32),
    /// `initial · decay_rateᵗ` (`exponential_decay`)
    ExponentialDecay {
        /// The rate of step 0.
        initial: f32,
        /// The number of steps in which the rate falls by the factor `decay_rate`.
        decay_steps: u64,
        /// The factor.
        decay_rate: f32,
        /// Whether the rate falls once every `decay_steps`, and stays the same between.
        staircase: bool,
    },
    /// `initial · e^(−decay_rate · t)` (`natural_exp_decay`)
    NaturalExpDecay {
        /// The rate of step 0.
        initial: f32,
        /// The number of steps in a unit of `t`.
        decay_steps: u64,
        /// The exponent for one unit of `t`.
        decay_rate: f32,
        /// Whether the rate falls in stairs.
        staircase: bool,
    },
    /// `initial / (1 + decay_rate · t)` (`inverse_time_decay`)
    InverseTimeDecay {
        /// The rate of step 0.
        initial: f32,
        /// The number of steps in a unit of `t`.
        decay_steps: u64,
        /// The number added to the divisor for each unit of `t`.
        decay_rate: f32,
        /// Whether the rate falls in stairs.
        staircase: bool,
    },
    /// `(initial − end) · (1 − t)^power + end`, and `end` after that (`polynomial_decay`)
    PolynomialDecay {
        /// The rate of step 0.
        initial: f32,
        /// The number of steps until the end of the decay.
        decay_steps: u64,
        /// The rate at the end.
        end: f32,
        /// The exponent; 1 gives a straight line.
        power: f32,
        /// Whether it goes on past the end, with the least multiple of `decay_steps` that covers
        /// the step.
        cycle: bool,
    },
    /// `initial · ((1 − alpha) · (1 + cos πt) / 2 + alpha)`, and the last value after that
    /// (`cosine_decay`; Loshchilov and Hutter 2017)
    CosineDecay {
        /// The rate of step 0.
        initial: f32,
        /// The number of steps until the end of the decay.
        decay_steps: u64,
        /// The rate at the end, as a part of `initial`.
        alpha: f32,
    },
    /// One rate up to and including a step, another up to the next, another after the last
    /// (`piecewise_constant`)
    PiecewiseConstant {
        /// The last step of each part and the part's rate, by ascending steps; without the last
        /// part.
        until: Vec<(u64, f32)>,
        /// The rate of the last part.
        last: f32,
    },
}

impl LearningRate {
    /// Lets the rate grow in a straight line at the beginning: step `s` of the first `steps` has
    /// `(s + 1) / steps` of the rate it would otherwise have. (Programs for TensorFlow take
    /// `s / steps` and so waste step 0.)
    #[must_use]
    pub fn warmup_steps(mut self, steps: u64) -> Self {
        self.warmup_steps = steps;
        self
    }

    /// The rate, if all steps have the same.
    pub(crate) fn constant(&self) -> Option<f32> {
        match self.schedule {
            Schedule::Constant(rate) if self.warmup_steps == 0 => Some(rate),
            _ => None,
        }
    }

    /// The mistake in the schedule, if there is one.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match &self.schedule {
            Schedule::Constant(rate)
            | Schedule::ExponentialDecay { initial: rate, .. }
            | Schedule::NaturalExpDecay { initial: rate, .. }
            | Schedule::InverseTimeDecay { initial: rate, .. }
            | Schedule::PolynomialDecay { initial: rate, .. }
            | Schedule::CosineDecay { initial: rate, .. }
                if !rate.is_finite() =>
            {
                Some("a rate must be finite")
            }
            Schedule::ExponentialDecay { decay_steps: 0, .. }
            | Schedule::NaturalExpDecay { decay_steps: 0, .. }
            | Schedule::InverseTimeDecay { decay_steps: 0, .. }
            | Schedule::PolynomialDecay { decay_steps: 0, .. }
            | Schedule::CosineDecay { decay_steps: 0, .. } => {
                Some("`decay_steps` must be at least 1")
            }
            Schedule::PiecewiseConstant { until, .. }
                if !until.is_sorted_by(|(a, _), (b, _)| a < b) =>
            {
                Some("the boundaries of its parts must ascend")
            }
            _ => None,
        }
    }
}

impl From<f32> for LearningRate {
    fn from(rate: f32) -> Self {
        Schedule::Constant(rate).into()
    }
}

impl From<Schedule> for LearningRate {
    fn from(schedule: Schedule) -> Self {
        Self { schedule, warmup_steps: 0 }
    }
}
