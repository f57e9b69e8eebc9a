//! Distributed training in the shape of TensorFlow's runtime: one program, two worlds.
mod cli;
pub mod clock;
pub mod cluster;
pub mod graph;
pub mod kernels;
pub mod optimizer;
pub mod partition;
pub mod placement;
pub mod random;
pub mod report;
pub mod runtime;
pub mod simulation;
pub mod sync;
pub mod tensor;
pub mod training;
pub mod transport;
pub mod units;
