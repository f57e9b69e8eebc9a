//! The cost of an operation: the compute model's input.

use std::iter::Sum;
use std::ops::Add;

/// The work of a kernel: arithmetic and memory traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating point operations.
    pub flops: u64,
    /// The memory that is read and written \[bytes\].
    pub bytes: u64,
}

impl Cost {
    /// A kernel of `flops` operations that reads and writes `bytes`.
    pub fn work(flops: usize, bytes: usize) -> Self {
        Self { flops: flops as u64, bytes: bytes as u64 }
    }

    /// A kernel that only moves data, such as a cast or a fill: no flops.
    pub fn moved(bytes: usize) -> Self {
        Self { flops: 0, bytes: bytes as u64 }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { flops: self.flops + other.flops, bytes: self.bytes + other.bytes }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}
