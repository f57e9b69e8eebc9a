//! The description of a device's speed, and its check.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kernels::{Cost, Costs, KernelKind};
use crate::simulation::law::{Law, LawError};
use crate::units::{BytesPerSecond, FlopsPerSecond};

/// The speed of a device, and how it varies.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeSpec {
    /// Rate of arithmetic \[floating point operations/s\].
    pub rate: FlopsPerSecond,
    /// Rate of memory traffic \[bytes/s\].
    pub memory: BytesPerSecond,
    /// By kind of kernel: the share of both rates that its kernels reach; 1 for a kind that is not
    /// in it. If it is empty, arithmetic and memory traffic of different kernels overlap.
    pub efficiency: BTreeMap<KernelKind, f64>,
    /// The law of a factor on the time of each worker step, drawn once a step. On a parameter
    /// server, of each piece of its work.
    pub straggler: Option<Law>,
    /// The law of the compute time of each worker step \[s\]; replaces the cost model for these. It
    /// begins when everything that the step fetches has arrived. On a parameter server, of each
    /// piece of its work.
    pub step_time: Option<Law>,
    /// The time that a device takes to stop a step that is given up: the rest of the kernel that
    /// runs. It stops no later than it would have ended.
    pub stop_cost: Duration,
}

/// Errors of [`ComputeSpec::validate`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeSpecError {
    /// A rate is zero, negative or not finite.
    #[error("the device's {what} is {value}; give a finite rate above zero")]
    Rate {
        /// `rate` or `memory`.
        what: &'static str,
        /// The rate \[1/s\].
        value: f64,
    },
    /// An efficiency is not a share.
    #[error("the efficiency of {kind:?} kernels is {value}; give a share above 0 and at most 1")]
    Efficiency {
        /// The kind of kernel.
        kind: KernelKind,
        /// The efficiency.
        value: f64,
    },
    /// A law's parameter is out of range.
    #[error("{what}: {source}")]
    Law {
        /// `straggler` or `step_time`.
        what: &'static str,
        /// The law's error.
        source: LawError,
    },
    /// Both laws are given, though a drawn step time leaves no cost for a factor to multiply.
    #[error(
        "both step_time and straggler are given; step_time already is the whole time of a step, so \
         drop one"
    )]
    TwoLaws,
}

impl ComputeSpec {
    /// Checks that every cost will be a time, and none is negative.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), ComputeSpecError> {
        for (what, value) in [("rate", self.rate.0), ("memory", self.memory.0)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ComputeSpecError::Rate { what, value });
            }
        }
        for (kind, value) in &self.efficiency {
            if !(*value > 0.0 && *value <= 1.0) {
                return Err(ComputeSpecError::Efficiency { kind: *kind, value: *value });
            }
        }
        for (what, law) in [("straggler", &self.straggler), ("step_time", &self.step_time)] {
            if let Some(law) = law {
                law.validate().map_err(|source| ComputeSpecError::Law { what, source })?;
            }
        }
        if self.straggler.is_some() && self.step_time.is_some() {
            Err(ComputeSpecError::TwoLaws)
        } else {
            Ok(())
        }
    }

    /// The time of work without any law \[s\].
    pub(super) fn seconds(&self, costs: &Costs) -> f64 {
        let roofline =
            |cost: Cost| (cost.flops as f64 / self.rate.0).max(cost.bytes as f64 / self.memory.0);
        if self.efficiency.is_empty() {
            return roofline(costs.total());
        }
        let of_kind =
            |(kind, cost)| roofline(cost) / self.efficiency.get(&kind).copied().unwrap_or(1.0);
        costs.by_kind().map(of_kind).sum()
    }
}
