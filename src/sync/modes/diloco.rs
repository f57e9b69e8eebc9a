//! `diloco`: workers train copies of their own; every so many steps the mean of their moves is a
//! gradient for an outer optimizer, Nesterov's momentum (Douillard et al. 2023).

use std::fmt;

use serde::Deserialize;

use super::local_sgd::{Averaging, fmt_averaging};
use crate::sync::protocol::{Copies, Exchange, Problem};

/// Workers train copies of their own, and an outer optimizer applies their mean move every `every`
/// steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiLoCo {
    pub(crate) every: u32,
    #[serde(default)]
    pub(crate) backups: u32,
    #[serde(default = "default_learning_rate")]
    pub(crate) outer_learning_rate: f32,
    #[serde(default = "default_momentum")]
    pub(crate) outer_momentum: f32,
}

fn default_learning_rate() -> f32 {
    0.7
}

fn default_momentum() -> f32 {
    0.9
}

impl DiLoCo {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "diloco";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ diloco = { every = 16 } }";
}

impl Averaging for DiLoCo {
    fn averaged(&self) -> Copies {
        Copies {
            every: self.every,
            exchange: Exchange::Begin,
            learning_rate: self.outer_learning_rate,
            momentum: Some(self.outer_momentum),
        }
    }

    fn backups(&self) -> u32 {
        self.backups
    }

    fn check_center(&self) -> Result<(), Problem> {
        let rates = [
            ("outer_learning_rate", self.outer_learning_rate),
            ("outer_momentum", self.outer_momentum),
        ];
        for (parameter, value) in rates {
            if !(value.is_finite() && value >= 0.0) {
                return Err((parameter, "must be finite and at least 0".to_owned()));
            }
        }
        if self.outer_momentum >= 1.0 {
            let problem = format!(
                "{} must be below 1, or what the center has moved never fades and its weights grow \
                 without bound; the paper takes 0.9",
                self.outer_momentum
            );
            return Err(("outer_momentum", problem));
        }
        Ok(())
    }
}

impl fmt::Display for DiLoCo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_averaging(f, "DiLoCo", self)?;
        let outer = [
            ("learning rate", self.outer_learning_rate, default_learning_rate()),
            ("momentum", self.outer_momentum, default_momentum()),
        ];
        for (parameter, value, default) in outer {
            if value != default {
                write!(f, ", outer {parameter} {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::protocol::Protocol;

    #[test]
    fn an_outer_momentum_of_1_or_more_is_refused() {
        let with = |outer_momentum| {
            let mode = DiLoCo { every: 4, backups: 0, outer_learning_rate: 0.7, outer_momentum };
            mode.check(2).map_err(|(parameter, _)| parameter)
        };
        for momentum in [1.0, 1.5, -0.1, f32::NAN] {
            assert_eq!(with(momentum), Err("outer_momentum"), "{momentum}");
        }
        assert_eq!([0.0, 0.99].map(with), [Ok(()); 2]);
    }
}
