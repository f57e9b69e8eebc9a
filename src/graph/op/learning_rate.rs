//! Learning rates: constant, or a function of the global step.

use serde::{Deserialize, Serialize};

/// A learning rate: the same in each step, or computed from the global step, once a step, by the
/// worker.
///
/// A number is one, and so is a [`Schedule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    pub(crate) schedule: Schedule,
    pub(crate) warmup_steps: u64,
}

/// How the learning rate changes with the global step \[global steps\] (TensorFlow:
/// `tf.train.*_decay`).
///
/// `t` is the global step over `decay_steps`, with `staircase` rounded down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Always this.
    Constant(f32),
    /// `initial · decay_rateᵗ` (`exponential_decay`)
    ExponentialDecay {
        /// The rate of step 0.
        initial: f32,
        /// How many steps it takes to come down by `decay_rate`.
        decay_steps: u64,
        /// What is left of the rate after them.
        decay_rate: f32,
        /// Come down at once after `decay_steps`, and stay there for as many.
        staircase: bool,
    },
    /// `initial · e^(−decay_rate · t)` (`natural_exp_decay`)
    NaturalExpDecay {
        /// The rate of step 0.
        initial: f32,
        /// The unit of time.
        decay_steps: u64,
        /// The exponent of a unit.
        decay_rate: f32,
        /// Come down in stairs.
        staircase: bool,
    },
    /// `initial / (1 + decay_rate · t)` (`inverse_time_decay`)
    InverseTimeDecay {
        /// The rate of step 0.
        initial: f32,
        /// The unit of time.
        decay_steps: u64,
        /// What is added to the divisor in a unit.
        decay_rate: f32,
        /// Come down in stairs.
        staircase: bool,
    },
    /// `(initial − end) · (1 − t)^power + end`, and `end` for ever after (`polynomial_decay`)
    PolynomialDecay {
        /// The rate of step 0.
        initial: f32,
        /// When it ends.
        decay_steps: u64,
        /// The rate at the end.
        end: f32,
        /// 1 for a straight line.
        power: f32,
        /// Go on past the end with as many times `decay_steps` as it takes to cover the step.
        cycle: bool,
    },
    /// `initial · ((1 − alpha) · (1 + cos πt) / 2 + alpha)`, and the last for ever after
    /// (`cosine_decay`; Loshchilov and Hutter 2017)
    CosineDecay {
        /// The rate of step 0.
        initial: f32,
        /// When it ends.
        decay_steps: u64,
        /// What is left at the end, as a part of `initial`.
        alpha: f32,
    },
    /// One rate up to and with a step, another up to the next, another after the last
    /// (`piecewise_constant`)
    PiecewiseConstant {
        /// The last step of each part but the last, ascending, and its rate.
        until: Vec<(u64, f32)>,
        /// The rate after them.
        last: f32,
    },
}

impl LearningRate {
    /// Begins with a part of the rate, that grows in a straight line: step `s` of the first `steps`
    /// has `(s + 1) / steps` of what it would have. (Programs for TensorFlow take `s / steps` and
    /// so waste step 0.)
    #[must_use]
    pub fn warmup_steps(mut self, steps: u64) -> Self {
        self.warmup_steps = steps;
        self
    }

    /// The rate, where all steps have the same.
    pub(crate) fn constant(&self) -> Option<f32> {
        match self.schedule {
            Schedule::Constant(rate) if self.warmup_steps == 0 => Some(rate),
            _ => None,
        }
    }

    /// What of the schedule makes no sense.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match &self.schedule {
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
