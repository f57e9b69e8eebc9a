//! Distributed training in the shape of TensorFlow's runtime: one program, two worlds.
pub mod cluster;
pub mod kernels;
pub mod random;
pub mod simulation;
pub mod sync;
pub mod tensor;
pub mod units;
