//! The faults that a simulation is given. `fault_injector` decides their effects.

use std::time::Duration;

use crate::transport::QuicConfig;

pub use crate::faults::{Damage, Fault, FaultKind, SkipReason, SkippedFault, Trigger};

/// The faults of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The time that a peer may be silent before it counts as lost; 5 s by default.
    pub silence: Duration,
    /// The faults.
    pub list: Vec<Fault>,
}

impl Faults {
    /// No faults.
    pub const fn none() -> Self {
        Self { silence: QuicConfig::SILENCE, list: Vec::new() }
    }
}
