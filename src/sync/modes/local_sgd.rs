//! `local_sgd`: workers train copies of their own, and every so many steps all go on from their
//! average (Stich 2019).
//!
//! An average is a round of synchronous training of the center, with the same treatment of backups,
//! lost workers and workers that come back.

use std::fmt;

use serde::Deserialize;

use super::synchronous::Sync;
use crate::sync::gradients::{Arrived, Treatment};
use crate::sync::policy::Policy;
use crate::sync::protocol::{Copies, Exchange, Needs, Problem, Protocol};

/// Workers train copies of their own, which they average every `every` steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalSgd {
    pub(crate) every: u32,
    #[serde(default)]
    pub(crate) backups: u32,
}

impl LocalSgd {
    /// The mode's name in a scenario.
    pub(super) const NAME: &str = "local_sgd";
    /// An example, as it is typed.
    pub(super) const EXAMPLE: &str = "{ local_sgd = { every = 8 } }";

    fn average(&self) -> Sync {
        Sync { backups: self.backups, cancel: false }
    }
}

impl Protocol for LocalSgd {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        check_every(self.every)?;
        self.average().check(workers)
    }

    fn needs(&self) -> Needs {
        self.average().needs()
    }

    fn copies(&self) -> Option<Copies> {
        let (every, exchange) = (self.every, Exchange::Begin);
        Some(Copies { every, exchange, learning_rate: 1.0, momentum: None })
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

/// Checks that a worker can exchange what it has learnt every `every` steps.
pub(super) fn check_every(every: u32) -> Result<(), Problem> {
    if every == 0 { Err(("every", "0 must be at least 1".to_owned())) } else { Ok(()) }
}

/// Writes `name`, how often copies are averaged, and the backups if there are any.
pub(super) fn fmt_averaging(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    every: u32,
    average: &Sync,
) -> fmt::Result {
    write!(f, "{name}, every {every}")?;
    if average.backups == 0 { Ok(()) } else { write!(f, ", {average}") }
}

impl fmt::Display for LocalSgd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_averaging(f, "local SGD", self.every, &self.average())
    }
}
