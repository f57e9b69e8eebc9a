//! `elastic_averaging`: workers train copies of their own, which an elastic force holds near the
//! center (Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", 2015: the
//! asynchronous EASGD of its algorithm 1).
//!
//! Every so many steps a worker `x` and the center `c` move towards each other, by
//! `alpha * (x - c)`. Nobody waits for others, and no worker gives up what it has explored. The
//! paper takes `alpha = 0.9 / workers`.

use std::fmt;

use serde::Deserialize;

use crate::sync::protocol::{Copies, Exchange, Problem, Protocol, at_least_1};

/// Every `every` steps a worker's copy and the center move `alpha` of the way to each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElasticAveraging {
    pub(crate) every: u32,
    pub(crate) alpha: f32,
}

impl ElasticAveraging {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "elastic_averaging";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ elastic_averaging = { every = 4, alpha = 0.1 } }";
}

impl Protocol for ElasticAveraging {
    fn check(&self, _workers: u32) -> Result<(), Problem> {
        at_least_1("every", self.every)?;
        let alpha = self.alpha;
        if alpha > 0.0 && alpha <= 1.0 {
            return Ok(());
        }
        Err(("alpha", format!("{alpha} must be above 0 and at most 1")))
    }

    fn copies(&self) -> Option<Copies> {
        let (every, exchange) = (self.every, Exchange::Pull { share: self.alpha });
        Some(Copies { every, exchange, learning_rate: 1.0, momentum: None })
    }

    fn steps_of_a_worker(&self, global_step: u64, workers: u32) -> u64 {
        global_step * u64::from(self.every) / u64::from(workers.max(1))
    }
}

impl fmt::Display for ElasticAveraging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "elastic averaging, every {}, alpha {}", self.every, self.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alpha_that_is_no_share_is_refused() {
        for alpha in [0.0, -0.1, 1.5, f32::NAN] {
            let (parameter, _) = ElasticAveraging { every: 1, alpha }.check(2).unwrap_err();
            assert_eq!(parameter, "alpha");
        }
        assert_eq!(ElasticAveraging { every: 1, alpha: 1.0 }.check(2), Ok(()));
        assert!(ElasticAveraging { every: 0, alpha: 0.1 }.check(2).is_err());
    }

    #[test]
    fn an_exchange_is_a_global_step_that_ends_so_many_steps_of_one_worker() {
        let mode = ElasticAveraging { every: 4, alpha: 0.1 };
        assert_eq!(mode.steps_of_a_worker(100, 8), 50);
    }
}
