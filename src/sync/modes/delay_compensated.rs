//! `delay_compensated`: asynchronous, with each gradient `g` corrected for the variable's change
//! since the worker read it: it counts as `g + lambda * g * g * (now - read)` (Zheng et al.,
//! "Asynchronous Stochastic Gradient Descent with Delay Compensation", 2017: DC-ASGD-c).
//!
//! The parameter servers hold for each worker the values that it has read last. So each update
//! copies the whole variable, even if only rows of it are gathered.

use std::fmt;

use serde::Deserialize;

use crate::sync::gradients::{Arrived, Correction, Treatment};
use crate::sync::protocol::{Needs, Problem, Protocol};

/// Asynchronous, with each gradient corrected for the variable's change since the worker read it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DelayCompensated {
    pub(crate) lambda: f32,
}

impl DelayCompensated {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "delay_compensated";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ delay_compensated = { lambda = 0.04 } }";
}

impl Protocol for DelayCompensated {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        let lambda = self.lambda;
        if lambda.is_finite() && lambda >= 0.0 {
            return Ok(());
        }
        Err(("lambda", format!("{lambda} must be a finite number, at least 0")))
    }

    fn needs(&self) -> Needs {
        Needs::LastRead
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        let is_stale = arrived.now > arrived.version;
        let lambda = is_stale.then_some(self.lambda);
        Treatment::Apply(Correction { lambda, ..Correction::default() })
    }
}

impl fmt::Display for DelayCompensated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delay-compensated, lambda {}", self.lambda)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_gradient_alone_is_made_up_for_what_has_changed() {
        for (now, lambda) in [(4, None), (5, Some(0.5))] {
            let arrived = Arrived { worker: 0, version: 4, now, verdict: None };
            let expected = Correction { divisor: 1, lambda };
            let treatment = DelayCompensated { lambda: 0.5 }.on_gradient(&arrived);
            assert_eq!(treatment, Treatment::Apply(expected));
        }
    }

    #[test]
    fn a_lambda_that_is_no_weight_is_refused() {
        for lambda in [-0.1, f32::NAN, f32::INFINITY] {
            let (parameter, problem) = DelayCompensated { lambda }.check(2).unwrap_err();
            assert_eq!(parameter, "lambda");
            assert!(problem.contains("at least 0"), "{problem}");
        }
        assert_eq!(DelayCompensated { lambda: 0.0 }.check(2), Ok(()));
    }
}
