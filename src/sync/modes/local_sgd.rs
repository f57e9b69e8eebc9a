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
use crate::sync::protocol::{Copies, Exchange, Needs, Problem, Protocol, at_least_1};

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
}

impl Averaging for LocalSgd {
    fn averaged(&self) -> Copies {
        let (every, exchange) = (self.every, Exchange::Begin);
        Copies { every, exchange, learning_rate: 1.0, momentum: None }
    }

    fn backups(&self) -> u32 {
        self.backups
    }
}

impl fmt::Display for LocalSgd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_averaging(f, "local SGD", self)
    }
}

/// A mode whose workers train copies of their own, and all go on from the center once it has had
/// the average of their moves.
pub(super) trait Averaging: fmt::Display {
    /// How often the copies are averaged, and what the center makes of an average.
    fn averaged(&self) -> Copies;

    /// The number of workers that an average does not wait for.
    fn backups(&self) -> u32;

    /// Checks what the center makes of an average.
    fn check_center(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// The rounds of the center.
    fn rounds(&self) -> Sync {
        Sync { backups: self.backups(), cancel: false }
    }
}

impl<M: Averaging> Protocol for M {
    fn check(&self, workers: u32) -> Result<(), Problem> {
        at_least_1("every", self.averaged().every)?;
        self.check_center()?;
        self.rounds().check(workers)
    }

    fn needs(&self) -> Needs {
        self.rounds().needs()
    }

    fn copies(&self) -> Option<Copies> {
        Some(self.averaged())
    }

    fn on_gradient(&self, arrived: &Arrived<'_>) -> Treatment {
        self.rounds().on_gradient(arrived)
    }

    fn policy(&self, workers: u32) -> Box<dyn Policy> {
        self.rounds().policy(workers)
    }

    fn steps_of_a_worker(&self, global_step: u64, _workers: u32) -> u64 {
        global_step * u64::from(self.averaged().every)
    }

    fn gradients_of_a_step(&self, workers: u32) -> u64 {
        self.rounds().gradients_of_a_step(workers) * u64::from(self.averaged().every)
    }
}

/// Writes `name`, how often copies are averaged, and the backups if there are any.
pub(super) fn fmt_averaging(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    mode: &impl Averaging,
) -> fmt::Result {
    write!(f, "{name}, every {}", mode.averaged().every)?;
    if mode.backups() == 0 { Ok(()) } else { write!(f, ", {}", mode.rounds()) }
}
