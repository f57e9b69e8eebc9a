//! `staleness_aware`: asynchronous, with the learning rate divided by the gradient's staleness at
//! each variable, at least 1 (Zhang et al., "Staleness-aware Async-SGD for Distributed Deep
//! Learning", 2016).

use std::fmt;

use serde::Deserialize;

use crate::sync::gradients::{Arrived, Correction, Treatment};
use crate::sync::protocol::{Needs, Protocol};

/// Asynchronous, with the learning rate divided by the gradient's staleness.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StalenessAware {}

impl StalenessAware {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "staleness_aware";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "\"staleness_aware\"";
}

impl Protocol for StalenessAware {
    fn needs(&self) -> Needs {
        Needs::Staleness
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        let divisor = arrived.now.saturating_sub(arrived.version).max(1);
        Treatment::Apply(Correction { divisor, ..Correction::default() })
    }
}

impl fmt::Display for StalenessAware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("staleness-aware")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_is_divided_by_the_staleness_at_least_1() {
        for (now, divisor) in [(4, 1), (5, 1), (6, 2), (12, 8)] {
            let arrived = Arrived { worker: 0, version: 4, now, verdict: None };
            let expected = Correction { divisor, lambda: None };
            assert_eq!(StalenessAware {}.on_gradient(&arrived), Treatment::Apply(expected));
        }
    }
}
