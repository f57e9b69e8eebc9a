//! The cost of an operation and the kind of its kernel: the compute model's input.

use std::iter::Sum;
use std::ops::Add;

use serde::Deserialize;

listed! {
    /// The kind of a kernel. A device can reach a different share of its peak rates with each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum KernelKind {
        /// Matrix products.
        Matmul,
        /// Convolutions and their gradients.
        Convolution,
        /// Functions of single elements, and whatever is of no other kind, such as a program's own
        /// operations.
        Elementwise,
        /// Reductions, pools, normalisation and losses.
        Reduction,
        /// Kernels that only move data, and random values.
        Movement,
        /// Updates of variables, on the task that holds them.
        Update,
    }
    pub(crate) const ALL;
}

/// The work of a kernel: arithmetic and memory traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating point operations.
    pub flops: u64,
    /// The memory that is read and written \[bytes\].
    pub bytes: u64,
    /// Whether values decide how much more work it is, such as how often a loop goes round. Such
    /// work always runs beside the messages of its task, however small the rest is.
    pub is_unbounded: bool,
}

impl Cost {
    /// A kernel of `flops` operations that reads and writes `bytes`.
    pub fn work(flops: usize, bytes: usize) -> Self {
        Self { flops: flops as u64, bytes: bytes as u64, is_unbounded: false }
    }

    /// A kernel that only moves data, such as a cast or a fill: no flops.
    pub fn moved(bytes: usize) -> Self {
        Self::work(0, bytes)
    }

    /// The same, and as much more as values make of it.
    pub fn unbounded(self) -> Self {
        Self { is_unbounded: true, ..self }
    }

    /// The cost of so many runs.
    pub(crate) fn times(self, runs: u64) -> Self {
        Self {
            flops: self.flops.saturating_mul(runs),
            bytes: self.bytes.saturating_mul(runs),
            ..self
        }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
            is_unbounded: self.is_unbounded || other.is_unbounded,
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}
