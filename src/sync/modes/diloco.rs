//! `diloco`: workers train copies of their own; every so many steps the mean of their moves is a
//! gradient for an outer optimizer, Nesterov's momentum (Douillard et al. 2023).

use std::fmt;

use serde::Deserialize;

use super::local_sgd::{check_every, fmt_averaging};
use super::synchronous::Sync;
use crate::sync::protocol::{
    Arrived, Copies, Exchange, Needs, Policy, Problem, Protocol, Treatment,
};

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

    fn average(&self) -> Sync {
        Sync { backups: self.backups, cancel: false }
    }
}

impl Protocol for DiLoCo {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        check_every(self.every)?;
        let rates = [
            ("outer_learning_rate", self.outer_learning_rate),
            ("outer_momentum", self.outer_momentum),
        ];
        for (parameter, value) in rates {
            if !(value.is_finite() && value >= 0.0) {
                return Err((parameter, "must be finite and at least 0".to_owned()));
            }
        }
        self.average().check(workers)
    }

    fn needs(&self) -> Needs {
        self.average().needs()
    }

    fn copies(&self) -> Option<Copies> {
        Some(Copies {
            every: self.every,
            exchange: Exchange::Begin,
            learning_rate: self.outer_learning_rate,
            momentum: Some(self.outer_momentum),
        })
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        self.average().on_gradient(arrived)
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        self.average().policy(workers)
    }

    fn steps_of_a_worker(&self, global_step: u64, _workers: u32) -> u64 {
        global_step * u64::from(self.every)
    }

    fn gradients_of_a_step(&self, workers: u32) -> u64 {
        self.average().gradients_of_a_step(workers) * u64::from(self.every)
    }
}

impl fmt::Display for DiLoCo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_averaging(f, "DiLoCo", self.every, &self.average())
    }
}
