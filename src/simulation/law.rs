//! Laws of chance for compute times and straggling.

/// A law of chance over non-negative numbers: a factor on a step's time, or a time itself [s].
#[derive(Clone, Debug, PartialEq)]
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
        /// What is added to every draw.
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
}
