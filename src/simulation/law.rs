//! Probability distributions of compute times and of straggler factors.

use rand_distr::{Distribution, Exp1, OpenClosed01, StandardNormal, StandardUniform};
use rand_pcg::Pcg64;

use crate::operations::gamma;

/// A distribution of non-negative numbers: of a factor on a step's time, or of a time in seconds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Law {
    /// Always `value`.
    Constant {
        /// The value.
        value: f64,
    },
    /// Uniform between `low` and `high`.
    Uniform {
        /// The least value.
        low: f64,
        /// The greatest value.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// `shift` plus an exponential of mean `mean`.
    ShiftedExponential {
        /// The number added to every draw.
        shift: f64,
        /// The mean of the exponential part.
        mean: f64,
    },
    /// Lognormal, given by its mean (not its median) and the deviation of its logarithm.
    Lognormal {
        /// The mean.
        mean: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto: heavy tail above `scale`.
    Pareto {
        /// The least value.
        scale: f64,
        /// The tail index; the mean is finite above 1.
        shape: f64,
    },
    /// Weibull.
    Weibull {
        /// The scale.
        scale: f64,
        /// The shape; 1 is exponential.
        shape: f64,
    },
    /// Measured values, drawn with replacement.
    Empirical {
        /// The values.
        values: Vec<f64>,
    },
    /// Another law, with a number added to every draw.
    Shifted {
        /// The number.
        shift: f64,
        /// The law.
        law: Box<Self>,
    },
}

/// Errors of [`Law::validate`]: the parameter that is out of range, and its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// A parameter is outside of its range.
    #[error("the {law} law has {parameter} = {value}; give {range}")]
    OutOfRange {
        /// The law, as a scenario names it.
        law: &'static str,
        /// The parameter, as a scenario names it.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// The values it may have.
        range: &'static str,
    },
    /// The limits of a uniform law are swapped.
    #[error("the uniform law has low = {low} above high = {high}; swap them")]
    Reversed {
        /// The least value, as given.
        low: f64,
        /// The greatest value, as given.
        high: f64,
    },
    /// An empirical law has no values.
    #[error("the empirical law has no values; give at least one")]
    NoValues,
}

impl Law {
    /// Draws a number.
    ///
    /// # Panics
    /// If the law is empirical and has no values, which [`Law::validate`] refuses.
    pub fn sample(&self, rng: &mut Pcg64) -> f64 {
        match self {
            Self::Constant { value } => *value,
            Self::Uniform { low, high } => low + (high - low) * unit(&StandardUniform, rng),
            Self::Exponential { mean } => mean * unit(&Exp1, rng),
            Self::ShiftedExponential { shift, mean } => shift + mean * unit(&Exp1, rng),
            Self::Lognormal { mean, sigma } => {
                mean * (sigma * unit(&StandardNormal, rng) - sigma * sigma / 2.0).exp()
            }
            Self::Pareto { scale, shape } => scale * unit(&OpenClosed01, rng).powf(-1.0 / shape),
            Self::Weibull { scale, shape } => scale * unit(&Exp1, rng).powf(1.0 / shape),
            Self::Shifted { shift, law } => shift + law.sample(rng),
            Self::Empirical { values } => {
                assert!(!values.is_empty(), "an empirical law that was validated has values");
                let index = unit(&StandardUniform, rng) * values.len() as f64;
                values[(index as usize).min(values.len() - 1)]
            }
        }
    }

    /// The mean of the law; infinite for a Pareto law of shape 1 or less, NaN for an empirical one
    /// without values.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant { value } => *value,
            Self::Uniform { low, high } => low + (high - low) / 2.0,
            Self::Exponential { mean } | Self::Lognormal { mean, .. } => *mean,
            Self::ShiftedExponential { shift, mean } => shift + mean,
            Self::Pareto { shape, .. } if *shape <= 1.0 => f64::INFINITY,
            Self::Pareto { scale, shape } => scale * shape / (shape - 1.0),
            Self::Weibull { scale, shape } => scale * gamma::logarithm(1.0 + 1.0 / shape).exp(),
            Self::Empirical { values } => values.iter().sum::<f64>() / values.len() as f64,
            Self::Shifted { shift, law } => shift + law.mean(),
        }
    }

    /// The usual draw, which stragglers exceed: the mean or, of a law without one, the median.
    pub(super) fn usual(&self) -> f64 {
        match self {
            law if law.mean().is_finite() => law.mean(),
            Self::Pareto { scale, shape } => scale * 2.0_f64.powf(1.0 / shape),
            Self::Weibull { scale, shape } => scale * std::f64::consts::LN_2.powf(1.0 / shape),
            Self::Shifted { shift, law } => shift + law.usual(),
            law => law.mean(),
        }
    }

    /// Checks that no draw will be negative or not a number. One can be greater than any time, as
    /// that of a Pareto law with a tiny shape.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn validate(&self) -> Result<(), LawError> {
        match self {
            Self::Constant { value } => not_negative("constant", "value", *value),
            Self::Uniform { low, high } => {
                not_negative("uniform", "low", *low)?;
                not_negative("uniform", "high", *high)?;
                if low > high { Err(LawError::Reversed { low: *low, high: *high }) } else { Ok(()) }
            }
            Self::Exponential { mean } => not_negative("exponential", "mean", *mean),
            Self::ShiftedExponential { shift, mean } => {
                not_negative("shifted_exponential", "shift", *shift)?;
                not_negative("shifted_exponential", "mean", *mean)
            }
            Self::Lognormal { mean, sigma } => {
                not_negative("lognormal", "mean", *mean)?;
                not_negative("lognormal", "sigma", *sigma)
            }
            Self::Pareto { scale, shape } => {
                not_negative("pareto", "scale", *scale)?;
                positive("pareto", "shape", *shape)
            }
            Self::Weibull { scale, shape } => {
                not_negative("weibull", "scale", *scale)?;
                positive("weibull", "shape", *shape)
            }
            Self::Shifted { shift, law } => {
                not_negative("shifted", "shift", *shift)?;
                law.validate()
            }
            Self::Empirical { values } if values.is_empty() => Err(LawError::NoValues),
            Self::Empirical { values } => {
                values.iter().try_for_each(|value| not_negative("empirical", "values", *value))
            }
        }
    }
}

/// A draw from a distribution that has no parameters.
fn unit<D: Distribution<f64>>(distribution: &D, rng: &mut Pcg64) -> f64 {
    distribution.sample(rng)
}

fn not_negative(law: &'static str, parameter: &'static str, value: f64) -> Result<(), LawError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(LawError::OutOfRange {
        law,
        parameter,
        value,
        range: "a finite number that is not negative",
    })
}

fn positive(law: &'static str, parameter: &'static str, value: f64) -> Result<(), LawError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(LawError::OutOfRange { law, parameter, value, range: "a finite number above zero" })
}

#[cfg(test)]
mod tests;
