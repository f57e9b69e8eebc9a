//! Placement: the device of each operation, from device names, device functions and colocation.
//! Pure.
//!
//! | TensorFlow | here |
//! |---|---|
//! | the whole graph is placed, and an operation that nobody fetches can fail it | the pruned graph of the step |
//! | soft placement relaxes device types without a word | nothing is relaxed |
//! | slots and variables pinned to a task take a turn of the round robin | only what it places does |
//! | greedy balancing weighs resource variables as 0 bytes | as the bytes of their value |

mod md5;
mod placer;
mod replica_device_setter;
mod strategy;
#[cfg(test)]
mod tests;

pub use placer::PlacementError;
pub(crate) use placer::place;
pub use replica_device_setter::ReplicaDeviceSetter;
pub use strategy::{Greedy, GreedyByBytes, PsStrategy, RandomByName, RoundRobin};
