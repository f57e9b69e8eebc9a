//! Which device each operation runs on. Pure: device strings, device functions, colocation, and a
//! choice among what is left.
//!
//! | TensorFlow | here |
//! |---|---|
//! | the whole graph is placed: a bad operation nobody fetches fails the session | the pruned graph of a step |
//! | soft placement relaxes device types without a word | nothing is relaxed |
//! | round robin also counts what ends up elsewhere, slots and pinned variables | only what it places |
//! | greedy balancing weighs resource variables as 0 bytes | as the bytes of their value |

mod placer;
mod replica_device_setter;
mod strategy;

pub use placer::PlacementError;
pub(crate) use placer::place;
pub use replica_device_setter::ReplicaDeviceSetter;
pub use strategy::{GreedyByBytes, PsStrategy, RoundRobin};
